"""`dkdbg where`: show where all processes of a job are, and which of them differ from the rest."""

from __future__ import annotations

import contextlib
import time
from datetime import datetime
from typing import TYPE_CHECKING

from dkdbg import console
from dkdbg.core import sessions
from dkdbg.core.ranks import rank_set
from dkdbg.errors import EXIT_ERROR, EXIT_USAGE, DkdbgError
from dkdbg.hang import hang_map, output
from dkdbg.hang.hang_map import Staleness
from dkdbg.hang.query import Wanted, ask
from dkdbg.printable import printable
from dkdbg.setup.render import manifest
from dkdbg.targets import registry
from dkdbg.verbs.parts import several_targets

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence
    from pathlib import Path

    from dkdbg.agent.inprocess.ranks import RankSet
    from dkdbg.core.sessions import SeenSession
    from dkdbg.core.target import Target
    from dkdbg.verbs.parser import Parser


_NONE = (
    "no process on the target has dkdbg's hook; to see one without it: dkdbg attach TARGET --pid PID, "
    "or py-spy dump --pid PID on the target"
)
#: Seconds between two polls.
_POLL_S = 2.0


def add_options(parser: Parser) -> None:
    """Add the arguments of `dkdbg where`."""
    parser.add_argument(
        "targets",
        nargs="*",
        metavar="TARGET",
        help="only these targets; hosts behind ssh are queried only when named",
    )
    parser.add_argument("--ranks", dest="set", metavar="SET", default="all", help="0,3 or 0-7:2 (all)")
    parser.add_argument("--watch", action="store_true", help="repeat every 2 seconds until Ctrl-C")
    parser.add_argument("--html", metavar="FILE", help="write a page for a browser, with a grid of the ranks")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of text")
    parser.add_argument(
        "--native",
        action="store_true",
        help="with native frames; needs py-spy on the target, and permission to use it",
    )


def call(options: argparse.Namespace, root: Path) -> int:
    """Show the hang map of the named targets' sessions, or of all that can be reached from here; return the exit code.

    Raises:
        DkdbgError: no session runs, none of the named targets can be queried, or the set of ranks is malformed.
    """
    wanted = _ranks(options.set)
    staleness = Staleness() if options.watch else None
    try:
        while True:
            code = _show(root, options, wanted, staleness)
            if not options.watch:
                return code
            time.sleep(_POLL_S)
    except KeyboardInterrupt:
        if not options.watch:
            raise
        return 0


def _show(root: Path, options: argparse.Namespace, wanted: RankSet, staleness: Staleness | None) -> int:
    began = time.monotonic()
    wanted_of, unreadable = _wanted(root, options.targets)
    found, silent = ask(wanted_of, native=options.native)
    missing = {**unreadable, **silent}
    is_short = bool(missing) and len(options.targets) > 1
    jobs = hang_map.jobs(each for each in found if each.processes)
    if not wanted.everyone:
        jobs = [hang_map.chosen(each, wanted.contains) for each in jobs if each.ranks]
    if staleness is not None:
        staleness.update(jobs, began)
    asked = f"{datetime.now().astimezone():%Y-%m-%d %H:%M:%S %Z}"
    page_file = None if options.html is None else root / options.html
    shown = [output.as_json(each, partial=bool(missing)) for each in jobs]
    if page_file is not None:
        from dkdbg.hang import page  # takes 40 ms, and is needed only here

        page.write(page_file, page.page(shown, asked=asked, again=options.watch))
    if options.json:
        answer = {"asked": asked, "jobs": shown, "missing": missing}
        (console.emit_line if options.watch else console.emit)(answer)
        return EXIT_ERROR if is_short or (missing and not jobs) else 0
    several_targets.warn(missing)
    lines = [line for job in jobs for line in [*output.lines(job, staleness, partial=bool(missing)), ""]]
    waiting = [
        _not_started(each, name) for each in wanted_of if each.label not in silent for name in each.waiting
    ]
    if waiting:
        lines += [*waiting, ""]
    elif not jobs:
        lines = ["no process has answered" if missing else _NONE, ""]
    lines.append(f"queried in {time.monotonic() - began:.1f} s; nothing was stopped")
    if options.native:
        lines[-1] = f"queried in {time.monotonic() - began:.1f} s; py-spy paused each process for a moment"
    if page_file is not None:
        lines.append(f"the page is {printable(page_file)}")
    (console.screen if options.watch else console.say)("\n".join(lines))
    return EXIT_ERROR if is_short or (missing and not jobs) else 0


