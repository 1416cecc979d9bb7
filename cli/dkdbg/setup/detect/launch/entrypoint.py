"""Rank a repository's programs by how likely the user wants to debug them.

A candidate's points are a sum: for its evidence (launches.PLACES), for the role that its name suggests (in machine
learning first training, then serving, evaluation, data preparation), for a plain name, for the number of mentions, and
for its source code. No repository is a special case.
"""

from __future__ import annotations

import math
import re
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dkdbg.core.facts import EntryPoint
from dkdbg.launchers import registry
from dkdbg.launchers.launcher import MONITOR, NOTEBOOK, SERVER, WORKER, Launch
from dkdbg.launchers.lines.blanks import has_blank
from dkdbg.launchers.lines.command_lines import logical_lines
from dkdbg.setup.detect.files import is_vendored, join
from dkdbg.setup.detect.launch.candidates import (
    Candidate,
    add,
    add_guarded,
    discovered,
    in_its_folder,
    module_file,
    only_checks,
    place_points,
    resolve,
    script_file,
    verb_of,
)
from dkdbg.setup.detect.launch.launches import lines_of, spreads
from dkdbg.setup.detect.launch.roles import role_of
from dkdbg.setup.detect.python.python_source import SourceFact, read_source

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from dkdbg.setup.detect.files import Tree
    from dkdbg.setup.detect.launch.launches import Seen

_ROLE_POINTS = {
    "train": 30,
    "app": 22,
    "main": 22,
    "infer": 12,
    "demo": 12,
    "other": 8,
    "notebook": 2,
    "tool": 1,
}
#: Minimum points for the best candidate to count as the program.
_THRESHOLD = 16
_MAX_PARSED, _MAX_ENTRIES = 80, 60
#: Minimum notebooks of a course (see `_is_course`); the strongest evidence in PLACES that its scripts may have.
_MANY_NOTEBOOKS, _ASIDE_PLACE = 10, "subreadme"
#: GUI toolkits, which fail in a container because it has no display.
_WINDOWS = frozenset(
    {"tkinter", "customtkinter", "PySimpleGUI", "FreeSimpleGUI", "PyQt5", "PyQt6", "PySide2", "PySide6", "wx", "kivy", "dearpygui", "pystray"}
)  # fmt: skip


#: Calls that fail or end the program if standard input is not a terminal. shutil.get_terminal_size() is harmless.
_TERMINAL = re.compile(
    r"stty size|(?<!shutil\.)\bos\.get_terminal_size\(|\bcurses\.(?:initscr|wrapper)\(|\btermios\.tcgetattr\(|\btty\.set(?:raw|cbreak)\("
)


@dataclass(frozen=True, kw_only=True)
class Ranking:
    """The candidates, best first, and whether the first one is good enough to be the program."""

    candidates: tuple[EntryPoint, ...]
    has_best: bool


def rank(
    tree: Tree,
    seen: Iterable[Seen],
    *,
    scripts: Mapping[str, str],
    resolved: Iterable[tuple[Seen, str | None]] = (),
    project: str = "",
    is_ml: bool = False,
    notebooks: tuple[str, ...] = (),
) -> Ranking:
    """Return the programs, the best first, and whether the best one is good enough.

    Args:
        seen: launches in command lines, with files as typed.
        scripts: console script -> its target `module:function`.
        resolved: launches of images and services, each with its source file (None: only in the image).
        project: name of the project; a console script with this name gets points.
        is_ml: whether the repository is about machine learning.
        notebooks: paths of notebooks.
    """
    found: dict[str, Candidate] = {}
    for order, (item, file) in enumerate(resolved):
        add(found, Candidate(
            launch=item.launch, file=file, cwd=item.cwd, command=item.launch.command, place=item.place,
            source=item.source, order=order,
        ))  # fmt: skip
    for order, item in enumerate(seen):
        candidate = resolve(tree, item, scripts, order)
        if candidate is not None:
            add(found, candidate)
    for name, target in scripts.items():
        file = script_file(tree, target)
        if file is not None:
            place = "console-script"
            launch = Launch(command=name, launcher="console-script", target=name)
            add(found, Candidate(
                launch=launch, file=file, cwd=".", command=name, place=place, source="the console scripts", order=500
            ))  # fmt: skip
    add_guarded(tree, found)
    for path in notebooks[:20]:
        if path not in found:
            command = f"jupyter lab {shlex.quote(path)}"
            launch = Launch(command=command, launcher="notebook", target=path)
            found[path] = Candidate(
                launch=launch, file=path, cwd=".", command=command, place="notebook", source=path, order=900
            )
    for candidate in found.values():
        candidate.points = _rough(candidate, project, is_ml=is_ml)
    rough = sorted(found.values(), key=lambda item: item.points, reverse=True)
    for candidate in rough[:_MAX_PARSED]:
        if candidate.file and candidate.file.endswith(".py"):
            candidate.fact = read_source(tree.text(candidate.file))
            candidate.points += _source_points(candidate, candidate.fact, is_ml=is_ml)
    ordered = sorted(rough, key=lambda item: (-item.points, item.order, item.file or item.command))
    if _is_course(ordered, notebooks):
        ordered.sort(key=lambda item: item.place != "notebook")
    best = ordered[0] if ordered else None
    has_best = best is not None and (
        best.place == "notebook" or best.points >= _THRESHOLD or _is_all(ordered)
    )
    for candidate in ordered[:_MAX_ENTRIES]:
        in_its_folder(tree, candidate)
    entries = tuple(_entry_point(tree, item) for item in ordered[:_MAX_ENTRIES])
    return Ranking(candidates=entries, has_best=has_best)


