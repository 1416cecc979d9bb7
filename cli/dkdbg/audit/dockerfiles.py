"""Audit Dockerfiles, and the requirements files whose packages they install."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tomlkit.exceptions import TOMLKitError

from dkdbg.audit import commands, ports, secrets
from dkdbg.audit.rules import BUILD_SECRET, OPEN_PORT, SHIPS, Found, is_for_debugging
from dkdbg.setup.detect.docker.dockerfile_syntax import NAME, json_words, parse_instructions, split
from dkdbg.setup.detect.values import elements, load_toml, table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from dkdbg.setup.detect.docker.dockerfile_syntax import Instruction

#: Files with the name of a Dockerfile that are none: .dockerignore files and templates.
_OTHER = re.compile(r".*\.(?:dockerignore|j2|jinja2?|tmpl|tpl)", re.IGNORECASE)
_FROM = re.compile(r"(?:--\S+\s+)*(\S+)(?:\s+[Aa][Ss]\s+(\S+))?")
_COMMAND_END = re.compile(r"[;&|\n]")
_INSTALLER = re.compile(r"\b(?:pip3?|uv|conda|mamba|micromamba|poetry|pdm|pipx)\b")
_INSTALL = re.compile(r"\s(?:install|add|sync)\s")
_PACKAGE = re.compile(r"(?<![\w/.-])(debugpy|ptvsd|pydevd(?:-pycharm)?)(?![\w-])")
_INSTALLS_PROJECT = re.compile(
    r"\bpip3?\s+install\b[^;&|\n]{0,400}?[\s\"'](?:\.|/[\w/]+)(?:\[[\w,-]*\])?(?=[\s\"']|$)|\buv\s+(?:sync|pip\s+install)\b"
    r"|\buv\s+run\b(?![^;&|\n]{0,400}?\s--(?:no-sync|no-project|script)\b)"
    r"|\b(?:poetry|pdm)\s+(?:install|sync)\b"
)
#: An extra of the repository's package, installed by pip or uv: `.[dev,test]` (group 1), `--extra dev` (2), or all (3).
_EXTRA = re.compile(
    r"[\s\"'](?:\.|/[\w/]+)\[([\w,.-]{1,200})\]|\s--extra[=\s]([\w.-]{1,100})|\s(--all-extras)\b"
)
_REQUIREMENTS = re.compile(
    r"[\w.-]*requirements[\w.-]*\.(?:txt|in)|environment[\w.-]*\.ya?ml|Pipfile|pyproject\.toml"
)
#: A list of packages that pip or uv installs.
_READS = re.compile(r"(?:-r|--requirements?)[\s=]+[\"']?([\w./-]{1,200})")
_FROM_STAGE = re.compile(r"--from=[\"']?([\w.-]+)")
#: Folders of installed packages; the argument of pip and venv that names another one; tools with one in the project.
_PACKAGES = re.compile(
    r"(?:site|dist)-packages|(?:^|/)\.?v(?:irtual)?env\b|/\.local(?:/lib[^/]*)?$|^/usr(?:/local(?:/lib(?:/python[\d.]*)?)?)?$|^/opt/(?:conda|mamba)"
)
_PLACE = re.compile(
    r"(?:\s--(?:prefix|target|root|user-base)|\s-t|\bv(?:irtual)?env(?:\s+--?[\w-]+){0,5}|\b(?:VIRTUAL_ENV|UV_PROJECT_ENVIRONMENT|PYTHONUSERBASE))[\s=]+[\"']?(/[\w./-]{1,200})"
)
_IN_PROJECT = re.compile(r"\buv\s+sync\b|\bvirtualenvs[.-]in-project\b|\bPOETRY_VIRTUALENVS_IN_PROJECT\b")
_DEBUGGERS = ("debugpy", "ptvsd", "pydevd", "pydevd-pycharm")
_DEBUGGER = re.compile(r"^[ \t]*(?:-[ \t]+)?[\"']?(debugpy|ptvsd|pydevd(?:-pycharm)?)(?![\w-])", re.MULTILINE)


def is_dockerfile(path: str) -> bool:
    """Return whether a file is a Dockerfile, by its name."""
    name = path.rsplit("/", 1)[-1]
    return NAME.fullmatch(name) is not None and not _OTHER.fullmatch(name)


@dataclass(kw_only=True)
class _Stage:
    base: str
    name: str
    steps: list[Instruction] = field(default_factory=list)


def _stages(text: str) -> tuple[list[Instruction], list[_Stage]]:
    """Return the instructions before the first stage, and the stages."""
    before: list[Instruction] = []
    found: list[_Stage] = []
    for step in parse_instructions(text):
        if step.keyword == "FROM" and (named := _FROM.match(step.rest)) is not None:
            found.append(_Stage(base=named[1].lower(), name=(named[2] or "").lower()))
        elif found:
            found[-1].steps.append(step)
        else:
            before.append(step)
    return before, found


def _shipped(stages: list[_Stage]) -> list[_Stage]:
    """Return the stages of the production image: the last one not named for debugging, and those that it builds on."""
    found: list[_Stage] = []
    for each in reversed(stages):
        if each.name == found[-1].base if found else not is_for_debugging(each.name):
            found.append(each)
    return found


def _copied(stages: list[_Stage], shipped: list[_Stage]) -> list[_Stage]:
    """Return the stages whose installed packages the production image copies, and the stages that those build on."""
    found: list[_Stage] = []
    for stage in shipped:
        for step in stage.steps:
            origin = _FROM_STAGE.search(step.rest) if step.keyword == "COPY" else None
            named = origin and next(
                (each for at, each in enumerate(stages) if origin[1].lower() in {each.name, str(at)}), None
            )
            sources = [word for word in split(step.rest) if not word.startswith("--")][:-1]
            while named and named not in (*shipped, *found) and _has_packages(named, sources):
                found.append(named)
                named = next((each for each in stages if each.name == named.base), None)
    return found


def _has_packages(stage: _Stage, sources: Iterable[str]) -> bool:
    """Return whether one of the paths in a stage is a folder of installed packages, or has one below."""
    runs = "\n".join(_text(step) for step in stage.steps if step.keyword in {"RUN", "ENV"})
    places = {match[1].rstrip("/") for match in _PLACE.finditer(runs)}
    if _IN_PROJECT.search(runs):
        places |= {step.rest.strip().rstrip("/") for step in stage.steps if step.keyword == "WORKDIR"}
    for source in (each.rstrip("/") for each in sources):
        if _PACKAGES.search(source) or any(f"{place}/".startswith(f"{source}/") for place in places):
            return True
    return False


def _text(step: Instruction) -> str:
    command = " ".join(json_words(step.rest)) if step.rest.startswith("[") else step.rest
    return "\n".join((command, *(each.replace("\\\n", " ") for each in step.heredocs)))


def _located(step: Instruction, check: Callable[[str], Iterable[tuple[str, str]]]) -> Iterator[Found]:
    """Yield what `check` finds in an instruction, at the line of a here-document that has it alone, if one does."""
    lines: dict[tuple[str, str], int] = {}
    for line, command in _heredoc_commands(step):
        for each in check(command):
            lines.setdefault(each, line)
    for each in check(_text(step)):
        yield lines.get(each, step.line), *each


def _heredoc_commands(step: Instruction) -> Iterator[tuple[int, str]]:
    """Yield the commands of here-documents with their first lines; a backslash continues a line."""
    for begin, text in zip(step.heredoc_lines, step.heredocs, strict=True):
        first, parts = begin, list[str]()
        for number, line in enumerate(text.split("\n"), begin):
            if not parts:
                first = number
            parts.append(line.removesuffix("\\"))
            if not line.endswith("\\"):
                yield first, " ".join(parts)
                parts = []


def _ships_debugger(text: str) -> Iterator[tuple[str, str]]:
    if package := _installs(text):
        yield SHIPS, f"the image has {package}"


def _has_credentials(text: str) -> Iterator[tuple[str, str]]:
    if secrets.has_credentials(text):
        yield BUILD_SECRET, "RUN has a URL with a password"


def _opens_or_waits(text: str) -> Iterator[tuple[str, str]]:
    yield from commands.listens(text)
    yield from commands.waits(text)


def _installs(text: str) -> str:
    """Return the name of the debugger package that a RUN instruction installs; empty if it installs none."""
    for command in _COMMAND_END.split(text):
        installer = _INSTALLER.search(command)
        install = installer and _INSTALL.search(command, installer.end())
        package = install and _PACKAGE.search(command, install.end())
        if package:
            return package[1]
    return ""


def installed(path: str, text: str) -> str:
    """Return the RUN lines of the production image; they name the requirements files that it installs."""
    stages = [] if is_for_debugging(path) else _stages(text)[1]
    shipped = _shipped(stages)
    steps = [step for stage in (*shipped, *_copied(stages, shipped)) for step in stage.steps]
    lines = "\n".join(_text(step) for step in steps if step.keyword == "RUN")
    copies = (split(step.rest) for step in steps if step.keyword in {"COPY", "ADD"})
    pairs = [words for words in copies if len(words) == 2]
    renamed = [old for old, new in pairs if new.rsplit("/", 1)[-1] in _lists_of(lines)]
    return "\n".join((lines, *(f"pip install -r {old}" for old in renamed)))


def debug_ports(text: str) -> Iterator[int]:
    """Return the ports on which the image's debugger listens."""
    for step in parse_instructions(text):
        yield from commands.debug_ports(_text(step))


