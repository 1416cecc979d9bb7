"""`dkdbg ranks`: one question to all ranks: pause, continue, their stacks, or an expression side by side."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
from typing import TYPE_CHECKING

from dkdbg import console, process
from dkdbg.agent.proxy.broker import comparing
from dkdbg.core import plot as pictures
from dkdbg.core import ranks as answers
from dkdbg.core import sessions
from dkdbg.errors import EXIT_ERROR, DkdbgError
from dkdbg.targets import registry
from dkdbg.verbs.only_session import only_session

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from dkdbg.core.ranks import Row
    from dkdbg.core.sessions import SeenSession

#: Seconds beyond the limit for the answers: an ssh connection, a start of Python on a busy machine.
_GRACE = 90.0
#: And for an editor's command to hand a file to the window that is open.
_OPENING = 30.0
_REFUSED = "no agent of dkdbg runs on"


def ranks(
    root: Path,
    verb: str,
    expression: str,
    *,
    targets: Sequence[str],
    chosen: str,
    frame: int,
    limit: float,
    as_json: bool,
    plot: bool = False,
    out: str | None = None,
) -> int:
    """Ask all chosen ranks and show what they answer; 1 if one of them has none.

    Args:
        root: the repository's root, resolved.
        verb: pause, continue, stack or eval. expression: for eval.
        targets: addresses or names; none for this repository's debug service, or else the only session there is.
        chosen: a set of ranks as it is written.
        frame: how many callers above the top of the stack an expression is evaluated in.
        limit: seconds for the answers.
        plot: write a PNG of the tensors that the expression gives, to `out`, or to a new file that is named after it.

    Raises:
        DkdbgError: there is no such session, or its agent gives no answer.
    """
    words = [
        "ranks",
        "--json",
        "--ranks",
        answers.check_set(chosen),
        "--frame",
        str(frame),
        "--limit",
        str(limit),
        verb,
    ]
    asked = pictures.expression(expression) if plot else expression
    words += ["--", asked] if verb == "eval" else []
    rows: list[Row] = []
    typed = f"eval {shlex.quote(expression)}" if verb == "eval" else verb
    at = ""
    for target in targets or (None,):
        session = _session(root, target, typed)
        at = session.address
        found = _ask(root, session, words, limit)
        rows += [{**row, "on": session.target} for row in found] if len(targets) > 1 else found
    if plot:
        hint = f"dkdbg ranks --on {shlex.quote(at)} eval {shlex.quote(expression)} says what there is"
        return _plot(rows, _unused(root, expression) if out is None else root / out, hint)
    if as_json:
        console.emit({"rows": rows, "summary": comparing.summary(rows)})
    else:
        console.say(comparing.table(rows, frames=verb == "stack"))
        if rows and verb == "pause" and all(row["state"] == "not attached" for row in rows):
            console.warn(
                "dkdbg: only an editor can hold them for longer: attach one. eval and stack need none"
            )
    return 0 if rows and all(row["state"] in {"value", "done"} for row in rows) else EXIT_ERROR


def _plot(rows: Sequence[Row], path: Path, hint: str) -> int:
    """Write the picture of those that have answered; 1 if one of them has not.

    Args:
        hint: what to type when there is nothing to show.
    """
    shown: list[pictures.Shown] = []
    failed = 0
    for row in rows[: pictures.MOST]:
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
        raise DkdbgError("there is nothing to show", hint=hint)
    try:
        with path.open("xb") as picture:
            picture.write(pictures.png(shown))
    except FileExistsError as error:
        raise DkdbgError(f"{path} is there already", hint="another --out, or none") from error
    except OSError as error:
        raise DkdbgError(f"cannot write {path}: {error.strerror}", hint="another --out") from error
    console.say(
        f"{path}: one row each, from low (black) to high (white), red where it is not a number; the histogram is on the right"
    )
    _open_in_editor(path)
    return EXIT_ERROR if failed else 0


def _open_in_editor(path: Path) -> None:
    """Show a picture in the VS Code, or the editor made of it, in whose terminal we are; elsewhere nothing."""
    if os.environ.get("TERM_PROGRAM") != "vscode":
        return
    names = ("cursor",) if "CURSOR_TRACE_ID" in os.environ else ("code", "code-insiders", "codium")
    program = next((each for each in names if process.is_installed(each)), None)
    if program is not None and process.run([program, "-r", str(path)], timeout=_OPENING).code == 0:
        console.say(f"opened in your editor ({program} -r)")


def _unused(root: Path, expression: str) -> Path:
    """A file that is not there, named after an expression."""
    name = re.sub(r"\W+", "-", expression, flags=re.ASCII).strip("-")[:40] or "plot"
    found, number = root / f"{name}.png", 2
    while found.exists() or found.is_symlink():
        found, number = root / f"{name}-{number}.png", number + 1
    return found


def _ask(root: Path, session: SeenSession, words: Sequence[str], limit: float) -> list[Row]:
    target = registry.target_at(registry.address_of(session.address), root)
    with contextlib.closing(target):
        agent = target.agent()
        if agent is None:
            raise DkdbgError(f"{_REFUSED} {session.target}", hint="dkdbg ps shows where one does")
        argv = target.wrap([*agent, words[0], "--name", session.id, *words[1:]])
        result = process.read(argv, most=answers.MOST, timeout=limit + _GRACE)
    if not result.stdout.strip():
        said = (result.stderr.strip() or f"{result.argv[0]} ended with {result.code}").splitlines()
        raise DkdbgError(
            f"{session.target}: {said[-1].removeprefix('dkdbg: ')}",
            hint=f"dkdbg ps {session.address} shows what runs there",
        )
    return answers.rows_of(result.stdout, session.target)


def _session(root: Path, name: str | None, typed: str) -> SeenSession:
    """The one to ask.

    Args:
        typed: what somebody wants to know of it, for the command line that names one of several.
    """

    def naming(where: str) -> str:
        return f"dkdbg ranks --on {where} " + typed

    if name is None:
        return only_session(root, naming)
    target = registry.target_of(name, root)
    with contextlib.closing(target):
        return sessions.choose(target.sessions(), name, naming=naming, address=str(target.address))
