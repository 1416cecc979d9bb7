"""`dkdbg down`: stop and remove the debug service."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dkdbg import console
from dkdbg.targets import registry
from dkdbg.verbs.parts.repository import check_root, debug_service
from dkdbg.verbs.up import startable

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from dkdbg.verbs.parser import Parser


def add_options(parser: Parser) -> None:
    """Add the arguments of `dkdbg down`."""
    parser.add_argument(
        "target",
        nargs="?",
        metavar="TARGET",
        help="remove the copy that dkdbg up TARGET started, not the debug service",
    )
    parser.add_argument(
        "--all", action="store_true", help="stop the whole compose project, profiled services included"
    )


def call(options: argparse.Namespace, root: Path) -> int:
    """Stop and remove the debug service, the whole project, or a debug copy; return the exit code.

    Raises:
        DkdbgError: stopping failed, with the cause and what to do next.
    """
    if options.target:
        from dkdbg.verbs.parts import debug_copy

        return debug_copy.down(root, options.target)
    check_root(root, "down")
    service = debug_service(root)
    target = startable(registry.home(root, service.name))
    console.say(target.down(service, everything=options.all))
    return 0
