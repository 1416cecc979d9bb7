"""`dkdbg pdb`: debug the program in a terminal, without an editor."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from dkdbg import process
from dkdbg.core import sessions
from dkdbg.errors import DkdbgError
from dkdbg.targets import registry
from dkdbg.verbs.parts.repository import only_session

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from dkdbg.core.sessions import SeenSession
    from dkdbg.verbs.parser import Parser


#: How to start a program that does not wait for an editor: as the debug service, or otherwise.
_STARTS_AT_ONCE = "DKDBG_WAIT=0 dkdbg up, or dkdbg run without --wait"


def add_options(parser: Parser) -> None:
    """Add the arguments of `dkdbg pdb`."""
    parser.add_argument(
        "target",
        nargs="?",
        metavar="TARGET",
        help="where; by default this repository's debug service, else the only session",
    )
    parser.add_argument("--pid", type=int, metavar="PID", help="which process, by its pid on the target")
    parser.add_argument("--rank", type=int, metavar="N", help="which process, by its rank (0 by default)")


def call(options: argparse.Namespace, root: Path) -> int:
    """Attach pdb to a process of a session at its next line, until `q` detaches it; return the exit code.

    The default is the process of rank 0, otherwise the program's first Python process.

    Raises:
        DkdbgError: no session fits, several do, or the program still waits for an editor.
    """
    session = _session(root, options.target)
    if session.state == "waiting" and not session.processes:
        raise DkdbgError(
            f"the program of {session.name} has not started yet: it is {session.detail or 'waiting for a debugger'}",
            hint=f"let an editor attach first (F5), or start it without the wait: {_STARTS_AT_ONCE}",
        )
    target = registry.target_at(registry.address_of(session.address), root)
    arguments = ["pdb", "--name", session.id]
    arguments += ["--pid", str(options.pid)] if options.pid is not None else []
    arguments += ["--rank", str(options.rank)] if options.rank is not None else []
    return process.become(target.wrap([*target.running_agent(), *arguments], tty=sys.stdin.isatty()))


def _session(root: Path, name: str | None) -> SeenSession:
    if name is None:
        return only_session(root, _naming)
    target = registry.target_of(name, root)
    try:
        seen = target.sessions()
    except DkdbgError:  # not a target's name: list the running sessions
        others = [each for each in registry.sessions()[0] if not each.is_ended]
        if not others:
            raise
        return sessions.choose([], name, others=others, naming=_naming)
    return sessions.choose(seen, name, naming=_naming, begin=registry.how_to_begin(str(target.address), seen))


def _naming(where: str) -> str:
    return f"dkdbg pdb {where}"
