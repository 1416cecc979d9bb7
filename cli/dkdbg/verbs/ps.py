"""`dkdbg ps`: list all sessions that can be reached from here."""

from __future__ import annotations

import contextlib
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from dkdbg import console
from dkdbg.agent.state import deadlines
from dkdbg.core import sessions
from dkdbg.errors import EXIT_ERROR, DkdbgError
from dkdbg.printable import printable
from dkdbg.targets import registry
from dkdbg.verbs.parts import several_targets

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from dkdbg.core.sessions import SeenSession
    from dkdbg.verbs.parser import Parser

#: Maximum number of stopped processes to list for a session.
_MAX_HELD = 4


def add_options(parser: Parser) -> None:
    """Add the arguments of `dkdbg ps`."""
    parser.add_argument(
        "targets",
        nargs="*",
        metavar="TARGET",
        help="only these targets; hosts behind ssh are queried only when named",
    )
    parser.add_argument("--all", action="store_true", help="include ended sessions")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")


def call(options: argparse.Namespace, root: Path) -> int:
    """Print the sessions of the named targets, or of all that can be queried; return the exit code.

    Raises:
        DkdbgError: none of the named targets can be queried.
    """
    now = time.time()
    missing: dict[str, str] = {}
    if options.targets:
        seen = several_targets.query(options.targets, lambda name: _of(root, name), missing)
    else:
        seen, missing = registry.sessions()
    code = EXIT_ERROR if options.targets and missing else 0
    names: dict[str, str] = {}
    if not options.targets:
        try:
            names = registry.names(root)
        except DkdbgError as error:  # show the sessions of the other targets
            console.warn(f"dkdbg: {error.message}")
    shown = [each for each in seen if options.all or not each.is_ended]
    if options.json:
        # `engine` and `places` are the former names of `missing` (then for one target only) and `targets`.
        reasons = "; ".join(missing.values())
        console.emit(
            {
                "sessions": [each.as_json(now) for each in shown],
                "missing": missing,
                "engine": reasons or None,
                "targets": names,
                "places": names,
            }
        )
        return code
    several_targets.warn(missing)
    for each in shown:
        if each.state == sessions.UNREADABLE:
            console.warn(f"dkdbg: {printable(each.target)}: {printable(each.detail)}")
    if not shown:
        ended = len(seen)
        console.say("no session is running" + (f" ({ended} ended: dkdbg ps --all)" if ended else ""))
    else:
        console.table(
            sessions.HEADER, sessions.rows(shown, now), styles=sessions.STYLES, whole=sessions.WHOLE
        )
    for each in shown:
        if each.manual_command:
            console.say(f"{printable(each.target)}: {printable(each.manual_command)}")
    for each in shown:
        if each.held:
            more = f" and {len(each.held) - _MAX_HELD} more" if each.held[_MAX_HELD:] else ""
            console.say(printable(f"{each.name}: held: {', '.join(each.held[:_MAX_HELD])}{more}"))
    for each in shown:
        if line := deadlines.line(each.deadlines, now):
            console.say(f"{printable(each.name)}: {line}")
    if names:
        listed = ", ".join(f"{name} ({uri})" for name, uri in names.items())
        console.say(f"targets in dkdbg.toml, queried only when named: {listed}")
    return code


def _of(root: Path, name: str) -> list[SeenSession]:
    with contextlib.closing(registry.target_of(name, root)) as target:
        seen = target.sessions()
        beside = target.deadlines()
    return [
        each if each.is_ended else replace(each, deadlines=tuple(deadlines.merged(beside, each.deadlines)))
        for each in seen
    ]
