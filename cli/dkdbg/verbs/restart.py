"""`dkdbg restart`: the program started again, where it runs and the attached editor untouched."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from dkdbg import console, process
from dkdbg.core import sessions
from dkdbg.errors import DkdbgError
from dkdbg.printable import printable
from dkdbg.targets import registry
from dkdbg.verbs.init import check_root, debug_service

if TYPE_CHECKING:
    from pathlib import Path

    from dkdbg.core.target import Target


def restart(root: Path, target: str | None = None) -> int:
    """Ask the agent there to restart the program; the exit code.

    Args:
        root: the repository's root, resolved.
        target: an address or a name; None for the debug service of this repository.

    Raises:
        DkdbgError: nothing runs there, or it was not restarted.
    """
    if target is None:
        check_root(root, "restart")
        service = debug_service(root)
        place = registry.home(root, service.name)
        if replaced := place.replaced():
            place.start_again()
            console.say(
                f"{service.name}: its container is started again, an editor attaches anew: "
                f"{', '.join(map(printable, replaced))} is mounted by itself, and another file is in its place since"
            )
            return 0
    else:
        place = registry.target_of(target, root)
    with contextlib.closing(place):
        return _restart(root, place, target)


def _restart(root: Path, place: Target, target: str | None) -> int:
    agent = place.agent()
    if agent is None:
        raise DkdbgError(f"no agent of dkdbg runs on {place.label}", hint="dkdbg ps shows where one does")
    result = process.run(place.wrap([*agent, "restart", *_which(place, target)]), cwd=root)
    if result.code:
        said = (
            result.stderr.strip() or result.stdout.strip() or f"{result.argv[0]} ended with {result.code}"
        ).splitlines()
        raise DkdbgError(
            f"{place.label} was not restarted: {said[-1].removeprefix('dkdbg: ').removeprefix('not restarted: ')}",
            hint=f"dkdbg ps {place.address} shows what runs there",
        )
    console.say(f"{place.label}: {result.stdout.strip().removeprefix('dkdbg: ')}")
    return 0


def _which(place: Target, target: str | None) -> list[str]:
    """The words that name the session there: of several the agent would take the newest.

    Raises:
        DkdbgError: several fit.
    """
    seen = [each for each in place.sessions() if not each.is_ended and each.started is not None]
    if not seen:  # the agent says what is there
        return []
    return [
        "--name",
        sessions.choose(seen, target, naming="dkdbg restart {}".format, address=str(place.address)).id,
    ]
