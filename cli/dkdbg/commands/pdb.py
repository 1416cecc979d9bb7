"""`dkdbg pdb`: a terminal for the program, without an editor."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from dkdbg import process
from dkdbg.errors import DkdbgError
from dkdbg.places import registry
from dkdbg.targets import sessions

if TYPE_CHECKING:
    from pathlib import Path

    from dkdbg.targets.sessions import SeenSession


def pdb(root: Path, target: str | None, *, pid: int | None, rank: int | None = None) -> int:
    """Enter a session's process at its next line; `q` leaves it and the program goes on. The exit code.

    Args:
        root: the repository's root, resolved.
        target: an address, or the name of a service, a container or a session; None when only one session runs.
        pid: in the target's own numbering; rank 0, or else the program's first Python process, by default.
        rank: the process with this rank.

    Raises:
        DkdbgError: there is no such session, or more than one.
    """
    session = _session(root, target)
    place = registry.place_at(registry.address_of(session.address), root)
    agent = place.agent()
    if agent is None:
        raise DkdbgError(f"no agent of dkdbg runs on {session.target}", hint="dkdbg ps")
    words = ["pdb", "--name", session.id, *(["--pid", str(pid)] if pid is not None else [])]
    words += ["--rank", str(rank)] if rank is not None else []
    return process.become(place.wrap([*agent, *words], tty=sys.stdin.isatty()))


def _session(root: Path, target: str | None) -> SeenSession:
    if target is None:
        return sessions.choose(registry.sessions()[0])
    place = registry.place_of(target, root)
    try:
        seen = place.sessions()
    except DkdbgError:  # nothing of this name is there: say what is
        return sessions.choose([], target, others=registry.sessions()[0])
    return sessions.choose(seen, target)
