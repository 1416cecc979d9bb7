"""Let the user choose one of several programs; a script gets the best one and the list."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from dkdbg import console

if TYPE_CHECKING:
    from dkdbg.core.facts import EntryPoint
    from dkdbg.core.plan import ProjectPlan

#: Maximum points behind the best candidate for a candidate to be offered; see setup/detect/launch/entrypoint.py.
_NEAR = 6.0
_MOST = 8


def choose_program(plan: ProjectPlan) -> tuple[str, str | None]:
    """Return the folder of the project to set up (empty for this one), and the command, None for the plan's own.

    Do not ask without a terminal, or if an image or a service defines the program.
    """
    facts = plan.facts
    best = facts.entrypoint
    if best is None or not plan.service.from_entry or not console.interactive():
        return "", None
    if facts.projects:
        own = next(
            (at for at, each in enumerate(facts.projects) if (best.file or "").startswith(each.folder + "/")),
            0,
        )
        chosen = console.choose(
            "This repository has several projects. Which one?",
            [f"{each.folder}  ({each.program.rsplit('/', 1)[-1]})" for each in facts.projects], start=own,
        )  # fmt: skip
        return ("", None) if chosen is None else (facts.projects[chosen].folder, None)
    near = [
        item for item in facts.candidates if best.points - item.points <= _NEAR and not item.shows_windows
    ][:_MOST]
    if len(near) < 2:
        return "", None
    chosen = console.choose("Which program is the one to debug?", [_shown(item) for item in near])
    if chosen is None or near[chosen] == best:
        return "", None
    return "", _typed(near[chosen])


def _shown(item: EntryPoint) -> str:
    folder = "" if item.cwd in {".", ""} else f"in {item.cwd}, "
    return f"{item.command}  ({folder}{item.source})"


def _typed(item: EntryPoint) -> str:
    from dkdbg.launchers.lines.blanks import as_words, without_blanks

    words, left = without_blanks(as_words(item.command))
    line = shlex.join(words) if left else item.command
    return line if item.cwd in {".", ""} else f"cd {shlex.quote(item.cwd)} && {line}"
