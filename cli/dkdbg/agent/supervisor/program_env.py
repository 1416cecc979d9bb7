"""Handles the flags of `launch` that only set environment variables of the program: pdb, crashes, torch.compile, ..."""

from __future__ import annotations

import os

from dkdbg.agent import console, settings
from dkdbg.agent.contract import CONTINUE_ALL, CONTINUES, LOOPBACK
from dkdbg.agent.inprocess import duration, ranks
from dkdbg.agent.inprocess.pdb import pdb_login
from dkdbg.agent.proxy.listener import tokens
from dkdbg.agent.supervisor import exposure, profiles, reverse
from dkdbg.launchers.lines import wrappers
from dkdbg.launchers.words import whole_number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, List, MutableMapping

_YES = ("1", "true", "yes", "on")


#: Flags with a value -> variable.
_FLAGS = {
    **profiles.FLAGS, "--connect": settings.ENV_CONNECT, "--ranks": settings.ENV_RANKS,
    "--continue": settings.ENV_CONTINUE, "--beats": settings.ENV_BEATS,
}  # fmt: skip


def take_flags(argv: List[str], environment: MutableMapping[str, str]) -> List[str]:
    """Turn flags such as `--pdb [HOST:]PORT` or `--on-crash hold=TIME` into variables; return the remaining arguments.

    Args:
        argv: the command line after the subcommand; everything after `--` is the user's.
        environment: the agent's own, which the program inherits.

    Raises:
        ValueError: a flag or its variable is invalid, or would let other users run code.
    """
    cut = argv.index("--") if "--" in argv else len(argv)
    left: List[str] = []
    flags = list(argv[:cut])
    while flags:
        flag = flags.pop(0)
        name, equals, value = flag.partition("=")
        if flag == "--no-compile":
            environment[settings.ENV_NO_COMPILE] = "1"
        elif flag == "--housekeeping":
            environment[settings.ENV_HOUSEKEEPING] = "1"
        elif name in _FLAGS:
            environment[_FLAGS[name]] = value if equals else _next(flags, flag)
        elif name == "--ray-workers":
            _open_ray_workers(environment, value if equals else _next(flags, flag))
        elif name == "--pdb":
            environment[settings.ENV_PDB] = _address(value if equals else _next(flags, flag))
            environment[settings.ENV_PDB_AT_START] = "1"
        elif name == "--on-crash" and (value if equals else (flags or [""])[0]).startswith("hold"):
            environment[settings.ENV_ON_CRASH] = value if equals else flags.pop(0)
        else:
            left.append(flag)
    if environment.get(settings.ENV_ON_CRASH):
        duration.hold_seconds(environment[settings.ENV_ON_CRASH])
    if environment.get(settings.ENV_RANKS):
        environment[settings.ENV_RANKS] = _ranks(environment[settings.ENV_RANKS])
    if environment.get(settings.ENV_CONTINUE, CONTINUE_ALL) not in (*CONTINUES, ""):
        raise ValueError(
            "--continue (%s) takes %s, not %r"
            % (settings.ENV_CONTINUE, " or ".join(CONTINUES), environment[settings.ENV_CONTINUE])
        )
    reverse.asked(environment)
    if settings.ENV_NEMO_RL_NSYS in (own := _set_by_env(argv[cut + 1 :])):
        environment[settings.ENV_NEMO_RL_NSYS] = own[settings.ENV_NEMO_RL_NSYS]
    # tini warns if it is not process 1, which the agent is here; as a subreaper it can reap children all the same.
    if os.path.basename((argv[cut + 1 :] or [""])[0]).startswith("tini"):
        environment.setdefault("TINI_SUBREAPER", "1")
    profiles.prepare(environment, console.log)
    if environment.get(settings.ENV_PDB):
        environment[settings.ENV_PDB] = address = _address(environment[settings.ENV_PDB])
        refused = exposure.pdb_refusal(address, environment)
        if refused:
            raise ValueError(refused)
    return left + argv[cut:]


def prepare(environment: MutableMapping[str, str], wait: float, then: str) -> float:
    """Complete the program's environment; return how long the agent itself has to wait for an editor.

    Args:
        environment: the agent's own, which the program inherits.
        wait: requested seconds.
        then: `exit` or `run`.
    """
    environment.setdefault(settings.ENV_BREAKPOINT_WAIT, "forever" if wait == float("inf") else "%g" % wait)
    # Keep the user's own value; `0` switches breakpoint() off.
    environment.setdefault("PYTHONBREAKPOINT", "dkdbg.breakpoint")
    if environment.get(settings.ENV_NO_COMPILE, "").lower() in _YES:
        environment["TORCH_COMPILE_DISABLE"] = "1"
    digest = _digest(environment)
    if digest:
        environment[settings.ENV_PDB_TOKEN] = digest
    if environment.get(settings.ENV_PDB_AT_START):
        environment[settings.ENV_BREAKPOINT_WAIT] = "forever" if wait == float("inf") else "%g" % wait
        environment[settings.ENV_THEN] = then
        return 0.0  # the program itself waits, in pdb at its first line
    return wait


def _set_by_env(command: List[str]) -> Dict[str, str]:
    """Return the variables that a command sets for its program: `env NAME=VALUE ... PROGRAM`."""
    if os.path.basename((command or [""])[0]) != "env":
        return {}
    found: Dict[str, str] = {}
    for word in wrappers.after_options(command[1:], wrappers.PREFIX_VALUES["env"]):
        name, equals, value = word.partition("=")
        if not equals:
            break
        found[name] = value
    return found


def _open_ray_workers(environment: MutableMapping[str, str], patterns: str) -> None:
    """Make Ray workers that match the patterns debuggable; their driver sets them up (inprocess/ray/hook.py)."""
    if not any(each.strip() for each in patterns.split(",")):
        raise ValueError(
            "--ray-workers takes shell patterns separated by commas, such as '*policy*,crunch', not %r"
            % patterns
        )
    environment["DKDBG_RAY_WORKERS"] = patterns


def _digest(environment: MutableMapping[str, str]) -> str:
    """Return salt and digest of the token, against which pdb in the program checks a client's token."""
    try:
        token = tokens.read(environment)
    except ValueError:  # the session reports it shortly
        return ""
    return pdb_login.digest(token) if token else ""


def _ranks(text: str) -> str:
    try:
        return str(ranks.parse(text))
    except ranks.RankSetError as error:
        raise ValueError("--ranks (%s): %s; %s" % (settings.ENV_RANKS, error, error.hint)) from error


def _address(text: str) -> str:
    host, _, port = text.rpartition(":")
    if whole_number(port, 65535) is None:
        raise ValueError("--pdb (%s) takes PORT or HOST:PORT, not %r" % (settings.ENV_PDB, text))
    return "%s:%s" % (host or LOOPBACK, port)


def _next(flags: List[str], flag: str) -> str:
    if not flags:
        raise ValueError("%s needs a value" % flag)
    return flags.pop(0)
