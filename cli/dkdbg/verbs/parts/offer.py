"""Offer the changes of `init`: show them, write them once the user confirms, and print the next steps."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from dkdbg import console, hints
from dkdbg.errors import EXIT_ERROR, EXIT_USAGE, DkdbgError
from dkdbg.setup.render import changes
from dkdbg.setup.render.manifest import FOLDER, MANIFEST

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from dkdbg.setup.render.changes import FileWanted


def offer(
    root: Path, wanted: dict[str, FileWanted | None], heading: str, options: argparse.Namespace, *,
    as_json: Callable[[tuple[changes.Change, ...], tuple[changes.Kept, ...], bool], dict[str, object]],
    next_steps: Callable[[], None],
) -> int:  # fmt: skip
    """Show the changes and write them once the user confirms; return the exit code.

    Args:
        heading: what was decided, shown before the changes.
        options: the options of `init`.
        as_json: returns the --json output for the changes, the files kept as they are, and whether changes were
            written.
        next_steps: prints what to do next, after the files were written.

    Raises:
        DkdbgError: there is no terminal to confirm on, or a file cannot be read or written.
    """
    todo = changes.between(root, wanted)
    kept = changes.kept(root, wanted)
    if not options.json:
        _show(heading, todo, kept, diff=options.diff)
    if not todo and not (options.check or options.diff):
        changes.apply(root, (), changes.Journal(root=root))  # removes leftovers of a killed process
    if options.check or options.diff or not todo or (options.json and not options.yes):
        if options.json:
            console.emit(as_json(todo, kept, False))
        return EXIT_ERROR if options.check and todo else 0
    if not options.yes:
        if not console.interactive():
            raise DkdbgError(
                "nothing was written: no terminal for confirmation",
                hint=hints.INIT_CHOICE(),
                exit_code=EXIT_USAGE,
            )
        question = "Write this file?" if len(todo) == 1 else f"Write these {len(todo)} files?"
        if not console.ask(question, diff=lambda: _show_diff(todo)):
            console.say("nothing was written")
            return EXIT_ERROR
    changes.apply(root, todo, changes.Journal(root=root))
    if options.json:
        console.emit(as_json(todo, kept, True))
    else:
        files = "file" if len(todo) == 1 else "files"
        cwd = Path.cwd()
        below = "" if root in (cwd, *cwd.parents) else os.path.relpath(root, cwd)
        console.say(
            f"\nwrote {len(todo)} {files}{f' in {below}' * bool(below)}; dkdbg init --undo reverts this"
        )
        if below:
            console.say(f"that folder is the repository: cd {shlex.quote(below)}, and open it in VS Code")
        next_steps()
    return 0


def next_steps(name: str, more: str = "") -> None:
    """Print what to do next with a launch entry of this name."""
    console.say(f'next: in VS Code, choose "{name}" once under Run and Debug, set a breakpoint and press F5')
    if more:
        console.say(more)


def changes_json(
    todo: tuple[changes.Change, ...], kept: tuple[changes.Kept, ...], *, written: bool
) -> dict[str, object]:
    """Return the --json output about the changed files and those kept as they are."""
    return {
        "changes": [
            {"path": str(change.path), "change": _verb(change), "reason": change.reason} for change in todo
        ],
        "kept": [{"path": str(file.path), "reason": file.reason} for file in kept],
        "diff": changes.diff(todo),
        "written": written,
    }


def _show(
    heading: str, todo: tuple[changes.Change, ...], kept: tuple[changes.Kept, ...], *, diff: bool
) -> None:
    console.say(heading)
    console.say()
    former = tuple(change for change in todo if _is_of_former_version(change))
    others = tuple(change for change in todo if change not in former)
    if diff and others:
        _show_diff(others)
    for change in others:
        console.say(f"{_verb(change)}  {change.path}  ({change.reason})")
    if former:
        console.say(f"remove  .dkdbg/: {len(former)} files of an earlier dkdbg, now replaced by one file")
    for file in kept:
        console.say(f"keep    {file.path}  ({file.reason})")
    if not todo:
        console.say("nothing to change")


def _show_diff(todo: tuple[changes.Change, ...]) -> None:
    console.diff(
        changes.diff(
            change for change in todo if change.path != MANIFEST and not _is_of_former_version(change)
        )
    )


def _is_of_former_version(change: changes.Change) -> bool:
    """Return whether a change removes one of the agent's files: until version 0.1 it had about 70."""
    path = change.path
    return change.after is None and (
        path.is_relative_to(FOLDER / "dkdbg")
        or path in {FOLDER / "agent.sh", FOLDER / "no-ca.pem", FOLDER / "no-token"}
        or (path.parent == FOLDER and path.suffix == ".zip")
    )


def _verb(change: changes.Change) -> str:
    return "remove" if change.after is None else "change" if change.before is not None else "create"