def audit(text: str, debug: frozenset[int], *, ships: bool) -> Iterator[Found]:
    """Return the findings of a Dockerfile.

    Args:
        debug: the ports of debuggers.
        ships: whether the image is for production.
    """
    before, stages = _stages(text)
    for step in (*before, *(step for stage in stages for step in stage.steps)):
        for name in _secrets(step):
            yield step.line, BUILD_SECRET, f"{step.keyword} {name} is a secret in the image"
        if step.keyword == "RUN":
            yield from _located(step, lambda each: commands.containers(each, debug))
            yield from _located(step, _has_credentials)
    shipped = _shipped(stages) if ships else []
    for stage in _copied(stages, shipped):
        for step in stage.steps:
            if step.keyword == "RUN":
                yield from _located(step, _ships_debugger)
    for stage in shipped:
        entrypoint = ""
        for step in stage.steps:
            text_of = _text(step)
            if step.keyword == "ENTRYPOINT":
                entrypoint = "" if commands.starts_debugger(text_of) else text_of
            elif step.keyword == "CMD" and step.rest.startswith("["):  # CMD has the arguments of ENTRYPOINT
                text_of, entrypoint = f"{entrypoint} {text_of}", ""
            if step.keyword in {"CMD", "ENTRYPOINT", "RUN", "ENV", "HEALTHCHECK", "COPY"}:
                whole = replace(step, rest=text_of) if step.keyword == "CMD" else step
                yield from _located(whole, _opens_or_waits)
            if step.keyword in {"CMD", "ENTRYPOINT"} and commands.starts_debugger(text_of):
                yield step.line, SHIPS, "the image starts its program under a debugger"
            if step.keyword == "RUN":
                yield from _located(step, _ships_debugger)
            if step.keyword in {"COPY", "ADD"} and "agent.pyz" in text_of:
                yield step.line, SHIPS, "the image has dkdbg's agent"
            for word in split(step.rest) if step.keyword == "EXPOSE" else ():
                if (port := ports.covers(ports.resolved(word), debug)) is not None:
                    yield (
                        step.line,
                        OPEN_PORT,
                        f"EXPOSE {port}: `docker run -P` publishes this debug port on all addresses",
                    )