def _is_all(ordered: list[Candidate]) -> bool:
    """Return whether all candidates are scripts in the root, and the best one is valid Python that has an effect."""
    fact = ordered[0].fact
    return (
        all("/" not in (each.file or "/") for each in ordered)
        and (not ordered[1:] or role_of(ordered[0].file or "") != "tool")
        and fact is not None
        and not fact.error
        and (fact.has_guard or fact.runs)
    )


def _is_course(ordered: list[Candidate], notebooks: tuple[str, ...]) -> bool:
    """Return whether the repository is about its notebooks: many, more than programs, and no program in the README.

    A package with a module for training is not a course: its notebooks only explore and explain.
    """
    programs = [item for item in ordered if item.place != "notebook"]
    for item in programs:
        if item.launch.is_module and role_of(item.file or "") == "train" and item.fact and item.fact.trains:
            return False
    is_aside = all(place_points(item.place) <= place_points(_ASIDE_PLACE) for item in programs)
    return is_aside and len(notebooks) >= _MANY_NOTEBOOKS and len(notebooks) > len(programs)


def _rough(candidate: Candidate, project: str, *, is_ml: bool) -> float:
    launch, file = candidate.launch, candidate.file
    name = file or launch.target or candidate.command
    role = role_of(name)
    started = registry.role_of(launch.launcher)
    if verb_of(launch) == "train":
        role = "train"
    elif launch.launcher == "console-script":
        role = role_of(launch.target or "")
        role = role if role != "other" else "main"
    elif started == SERVER:
        role = "app"
    elif started == NOTEBOOK:
        role = "notebook"
    score = place_points(candidate.place) + _ROLE_POINTS[role]
    if not is_ml and role == "train":
        score -= 6
    if is_ml and role in {"app", "demo"} and candidate.place not in {"service", "image"}:
        score -= 6
    score += min(6.0, 2 * math.log2(candidate.mentions)) + 2 * (len(candidate.places) - 1)
    if spreads(launch):
        score += 6
    if only_checks(launch):
        score -= 8
    if started == WORKER:
        score -= 14
    if started == MONITOR:
        score -= 74
    if launch.launcher == "console-script" and project and _same_name(launch.target or "", project):
        score += 8
    if file is not None:
        score += _path_points(file)
    if candidate.place == "readme":
        # Users try the first example of a document; later ones are special cases.
        score += max(0.0, 4 - candidate.order * 0.3)
    return score


def _path_points(file: str) -> float:
    stem = file.rsplit("/", 1)[-1].removesuffix(".py")
    name_parts = [word for word in re.split(r"[_-]", stem) if word]
    score = 4.0 if stem in {"train", "main", "app", "run", "server"} else 3.0 - 1.2 * len(name_parts)
    score -= 2.5 * max(0, file.count("/") - 1)
    if is_vendored(file):
        score -= 40
    return score


def _source_points(candidate: Candidate, fact: SourceFact, *, is_ml: bool) -> float:
    score = 0.0
    if shows_windows(fact.imports):
        score -= 40
    if not (fact.has_guard or fact.runs or fact.error) and candidate.launch.launcher == "python":
        score -= 12
    if fact.parses_args:
        score += 2
    if is_ml and fact.trains:
        # A `main.py` with a training loop counts as a training program.
        is_main = re.fullmatch(r"(?:.*/)?main\.py", candidate.file or "") is not None
        score += 5 + (_ROLE_POINTS["train"] - _ROLE_POINTS["main"] if is_main else 0)
    return score