def _ranks(written: str) -> RankSet:
    found = rank_set(written)
    if found.failing:
        raise DkdbgError(
            "dkdbg where does not accept --ranks failing: it lists failing ranks first anyway",
            hint="dkdbg where", exit_code=EXIT_USAGE,
        )  # fmt: skip
    return found


def _wanted(root: Path, targets: Sequence[str]) -> tuple[list[Wanted], dict[str, str]]:
    """Return the targets to query, with their sessions, and target name -> reason for each that cannot be queried."""
    if not targets:
        seen, silent = registry.sessions(installed=True)
        return _of_sessions(root, seen, silent, is_set_up=_is_set_up(root))
    missing: dict[str, str] = {}

    def named(name: str) -> list[tuple[str, Target]]:
        targets = registry.targets_of(name, root)
        return [(name if len(targets) == 1 else str(each.address), each) for each in targets]

    answers = several_targets.query(targets, named, missing)
    found = several_targets.query(
        answers, lambda pair: _of_target(pair[1], missing), missing, name=lambda pair: pair[0]
    )
    return found, missing


def _of_target(target: Target, missing: dict[str, str]) -> list[Wanted]:
    """Return the target if it has sessions that can be read; record those that cannot in `missing`.

    Raises:
        DkdbgError: the target does not answer, or no session is running there.
    """
    try:
        seen = target.sessions()
    except DkdbgError:
        target.close()
        raise
    live, unreadable = _readable(seen)
    missing.update(unreadable)
    if not live and not unreadable:
        raise DkdbgError(
            f"no session is running on {target.label}",
            hint=registry.how_to_begin(str(target.address), seen),
        )
    return [_query(target, live)] if live else []  # querying an unreadable session would time out again


def _is_set_up(root: Path) -> bool:
    """Return whether this repository has a debug service; it may run on an engine that does not answer."""
    with contextlib.suppress(DkdbgError):  # a damaged file must not hide other sessions
        return manifest.debug_service(root, changed=True) is not None
    return True


def _of_sessions(
    root: Path, seen: Sequence[SeenSession], silent: dict[str, str], *, is_set_up: bool
) -> tuple[list[Wanted], dict[str, str]]:
    live, unreadable = _readable(seen)
    missing = {**(silent if is_set_up else {}), **unreadable}
    if not live and not missing:
        beside = (f"; {scheme} cannot be queried: {reason}" for scheme, reason in silent.items())
        raise DkdbgError(
            f"no session is running{''.join(beside)}",
            hint="dkdbg ps --all; a job behind ssh or in a cluster is queried only when named",
        )
    by_address: dict[str, list[SeenSession]] = {}
    for each in live:
        by_address.setdefault(each.address, []).append(each)
    found = [
        _query(registry.target_at(registry.address_of(address), root), group)
        for address, group in by_address.items()
    ]
    return found, missing


def _readable(seen: Sequence[SeenSession]) -> tuple[list[SeenSession], dict[str, str]]:
    """Return the sessions that run, and target -> reason for each that cannot be read."""
    unreadable = {each.target: each.detail for each in seen if each.state == sessions.UNREADABLE}
    return [each for each in seen if not each.is_ended and each.state != sessions.UNREADABLE], unreadable


def _query(target: Target, live: Sequence[SeenSession]) -> Wanted:
    return Wanted(
        target=target,
        label=live[0].target,
        ids=tuple(each.id for each in live),
        waiting=tuple(each.name for each in live if each.state == "waiting" and not each.processes),
    )


def _not_started(wanted: Wanted, name: str) -> str:
    attach = f"dkdbg attach {printable(str(wanted.target.address))}"
    return (
        f"{printable(name)} ({printable(wanted.label)}): not started yet: it waits for an editor ({attach})"
    )
