"""Read tasks of project managers and pipelines: `pixi run app` is its command in pyproject.toml."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ruamel.yaml.error import YAMLError

from dkdbg.launchers.lines.command_lines import logical_lines
from dkdbg.setup.detect.files import is_vendored, join, parent
from dkdbg.setup.detect.launch.roles import role_of
from dkdbg.setup.detect.python.pyproject import read_toml
from dkdbg.setup.detect.substitution import substitute
from dkdbg.setup.detect.values import elements, load_yaml, table

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from dkdbg.setup.detect.files import Tree
    from dkdbg.setup.detect.values import Value

#: (runner, name of a task) -> its lines.
Tasks = dict[tuple[str, str], tuple[str, ...]]
#: File, target and lines.
Recipe = tuple[str, str, list[str]]
#: Runner, task and arguments: `pixi run -e dev app`, `hatch run test:cov`, `uv run poe train --epochs 1`.
_RUN = re.compile(
    r"(?:^|(?<=[\s;&|$>]))(?:(pixi|pdm|hatch|rye) run (?:-[\w-]+ \S+ )*?|(poe|taskipy|task|make|just) )(\w[\w.:-]*)([^\n;&|]*)"
)


#: Files of recipes, and the command that runs one.
_MAKEFILES = {"Makefile": "make", "makefile": "make", "justfile": "just", "Taskfile.yml": "task"}
#: Further arguments of the caller of a recipe, in a justfile and a Taskfile.
_CALLERS = re.compile(r"[ \t]*\{\{\s*(?:args|ARGS|\.CLI_ARGS)\s*\}\}")


def read_tasks(tree: Tree) -> Tasks:
    """Return the tasks of the project in the root; none if its files cannot be read."""
    tool = table(read_toml(tree, "pyproject.toml").get("tool"))
    found: Tasks = {}
    for pixi in (read_toml(tree, "pixi.toml"), table(tool.get("pixi"))):
        for feature in (*table(pixi.get("feature")).values(), pixi):
            _add(found, "pixi", table(table(feature).get("tasks")))
    for name, value in table(table(tool.get("hatch")).get("envs")).items():
        scripts = table(table(value).get("scripts"))
        _add(found, "hatch", scripts)
        _add(found, "hatch", {f"{name}:{key}": each for key, each in scripts.items()})
    for runner, key in (("pdm", "scripts"), ("rye", "scripts"), ("poe", "tasks"), ("taskipy", "tasks")):
        _add(found, runner, table(table(tool.get(runner)).get(key)))
    found.update({("task", name): lines for (by, name), lines in found.items() if by == "taskipy"})
    return found


def targets(read: Iterable[Recipe]) -> Tasks:
    """Return those of `recipes` in the root's Makefile, justfile and Taskfile by the command that runs them."""
    found: Tasks = {}
    for path, target, lines in read:
        if "/" not in path and lines and role_of(target) != "tool":
            found.setdefault((_MAKEFILES[path], target), tuple(lines))
    return found


def recipes(tree: Tree) -> Iterator[Recipe]:
    """Yield the recipes of Makefiles, justfiles and Taskfiles, with the variables of the file replaced."""
    for path in (path for name in _MAKEFILES for path in tree.named(name)):
        if path.count("/") > 1 or is_vendored(path):
            continue
        text = tree.text(path)
        text, values = _variables(text)
        target, lines = "", list[str]()
        for line in logical_lines(_CALLERS.sub("", text)):
            if named := re.match(r"([\w.-]+)[^:=\n]*:(?!=)|  ([\w.-]+):\s*$", line):
                yield path, target, lines
                target, lines = named[1] or named[2], []
            elif line[:1] in "\t " and line.strip():
                lines.append(substitute(line, values, keep_unknown=True).strip().lstrip("@-"))
        yield path, target, lines


def with_tasks(lines: list[str], tasks: Mapping[tuple[str, str], tuple[str, ...]]) -> Iterator[str]:
    """Yield the lines, with each task replaced by its lines."""
    for line in lines:
        run = _RUN.search(line) if tasks else None
        known = tasks.get((run[1] or run[2], run[3])) if run else None
        if run is None or known is None:
            yield line
            continue
        yield from known[:-1]
        yield f"{known[-1]}{run[4].rstrip()}"


def pipelines(tree: Tree) -> Iterator[tuple[str, str, list[str]]]:
    """Yield (file, directory relative to the root, lines) of the steps in dvc.yaml and the entry points in MLproject."""
    for path in (*tree.named("dvc.yaml"), *tree.named("MLproject")):
        if is_vendored(path):
            continue
        try:
            document = table(load_yaml(tree.text(path)))
        except (YAMLError, ValueError, RecursionError) as error:
            tree.note(f"{path}: {' '.join(str(error).split())[:200]}")
            continue
        here = parent(path)
        for each in map(table, table(document.get("stages")).values()):
            stage = table(each.get("do")) or each
            lines = [str(line) for line in elements(stage.get("cmd"))]
            yield path, join(here, str(stage.get("wdir") or ".")) or here, lines
        for entry in map(table, table(document.get("entry_points")).values()):
            yield path, here, [_filled(str(entry.get("command") or ""), table(entry.get("parameters")))]


def _variables(text: str) -> tuple[str, dict[str, str]]:
    """Return the text of a Makefile with its own variables as `${NAME}`, and their values."""
    names = set(re.findall(r"^([A-Za-z_]\w*)[ \t]*[:?]?=", text, re.MULTILINE))
    text = re.sub(r"\$\((\w+)\)", lambda found: f"${{{found[1]}}}" if found[1] in names else found[0], text)
    return text, dict(re.findall(r"^([A-Za-z_]\w*)[ \t]*[:?]?=[ \t]*(.*)$", text, re.MULTILINE))


def _filled(command: str, parameters: Mapping[str, Value]) -> str:
    """Return a command of an MLproject with the defaults of its parameters; one without is left to fill in."""

    def value(name: re.Match[str]) -> str:
        default = table(parameters.get(name[1])).get("default")
        return f"<{name[1]}>" if default is None else str(default)

    return re.sub(r"\{(\w+)\}", value, command)


def _add(found: Tasks, runner: str, tasks: Mapping[str, Value]) -> None:
    for name, value in tasks.items():
        said = (
            value if isinstance(value, (str, list)) else table(value).get("cmd") or table(value).get("shell")
        )
        text = "\n".join(map(str, elements(said))) if isinstance(said, list) else str(said or "")
        if lines := tuple(line.strip() for line in logical_lines(text) if line.strip()):
            found[runner, str(name)] = lines
