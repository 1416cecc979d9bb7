"""List the decisions of a plan that have alternatives, so that the user can choose."""

from __future__ import annotations

import math
import shlex
from typing import TYPE_CHECKING

from dkdbg.core.plan import Choice, Option
from dkdbg.launchers import registry
from dkdbg.launchers.launcher import NOTEBOOK
from dkdbg.launchers.lines.blanks import as_words, without_blanks
from dkdbg.launchers.lines.command_lines import serves
from dkdbg.setup.plan.service import SCRIPT_WAIT_S, stands_in

if TYPE_CHECKING:
    from dkdbg.core.config import Config
    from dkdbg.core.facts import DockerfileFact, EntryPoint, RepoFacts
    from dkdbg.core.plan import ServicePlan

#: `init` asks about a program with at most this many points less than the best one (see
#: setup/detect/launch/entrypoint.py).
_NEAR_POINTS = 3.0
#: Maximum number of questions in one `init`; maximum number of options in one question.
MAX_QUESTIONS, MAX_ASKED = 3, 5
_MAX_OPTIONS = 60


def choices(
    facts: RepoFacts,
    config: Config,
    service: ServicePlan,
    dockerfile: DockerfileFact | None,
    *,
    is_generated: bool,
) -> tuple[Choice, ...]:
    """Return the choices that the user has not made, in the order of asking.

    A choice without alternatives is omitted, except `command`.

    Args:
        config: command line options and dkdbg.toml.
        dockerfile: the user's Dockerfile for the image; None if the user has none.
        is_generated: whether dkdbg generates the Dockerfile.
    """
    gpu = Option(value=facts.gpu, source=facts.gpu_source)
    python = Option(value=facts.python.version, source=facts.python.source)
    base = service.extends
    named, built = None, None
    if base is not None:
        named = Option(value=base.flag_value([each.name for each in facts.services]), source=base.file)
    elif facts.dockerfile and not is_generated:
        built = Option(value=facts.dockerfile, source="it builds this repository")
    found = [
        _of_facts(facts, "service", named),
        _of_facts(facts, "dockerfile", built),
        _command(facts, service, dockerfile),
        _of_facts(facts, "python", python if is_generated else None),
        _of_facts(facts, "gpu", gpu),
        _wait(facts, service),
    ]
    return tuple(
        each
        for each in found
        if each is not None and (each.options[1:] or each.topic == "command") and getattr(config, each.topic) is None
    )  # fmt: skip


def _of_facts(facts: RepoFacts, topic: str, chosen: Option | None) -> Choice | None:
    if chosen is None:
        return None
    rivals = [each for each in facts.rivals if each.topic == topic and each.value != chosen.value]
    close = [each for each in rivals if each.is_close]
    ordered = [*close, *(each for each in rivals if not each.is_close)]
    options = (chosen, *(Option(value=each.value, source=each.source) for each in ordered))
    return Choice(topic=topic, options=options[:_MAX_OPTIONS], close=min(1 + len(close), MAX_ASKED))


def _command(facts: RepoFacts, service: ServicePlan, dockerfile: DockerfileFact | None) -> Choice | None:
    """Return the planned command, and the other programs as alternatives.

    A command from a service or an image is certain, so no alternative is close. If the service only idles, the three
    best programs are close.
    """
    best = facts.entrypoint
    usable = [each for each in facts.candidates if not each.shows_windows]
    if service.from_entry and best is not None:
        chosen = Option(value=typed(best), source=best.where, program=best)
    elif not service.idle:
        runs = next((each for each in facts.candidates if stands_in(each, service.extends, dockerfile)), None)
        where = service.extends.file if service.extends else dockerfile.path if dockerfile else ""
        chosen = Option(value=shlex.join(service.argv), source=where, program=runs)
    else:
        chosen = Option(value=shlex.join(service.argv), source="")
    rivals = [each for each in usable if each != chosen.program]
    if service.idle:
        near = [each for each in rivals if registry.role_of(each.launcher) != NOTEBOOK and not each.error][:3]
        rivals = [*near, *(each for each in rivals if each not in near)]
    else:
        limit = best.points - _NEAR_POINTS if service.from_entry and best else math.inf
        near = [each for each in rivals if each.points >= limit]
    options = (chosen, *(Option(value=typed(each), source=each.where, program=each) for each in rivals))
    return Choice(topic="command", options=options[:_MAX_OPTIONS], close=min(1 + len(near), MAX_ASKED))


def _wait(facts: RepoFacts, service: ServicePlan) -> Choice | None:
    """Return the choice whether to wait for an editor or start at once; None if the command only idles.

    Both options are close for a script with published ports: it may be a server or a training run.
    """
    entry = facts.entrypoint
    if service.idle:
        return None
    waits = Option(value=str(SCRIPT_WAIT_S), source="a breakpoint on the first line is hit")
    starts = Option(value="0", source="it starts at once, as a server should")
    is_unclear = (
        not service.wait
        and not serves(service.argv)
        and entry is not None
        and entry.launcher == "python"
        and entry.listens is None
    )
    options = (waits, starts) if service.wait else (starts, waits)
    return Choice(topic="wait", options=options, close=1 + is_unclear)


def typed(entry: EntryPoint) -> str:
    """Return a program's command line as a value for `--command`, which starts in the repository's root."""
    argv, left = without_blanks(as_words(entry.command))
    line = shlex.join(argv) if left else entry.command
    return line if entry.cwd in {".", ""} else f"cd {shlex.quote(entry.cwd)} && {line}"


def unasked(choices: tuple[Choice, ...]) -> tuple[str, ...]:
    """Return a line for each choice with close alternatives: the chosen value, the others, and the option to use."""
    return tuple(
        f"{each.topic}: {shown(each.options[0])}; it could be {' or '.join(map(shown, each.options[1 : each.close]))}"
        f" (choose with --{each.topic})"
        for each in choices
        if each.close > 1
    )


def shown(option: Option) -> str:
    """Return an option's value as text, with its source in parentheses."""
    return f"{option.value}  ({option.source})" if option.source else option.value
