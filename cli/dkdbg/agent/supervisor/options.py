"""Options of `launch` and `supervise`, from flags and from the environment variables in settings.py."""

from __future__ import annotations

import os
import types

from dkdbg.agent import contract, settings
from dkdbg.agent.inprocess import duration
from dkdbg.agent.supervisor import exposure
from dkdbg.launchers.words import whole_number

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import List, Optional

#: Values of --on-crash for `supervise`: what to do when the program exits with a code other than 0.
ON_CRASH = ("restart", "wait", "exit")
MAX_RESTARTS = 10
_SOURCES = (".py",)
_MORE_SOURCES = (".yaml", ".yml", ".toml", ".json")
_YES = ("1", "true", "yes", "on")


class Supervision(types.SimpleNamespace):
    """Options of `supervise`: when to restart the program.

    Attributes:
        folders: folders to watch for changes. Empty for the mapped folders, or without these the working directory;
            None to watch nothing.
        suffixes: suffixes of watched files.
        on_crash: one of ON_CRASH.
        max_restarts: maximum restarts after crashes in a row; then the agent waits for a change or a request.
        interactive: one Ctrl-C restarts, two within 2 s quit.
    """

    folders: Optional[List[str]]
    suffixes: tuple[str, ...]
    on_crash: str
    max_restarts: int
    interactive: bool


class Options(types.SimpleNamespace):
    """The parsed options.

    Attributes:
        or_free_port: whether to take a free port if `port` is taken; true if `port` is only a default.
        wait: seconds to wait for an editor before the start.
        then: `exit` or `run`, if no editor attaches in that time.
        restart: one of contract.RESTART.
        supervision: None when the program runs once.
        linger: seconds after the program's start. If the program ends before that, the agent waits for an editor until
            then, unless it has waited before the start, or an editor has attached.
        run: ID of the `dkdbg run` that has started the agent.
        unblock_sigterm: whether to unblock SIGTERM for the program, because unpack.py has blocked it.
        limit: seconds after which the port closes, 0 for no limit.
    """

    command: List[str]
    host: str
    port: int
    or_free_port: bool
    wait: float
    then: str
    name: str
    runtime: Optional[str]
    restart: str
    supervision: Optional[Supervision]
    linger: float
    run: str
    unblock_sigterm: bool
    limit: float


def parse(argv: List[str], *, supervised: bool, usage: str) -> Options:
    """Parse `argv`, the arguments after the subcommand, together with the environment.

    `launch` with DKDBG_RELOAD=1 is `supervise --reload`: one entry point in a compose file serves both.

    Raises:
        ValueError: an option is wrong; the text explains it.
    """
    if "--" not in argv:
        raise ValueError("write -- before the command")
    cut = argv.index("--")
    command = argv[cut + 1 :]
    if not command:
        raise ValueError("no command after --")
    reload = os.environ.get(settings.ENV_RELOAD, "").lower() in _YES
    supervised = supervised or reload
    given = _parser(usage, supervised=supervised).parse_args(argv[:cut])
    if given.then not in ("exit", "run"):
        raise ValueError("--then (%s) takes exit or run, not %r" % (settings.ENV_THEN, given.then))
    restart = os.environ.get(settings.ENV_RESTART) or contract.RESTART_ASK
    if restart not in contract.RESTART:
        raise ValueError("%s takes %s, not %r" % (settings.ENV_RESTART, ", ".join(contract.RESTART), restart))
    refused = exposure.refusal(given.host, os.environ)
    if refused:
        raise ValueError(refused)
    return Options(
        command=command,
        host=given.host,
        port=_port(given.port),
        or_free_port=given.or_free_port,
        wait=_seconds(given.wait),
        then=given.then,
        name=given.name,
        runtime=given.runtime,
        restart=restart,
        supervision=_supervision(given, reload=reload) if supervised else None,
        linger=0.0 if supervised else _seconds(os.environ.get(settings.ENV_LINGER) or "0"),
        run=given.run,
        unblock_sigterm=given.unblock_sigterm,
        limit=_limit(os.environ.get(settings.ENV_FOR, "")),
    )


def _parser(usage: str, *, supervised: bool) -> argparse.ArgumentParser:
    import argparse

    environment = os.environ
    wait = environment.get(settings.ENV_WAIT) or environment.get(settings.ENV_WAIT_OPENPAI) or "0"
    name = environment.get(settings.ENV_NAME) or os.uname().nodename
    parser = argparse.ArgumentParser(prog="dkdbg.agent", usage=usage)
    parser.add_argument("--host", default=environment.get(settings.ENV_HOST) or contract.LOOPBACK)
    parser.add_argument("--port", default=environment.get(settings.ENV_PORT) or str(contract.DEFAULT_PORT))
    parser.add_argument("--or-free-port", action="store_true")
    parser.add_argument("--wait", default=wait)
    parser.add_argument("--then", default=environment.get(settings.ENV_THEN) or "exit")
    parser.add_argument("--name", default=name)
    parser.add_argument("--runtime", default=None)
    parser.add_argument("--run", default="")
    parser.add_argument("--unblock-sigterm", action="store_true")
    if supervised:
        parser.add_argument("--reload", nargs="*", metavar="DIR", default=None)
        parser.add_argument("--reload-config", action="store_true")
        parser.add_argument("--on-crash", default="wait")
        parser.add_argument("--max-restarts", default=str(MAX_RESTARTS))
        parser.add_argument("--interactive", action="store_true")
    return parser


def _supervision(given: argparse.Namespace, *, reload: bool) -> Supervision:
    if given.on_crash not in ON_CRASH:
        raise ValueError(
            "--on-crash takes %s or %s, not %r" % (", ".join(ON_CRASH[:-1]), ON_CRASH[-1], given.on_crash)
        )
    max_restarts = whole_number(given.max_restarts)
    if max_restarts is None:
        raise ValueError("--max-restarts takes a whole number, not %r" % given.max_restarts)
    for folder in given.reload or ():
        if not os.path.isdir(folder):
            raise ValueError("--reload: there is no folder %s" % folder)
    return Supervision(
        folders=given.reload if given.reload is not None or not reload else [],
        suffixes=_SOURCES + _MORE_SOURCES if given.reload_config else _SOURCES,
        on_crash=given.on_crash,
        max_restarts=max_restarts,
        interactive=given.interactive or os.isatty(0) or os.isatty(1),
    )


def _port(text: str) -> int:
    port = whole_number(text, 65535)
    if port is None:
        raise ValueError("a port (%s) must be a number up to 65535, not %r" % (settings.ENV_PORT, text))
    return port


def _limit(text: str) -> float:
    seconds = duration.seconds_of(text, least=1.0) if text else 0.0
    if seconds is None:
        raise ValueError(
            "%s takes a time such as 2h, 30m or 90s, not %r (1s to 8760h)" % (settings.ENV_FOR, text)
        )
    return seconds


def _seconds(text: str) -> float:
    if text == "forever":
        return float("inf")
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not seconds >= 0:
        raise ValueError(
            "a time to wait (%s) must be a number of seconds or `forever`, not %r" % (settings.ENV_WAIT, text)
        )
    return seconds
