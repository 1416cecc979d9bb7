"""Flags of `launch` that only change the program's environment: pdb, what happens at a crash, torch.compile."""

from __future__ import annotations

from dkdbg.agent import contract
from dkdbg.agent.front import tokens
from dkdbg.agent.program import crash, pdb_token
from dkdbg.agent.run import exposure

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List, MutableMapping

_YES = ("1", "true", "yes", "on")


def take_flags(words: List[str], environment: MutableMapping[str, str]) -> List[str]:
    """Move `--pdb [HOST:]PORT`, `--on-crash hold=TIME`, `--no-compile` and `--housekeeping` into the environment.

    Args:
        words: the command line after the sub-command; what follows `--` is the user's.
        environment: the agent's own, which the program inherits.

    Returns:
        The words that are left.

    Raises:
        ValueError: a flag, or the variable behind it, has no meaning, or would let others run code.
    """
    cut = words.index("--") if "--" in words else len(words)
    left: List[str] = []
    flags = list(words[:cut])
    while flags:
        flag = flags.pop(0)
        name, equals, value = flag.partition("=")
        if flag == "--no-compile":
            environment[contract.ENV_NO_COMPILE] = "1"
        elif flag == "--housekeeping":
            environment[contract.ENV_HOUSEKEEPING] = "1"
        elif name == "--pdb":
            environment[contract.ENV_PDB] = _address(value if equals else _next(flags, flag))
            environment[contract.ENV_PDB_AT_START] = "1"
        elif name == "--on-crash" and (value if equals else (flags or [""])[0]).startswith("hold"):
            environment[contract.ENV_ON_CRASH] = value if equals else flags.pop(0)
        else:
            left.append(flag)
    if environment.get(contract.ENV_ON_CRASH):
        crash.parse(environment[contract.ENV_ON_CRASH])
    if environment.get(contract.ENV_PDB):
        environment[contract.ENV_PDB] = address = _address(environment[contract.ENV_PDB])
        refused = exposure.pdb_refusal(address, environment)
        if refused:
            raise ValueError(refused)
    return left + words[cut:]


def prepare(environment: MutableMapping[str, str], wait: float, then: str) -> float:
    """Add what a program finds in its environment; return how long the agent itself has to wait for an editor.

    Args:
        environment: the agent's own, which the program inherits.
        wait: seconds that were asked for.
        then: `exit` or `run`.
    """
    environment.setdefault(contract.ENV_BREAKPOINT_WAIT, "forever" if wait == float("inf") else "%g" % wait)
    # Any value of the user's is his choice; `0` switches breakpoint() off.
    environment.setdefault("PYTHONBREAKPOINT", "dkdbg.breakpoint")
    if environment.get(contract.ENV_NO_COMPILE, "").lower() in _YES:
        environment["TORCH_COMPILE_DISABLE"] = "1"
    digest = _digest(environment)
    if digest:
        environment[contract.ENV_PDB_TOKEN] = digest
    if environment.get(contract.ENV_PDB_AT_START):
        environment[contract.ENV_BREAKPOINT_WAIT] = "forever" if wait == float("inf") else "%g" % wait
        environment[contract.ENV_THEN] = then
        return 0.0  # the program waits at its first line
    return wait


def _digest(environment: MutableMapping[str, str]) -> str:
    """Return salt and digest of the token, by which pdb in the program can check one."""
    try:
        token = tokens.read(environment)
    except ValueError:  # the session says so in a moment
        return ""
    if not token:
        return ""
    return pdb_token.digest(token)


def _address(text: str) -> str:
    host, _, port = text.rpartition(":")
    if not port.isdigit() or int(port) > 65535:
        raise ValueError("--pdb (%s) is PORT or HOST:PORT, not %r" % (contract.ENV_PDB, text))
    return "%s:%s" % (host or "127.0.0.1", port)


def _next(flags: List[str], flag: str) -> str:
    if not flags:
        raise ValueError("%s needs a value" % flag)
    return flags.pop(0)