def _secrets(step: Instruction) -> Iterator[str]:
    """Yield the names of the secrets that an ARG, or an ENV with a value, stores in the image."""
    assignments = split(step.rest) if step.keyword in {"ARG", "ENV"} else []
    if step.keyword == "ENV" and assignments and "=" not in assignments[0]:  # the legacy form `ENV key value`
        assignments = [f"{assignments[0]}={' '.join(assignments[1:])}"]
    for name, _, value in (word.partition("=") for word in assignments):
        if (secrets.is_secret_name(name) and (value or step.keyword == "ARG")) or secrets.has_credentials(
            value
        ):
            yield name


def is_requirements(path: str, images: Mapping[str, str]) -> bool:
    """Return whether a file lists packages to install, by its name, or as an image's RUN lines install it."""
    name = path.rsplit("/", 1)[-1]
    return _REQUIREMENTS.fullmatch(name) is not None or (
        name.endswith((".txt", ".in", ".pip")) and any(name in _lists_of(lines) for lines in images.values())
    )


@functools.lru_cache(maxsize=256)
def _lists_of(lines: str) -> frozenset[str]:
    """Return the names of the requirements files that RUN lines install."""
    return frozenset(match[1].rsplit("/", 1)[-1] for match in _READS.finditer(lines))


def audit_requirements(path: str, text: str, images: Mapping[str, str]) -> Iterator[Found]:
    """Return the findings for debuggers in a requirements file that a production image installs.

    Args:
        images: text of the RUN instructions (see `installed`), by path of the Dockerfile.
    """
    name = path.rsplit("/", 1)[-1]
    by = next((each for each, lines in images.items() if _installs_list(lines, name)), None)
    if by is None or is_for_debugging(path):
        return
    found = (
        _required(text, images[by])
        if name == "pyproject.toml"
        else [(each.start(1), each[1]) for each in _DEBUGGER.finditer(text)]
    )
    for at, package in found:
        yield text.count("\n", 0, at) + 1, SHIPS, f"{package} is installed in the image built from {by}"


def _installs_list(lines: str, name: str) -> bool:
    if name == "pyproject.toml":  # installing the repository's package installs them
        return _INSTALLS_PROJECT.search(lines) is not None
    return re.search(rf"(?<![\w-]){re.escape(name)}", lines) is not None


def _required(text: str, lines: str) -> list[tuple[int, str]]:
    """Return offset and name of each debugger that a pyproject.toml requires; for extras only if `lines` name them."""
    try:
        document = table(load_toml(text))
    except (TOMLKitError, ValueError, RecursionError):
        return []
    poetry = table(table(table(document.get("tool")).get("poetry")).get("dependencies"))
    project = table(document.get("project"))
    extras = table(project.get("optional-dependencies"))
    found = [*_EXTRA.finditer(lines)]
    wanted = {name for each in found for name in (each[1] or each[2] or "").split(",")}
    listed = [*elements(project.get("dependencies"))]
    for name, packages in extras.items():
        if name in wanted or any(each[3] for each in found):
            listed += elements(packages)
    names = {*poetry, *(re.split(r"[^\w-]", str(each), maxsplit=1)[0] for each in listed)}
    named = (
        re.search(rf"(?:^[ \t]*|[\"'])({each})(?![\w-])", text, re.MULTILINE)
        for each in _DEBUGGERS
        if each in names
    )
    return [(each.start(1), each[1]) for each in named if each is not None]
