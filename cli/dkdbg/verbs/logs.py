"""`dkdbg logs`: print a program's output, wherever it is kept."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING

from dkdbg import hints, process
from dkdbg.core.target import Capability
from dkdbg.errors import EXIT_ERROR, EXIT_USAGE, DkdbgError
from dkdbg.printable import ForTerminal
from dkdbg.targets import registry
from dkdbg.verbs import values
from dkdbg.verbs.parts.repository import check_root, debug_service

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from dkdbg.core.target import Target
    from dkdbg.verbs.parser import Parser


def add_options(parser: Parser) -> None:
    """Add the arguments of `dkdbg logs`."""
    parser.add_argument("target", nargs="?", metavar="TARGET", help="where; the debug service by default")
    parser.add_argument("-f", "--follow", action="store_true", help="keep following until Ctrl-C")
    parser.add_argument("--tail", type=values.count, metavar="N", help="only the last N lines")


def call(options: argparse.Namespace, root: Path) -> int:
    """Print the target program's output; if no stream is a terminal, replace this process by the printing command.

    Raises:
        DkdbgError: no program has run there, or its output was not kept.
    """
    name = options.target
    if name is None:
        check_root(root, "logs")
        target = registry.home(root, debug_service(root).name)
    else:
        target = registry.target_of(name, root)
    with contextlib.closing(target):
        if Capability.LOGS not in target.capabilities:
            raise _not_stored(target)
        try:
            argv = target.logs(follow=options.follow, lines=options.tail)
        except DkdbgError as error:
            if name is None and error.exit_code == EXIT_ERROR:
                raise DkdbgError(f"{target.label} is not running", hint=hints.SERVICE_UP()) from error
            raise
    if sys.stdout.isatty() or sys.stderr.isatty():
        return process.shown(argv, ForTerminal)
    return process.become(argv)


def _not_stored(target: Target) -> DkdbgError:
    if Capability.ATTACH_ONLY in target.capabilities:
        return DkdbgError(
            f"{target.address} can only be attached to: its program's output cannot be read from here",
            hint="look where it was started: in that terminal, or in the log of the job",
            exit_code=EXIT_USAGE,
        )
    return DkdbgError(
        f"the output on {target.label} is not stored: it went to the terminal in which the program was started",
        hint=f"to keep it, start it this way: dkdbg run --on {target.address} -- python3 train.py 2>&1 | tee run.log",
        exit_code=EXIT_USAGE,
    )
