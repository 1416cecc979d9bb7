"""`dkdbg logs`: what a program has printed, wherever that is kept."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING

from dkdbg import hints, process
from dkdbg.core.target import Capability
from dkdbg.errors import EXIT_ERROR, EXIT_USAGE, DkdbgError
from dkdbg.printable import ForTerminal
from dkdbg.targets import registry
from dkdbg.verbs.init import check_root, debug_service

if TYPE_CHECKING:
    from pathlib import Path

    from dkdbg.core.target import Target


def logs(root: Path, target: str | None, *, follow: bool, lines: int | None) -> int:
    """Print what the program there has printed; where none of it goes to a terminal, the command that has kept it takes over.

    Args:
        root: the repository's root, resolved.
        target: an address or a name; None for the debug service of this repository.
        follow: go on with what comes, until Ctrl-C.
        lines: that many from the end; None for all.

    Raises:
        DkdbgError: nothing has run there, or nothing there is kept.
    """
    if target is None:
        check_root(root, "logs")
        place = registry.home(root, debug_service(root).name)
    else:
        place = registry.target_of(target, root)
    with contextlib.closing(place):
        if Capability.LOGS not in place.capabilities:
            raise _kept_nowhere(place)
        try:
            argv = place.logs(follow=follow, lines=lines)
        except DkdbgError as error:
            if target is None and error.exit_code == EXIT_ERROR:
                raise DkdbgError(f"{place.label} does not run", hint=hints.SERVICE_UP()) from error
            raise
    if sys.stdout.isatty() or sys.stderr.isatty():
        return process.shown(argv, ForTerminal)
    return process.become(argv)


def _kept_nowhere(place: Target) -> DkdbgError:
    if Capability.ATTACH_ONLY in place.capabilities:
        return DkdbgError(
            f"{place.address} can only be attached to: what its program prints is not seen from here",
            hint="look where it was started: in that terminal, or in the log of the job",
            exit_code=EXIT_USAGE,
        )
    return DkdbgError(
        f"what is printed on {place.label} is kept nowhere: it went to the terminal that the program was started in",
        hint=f"to keep it, start it this way: dkdbg run --on {place.address} -- python3 train.py 2>&1 | tee run.log",
        exit_code=EXIT_USAGE,
    )