def _entry_point(tree: Tree, candidate: Candidate) -> EntryPoint:
    fact, args = candidate.fact, " ".join(candidate.launch.args)
    missing = [
        name for name in (fact.required if fact else ())
        if (name.startswith("-") and name not in args) or (not name.startswith("-") and not candidate.launch.args)
    ]  # fmt: skip
    return EntryPoint(
        command=candidate.command,
        file=candidate.file,
        launcher=candidate.launch.launcher,
        cwd=candidate.cwd,
        home=_home(candidate),
        needs_args=bool(missing) or has_blank(candidate.command),
        source=candidate.source,
        line=_line(tree.text(candidate.source), candidate),
        error=fact.error if fact else "",
        points=candidate.points,
        trains=_trains(candidate),
        listens=fact.listens if fact else None,
        on_loopback=bool(fact and fact.on_loopback and candidate.launch.launcher == "python"),
        shows_windows=bool(fact and shows_windows(fact.imports)),
        assigned=candidate.launch.assigned,
    )


def _home(candidate: Candidate) -> str:
    """Return the folder from which a command imports its module: `code` for `pkg.train` in code/pkg/train.py."""
    if not candidate.launch.is_module or not candidate.file:
        return candidate.cwd
    at = f"/{candidate.file}".rfind(f"/{(candidate.launch.target or '').replace('.', '/')}")
    return candidate.file[: at - 1] if at > 0 else "." if at == 0 else candidate.cwd


def _line(text: str, candidate: Candidate) -> int:
    """Return the line of a command in a document, otherwise that of the first mention of its file; 0 without either.

    Ignore spaces, quotes and line breaks, because the command was split into words and joined again.
    """
    target = candidate.launch.target or ""
    words = map(re.escape, re.findall(r"[^\s\"'\\]+", candidate.launch.command))
    found = re.search(r"[\s\"'\\]*".join(words), text)
    file = target.rsplit("/", 1)[-1]
    at = found.start() if found else text.find(file) if "." in file else -1
    return text.count("\n", 0, at) + 1 if at >= 0 else 0


def _trains(candidate: Candidate) -> bool:
    launch = candidate.launch
    if registry.role_of(launch.launcher) == SERVER or only_checks(launch):
        return False
    return "train" in {verb_of(launch), role_of(candidate.file or launch.target or candidate.command)}


def _same_name(first: str, second: str) -> bool:
    return re.sub(r"[-_.]", "", first.lower()) == re.sub(r"[-_.]", "", second.lower())


def terminal_asked(sources: Iterable[tuple[str, str]]) -> str:
    """Return where a source requires a terminal, as `file:line: call`; empty if none does. `sources`: (path, text)."""
    for path, text in sources:
        if match := _TERMINAL.search(text):
            return f"{path}:{text.count(chr(10), 0, match.start()) + 1}: {match[0].rstrip('(')}"
    return ""


def shows_windows(imports: frozenset[str]) -> bool:
    """Return whether a program with these imports opens windows."""
    return bool(imports & _WINDOWS)


def given(tree: Tree, command: str, scripts: Mapping[str, str]) -> tuple[EntryPoint | None, str]:
    """Return the program of a command line (None if it is not Python), and the path of its script if that is missing.

    Absolute paths, and paths outside the repository, are paths in the container.
    """
    lines = [part for line in logical_lines(command) for part in line.replace("&&", ";").split(";")]
    seen = lines_of(tree, lines, scripts)
    if not seen:
        return None, ""
    item = seen[-1]
    launch, file, missing = item.launch, None, ""
    if launch.launcher == "console-script":
        file = script_file(tree, scripts.get(launch.target or "", ""))
    elif launch.target is None:
        file = discovered(tree, launch.launcher, item.cwd)
    elif launch.is_module:
        by = registry.named(launch.launcher)
        file = module_file(tree, launch.target, item.cwd, package=bool(by and by.serves()))
    elif launch.target.endswith(".py") and not launch.target.startswith(("/", "~", "$")):
        path = join(item.cwd, launch.target)
        file = path if path is not None and tree.has(path) else None
        missing = path if path is not None and file is None else ""
    entry = EntryPoint(
        command=command, file=file, launcher=launch.launcher, cwd=item.cwd, source="your command"
    )
    return entry, missing or ""
