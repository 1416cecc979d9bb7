"""`dkdbg pdb`: a terminal for the program, without an editor."""

from __future__ import annotations

import sys

from dkdbg import engine, process
from dkdbg.commands.ps import find
from dkdbg.errors import EXIT_USAGE, DkdbgError


def pdb(target: str | None, *, pid: int | None, rank: int | None = None) -> int:
    """Enter a session's process at its next line; `q` leaves it and the program goes on. The exit code.

    Args:
        target: a session's name, its id or its container's name; None when there is only one.
        pid: in the target's own numbering; rank 0, or else the program's first Python process, by default.
        rank: the process with this rank.

    Raises:
        DkdbgError: there is no such session, or more than one.
    """
    seen, _ = find()
    live = [each for each in seen if not each.is_ended]
    found = [
        each for each in live if target in {None, each.name, each.id, each.target.removeprefix("container ")}
    ]
    if len(found) != 1:
        names = ", ".join(f"{each.name} ({each.target})" for each in found or live)
        problem = "no session is running" if not live else f"{target or 'this'} names {len(found)} sessions"
        raise DkdbgError(
            problem + (f"; there are: {names}" if names else ""), hint="dkdbg ps", exit_code=EXIT_USAGE
        )
    session = found[0]
    words = ["pdb", "--name", session.id, *(["--pid", str(pid)] if pid is not None else [])]
    words += ["--rank", str(rank)] if rank is not None else []
    if session.target == "local":
        from dkdbg.agent.run import pdb_client

        return pdb_client.main(words[1:])
    return process.become(
        engine.agent_command(session.target.removeprefix("container "), words, tty=sys.stdin.isatty())
    )
