"""Let the user choose where `init` is unsure; a script gets the first options and a line about the others."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from dkdbg import console
from dkdbg.setup.plan.choices import MAX_QUESTIONS, shown, unasked
from dkdbg.verbs.parts.repository import make_plan

if TYPE_CHECKING:
    from pathlib import Path

    from dkdbg.core.config import Config
    from dkdbg.core.plan import ProjectPlan

    Asked = dict[str, str | int | None]

_QUESTIONS = {
    "service": "Which service runs the program to debug?",
    "dockerfile": "Which Dockerfile builds its image?",
    "command": "Which program is the one to debug?",
    "python": "Which Python does it run on?",
    "gpu": "Does it need a GPU?",
    "wait": "How many seconds should it wait for an editor?",
}


def with_answers(root: Path, plan: ProjectPlan, config: Config, asked: Asked) -> tuple[ProjectPlan, Config]:
    """Ask about the close choices of a plan; return the plan and the configuration with the answers.

    Args:
        asked: values of flags, by their keys in dkdbg.toml.
    """
    done: set[str] = set()
    for _ in range(MAX_QUESTIONS):
        choice = next((each for each in plan.choices if each.close > 1 and each.topic not in done), None)
        if choice is None:
            break
        done.add(choice.topic)
        picked = console.choose(
            _QUESTIONS[choice.topic], [shown(each) for each in choice.options[: choice.close]]
        )
        if picked:
            value = choice.options[picked].value
            asked = {**asked, choice.topic: int(value) if choice.topic == "wait" else value}
            plan, config = make_plan(root, **asked)
    left = tuple(each for each in plan.choices if each.topic not in done)
    return replace(plan, choices=left), config


def choose_project(plan: ProjectPlan) -> str:
    """Return the folder of the project to set up, where a repository has several; empty for this one."""
    facts, best = plan.facts, plan.facts.entrypoint
    if best is None or not plan.service.from_entry or not facts.projects:
        return ""
    folders = [each.folder for each in facts.projects]
    own = next((at for at, folder in enumerate(folders) if (best.file or "").startswith(folder + "/")), 0)
    chosen = console.choose(
        "This repository has several projects. Which one?",
        [f"{each.folder}  ({each.program.rsplit('/', 1)[-1]})" for each in facts.projects],
        start=own,
    )
    return "" if chosen is None else folders[chosen]


def with_unasked(plan: ProjectPlan) -> ProjectPlan:
    """Return the plan with a note for each choice that has not been asked."""
    return replace(plan, notes=(*plan.notes, *unasked(plan.choices)))
