"""`dkdbg ranks`: pause or continue all ranks, or show their stacks or a value of each side by side."""

from __future__ import annotations

import argparse
import contextlib
import copy
import os
import re
import shlex
from typing import TYPE_CHECKING

from dkdbg import console, process
from dkdbg.agent.proxy.broker import comparing
from dkdbg.core import plot as pictures
from dkdbg.core import ranks as answers
from dkdbg.core import sessions
from dkdbg.core.known_errors import last_line
from dkdbg.errors import EXIT_ERROR, DkdbgError
from dkdbg.targets import registry
from dkdbg.verbs import values
from dkdbg.verbs.parts import several_targets
from dkdbg.verbs.parts.repository import only_session

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from dkdbg.core.ranks import Row
    from dkdbg.core.sessions import SeenSession
    from dkdbg.verbs.parser import Parser

#: Seconds added to the timeout for answers: for an ssh connection, and to start Python on a busy machine.
_GRACE_S = 90.0
#: Timeout in seconds for the editor's command that opens a file in its running window.
_OPEN_TIMEOUT_S = 30.0


def add_options(parser: Parser) -> None:
    """Add the arguments of `dkdbg ranks`."""
    parser.add_argument("--ranks", dest="set", metavar="SET", default="all", help="0,3 or 0-7:2 (all)")
    parser.add_argument(
        "--on",
        action="append",
        default=[],
        metavar="TARGET",
        help="where (repeatable); by default this repository's debug service, else the only session",
    )
    parser.add_argument(
        "--frame", type=values.count, default=0, metavar="N", help="evaluate N callers further up (0)"
    )
    parser.add_argument(
        "--limit",
        type=values.seconds,
        default=10,
        metavar="SECONDS",
        help="how long to wait for answers (10)",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    before = parser._actions[1:]  # noqa: SLF001 - all but --help
    what = parser.add_subparsers(dest="what", required=True, metavar="pause | continue | stack | eval")
    for name, text in (
        ("pause", "pause the ranks, for an attached editor"),
        ("continue", "let the ranks continue"),
        ("stack", "show where each rank is paused"),
    ):
        _accept_behind(what.add_parser(name, help=text), before).set_defaults(expression="")
    value = _accept_behind(what.add_parser("eval", help="show a value of each paused rank"), before)
    value.add_argument("expression", metavar="EXPR")
    value.add_argument(
        "--plot", action="store_true", help="write a PNG: each tensor as a picture and a histogram"
    )
    value.add_argument("--out", metavar="FILE.png", help="with --plot: the output file (default: EXPR.png)")


def _accept_behind(
    parser: argparse.ArgumentParser, options: Sequence[argparse.Action]
) -> argparse.ArgumentParser:
    """Accept the options also after the subcommand, as other verbs do; `--on` in both places adds up."""
    for each in options:
        behind = copy.copy(each)
        behind.default = behind.help = argparse.SUPPRESS
        behind.dest = "on_behind" if each.dest == "on" else each.dest
        parser._add_action(behind)  # noqa: SLF001
    parser.set_defaults(on_behind=[])
    return parser


def call(options: argparse.Namespace, root: Path) -> int:
    """Query the chosen ranks and print their answers; return 1 if a rank, or one of several targets, did not answer.

    Raises:
        DkdbgError: no session fits, or its agent does not answer.
    """
    verb, expression, targets = options.what, options.expression, options.on + options.on_behind
    plot = verb == "eval" and options.plot
    arguments = [
        "ranks",
        "--json",
        "--ranks",
        str(answers.rank_set(options.set)),
        "--frame",
        str(options.frame),
    ]
    arguments += ["--limit", str(options.limit), verb]
    asked = pictures.expression(expression) if plot else expression
    arguments += ["--", asked] if verb == "eval" else []
    typed = f"eval {shlex.quote(expression)}" if verb == "eval" else verb
    several = len(targets) > 1

    def ask(target: str | None) -> list[tuple[SeenSession, list[Row]]]:
        session = _session(root, target, typed, several=several)
        return [(session, _ask(root, session, arguments, options.limit))]

    missing: dict[str, str] = {}
    found = several_targets.query(targets or (None,), ask, missing)
    rows = [
        {**row, "on": session.target} if several else row
        for session, found_rows in found
        for row in found_rows
    ]
    several_targets.warn(missing)
    if plot:
        at = found[-1][0].address
        hint = f"dkdbg ranks --on {shlex.quote(at)} eval {shlex.quote(expression)} shows the values"
        path = _unused(root, expression) if options.out is None else root / options.out
        code = _plot(rows, path, hint)
        return EXIT_ERROR if missing else code
    if options.json:
        console.emit({"rows": rows, "summary": comparing.summary(rows), "missing": missing})
    else:
        console.say(comparing.table(rows, frames=verb == "stack"))
        if rows and verb == "pause" and all(row["state"] == "not attached" for row in rows):
            console.warn(
                "dkdbg: only an editor can keep the ranks paused: attach one first; eval and stack need no editor"
            )
    is_whole = rows and not missing and all(row["state"] in {"value", "done"} for row in rows)
    return 0 if is_whole else EXIT_ERROR


def _plot(rows: Sequence[Row], path: Path, hint: str) -> int:
    """Write a picture of the values of the ranks that answered; return 1 if a rank did not.

    Args:
        hint: what to type if no rank has a value to plot.
    """
    shown: list[pictures.Shown] = []
    failed = 0
    for row in rows[: pictures.MAX_RANKS]:
        label = comparing.label(row)
        try:
            if row["state"] != "value":
                raise DkdbgError(f"{label}: {row['text'] or row['state']}")
            shown.append(pictures.read(row["text"], label))
        except DkdbgError as error:
            console.warn(f"dkdbg: {error.message}")
            failed += 1
            continue
        console.say(f"{label}  {comparing.clean(shown[-1].text)}")
    if not shown:
        raise DkdbgError("no rank has a value to plot", hint=hint)
    try:
        with path.open("xb") as picture:
            picture.write(pictures.png(shown))
    except FileExistsError as error:
        raise DkdbgError(
            f"{path} exists already", hint="name another file with --out, or omit --out"
        ) from error
    except OSError as error:
        raise DkdbgError(
            f"cannot write {path}: {error.strerror}",
            hint="name a file in a writable folder: --out FILE.png",
        ) from error
    console.say(
        f"{path}: one row per rank, low values black, high values white, NaN and Inf red; histogram on the right"
    )
    _open_in_editor(path)
    return EXIT_ERROR if failed else 0


def _open_in_editor(path: Path) -> None:
    """Open a picture in VS Code or an editor based on it, if this terminal belongs to one."""
    if os.environ.get("TERM_PROGRAM") != "vscode":
        return
    names = ("cursor",) if "CURSOR_TRACE_ID" in os.environ else ("code", "code-insiders", "codium")
    program = next((each for each in names if process.is_installed(each)), None)
    if program is not None and process.run([program, "-r", str(path)], timeout=_OPEN_TIMEOUT_S).code == 0:
        console.say(f"opened in your editor ({program} -r)")


def _unused(root: Path, expression: str) -> Path:
    """Return the path of a file that does not exist yet, named after an expression."""
    name = re.sub(r"\W+", "-", expression, flags=re.ASCII).strip("-")[:40] or "plot"
    found, number = root / f"{name}.png", 2
    while found.exists() or found.is_symlink():
        found, number = root / f"{name}-{number}.png", number + 1
    return found


def _ask(root: Path, session: SeenSession, arguments: Sequence[str], limit: float) -> list[Row]:
    target = registry.target_at(registry.address_of(session.address), root)
    with contextlib.closing(target):
        argv = target.wrap([*target.running_agent(), arguments[0], "--name", session.id, *arguments[1:]])
        result = process.read(argv, max_bytes=answers.MAX_ANSWER_BYTES, timeout=limit + _GRACE_S)
    if not result.stdout.strip():
        last = last_line(result.stderr).removeprefix("dkdbg: ")
        raise DkdbgError(
            f"{session.target}: {last or f'{result.argv[0]} ended with {result.code}'}",
            hint=f"dkdbg ps {session.address} shows what runs there",
        )
    return answers.rows_of(result.stdout, session.target)


def _session(root: Path, name: str | None, typed: str, *, several: bool) -> SeenSession:
    """Return the session to query.

    Args:
        typed: subcommand as typed, for a hint that names one of several sessions.
        several: whether other targets are queried, too; then a target without a session is not a usage error.
    """

    def naming(where: str) -> str:
        return f"dkdbg ranks --on {where} " + typed

    if name is None:
        return only_session(root, naming)
    target = registry.target_of(name, root)
    with contextlib.closing(target):
        seen = target.sessions()
        begin = registry.how_to_begin(str(target.address), seen)
        if several and all(each.is_ended or each.state == sessions.UNREADABLE for each in seen):
            raise DkdbgError(f"no session is running on {target.label}", hint=begin)
        return sessions.choose(seen, name, naming=naming, begin=begin)
