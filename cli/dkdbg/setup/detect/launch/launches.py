"""Collect launches (command lines that start Python) from documents, scripts, Makefiles, CI and editor settings."""

from __future__ import annotations

import functools
import posixpath
import re
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ruamel.yaml.error import YAMLError

from dkdbg.errors import DkdbgError
from dkdbg.launchers import registry
from dkdbg.launchers.lines.command_lines import logical_lines, parse_line
from dkdbg.setup.detect.files import is_vendored, join, parent
from dkdbg.setup.detect.launch.readme import code_blocks
from dkdbg.setup.detect.launch.roles import role_of
from dkdbg.setup.detect.python.pyproject import read_toml
from dkdbg.setup.detect.substitution import bounded, substitute
from dkdbg.setup.detect.values import elements, load_yaml, table
from dkdbg.setup.render import jsonc

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from dkdbg.launchers.launcher import Launch
    from dkdbg.setup.detect.files import Tree
    from dkdbg.setup.detect.values import Value

#: Points of each kind of evidence for how users start the program; see entrypoint.py.
PLACES = {
    "service": 100, "image": 45, "other-service": 20, "other-image": 16, "procfile": 34, "readme": 30, "editor": 24, "makefile": 18, "docs": 15, "script": 14,
    "inline": 13, "subreadme": 11, "ci": 5,
}  # fmt: skip
_ASSIGNED = re.compile(r"(?:(?:export|local|readonly)\s+)?([A-Za-z_]\w*)=")
#: `export PYTHONPATH=$PWD/src:$PYTHONPATH`: its value; the variable's own former value in it; the current folder.
_EXPORTED = re.compile(r"^[ \t$>]*export[ \t]+PYTHONPATH=[\"']?([^\s\"';&]+)", re.MULTILINE)
_FORMER = re.compile(r":?\$(?:PYTHONPATH\b|\{PYTHONPATH(?::[^{}]*)?\}):?")
_HERE = re.compile(r"(?:\$\{?PWD\}?|\$\(pwd\)|`pwd`|\.)(?=/|$)/?")
#: The folder of a script, `$(dirname "$0")`; its absolute form, `$(cd tools/.. && pwd)`, with the folder as group 1.
_OWN_FOLDER = re.compile(
    r"(?:\$\(|`)dirname\s+(?:--\s+)?[\"']?\$(?:0|\{0\}|BASH_SOURCE|\{BASH_SOURCE(?:\[0\])?\})[\"']?\s*[)`]"
)
_ENTERED = re.compile(
    r"\$\(cd\s+[\"']?([\w./-]+)[\"']?(?:\s*>\s*/dev/null(?:\s+2>&1)?)?\s*&&\s*pwd(?:\s+-P)?\s*\)"
)
#: The arguments of a script in its lines: all of them, from one on, or one with a default.
_ALL = re.compile(r'"?\$(?:[@*]|\{[@*](?::([1-9]\d?)(?::[^{}]*)?)?\})"?')
_ONE = re.compile(r"\$(?:([1-9])|\{([1-9]\d?)(?::?-([^{}$]*))?\})")
_SHIFT = re.compile(r"shift(?:\s+(\d))?\s*(?:;|$)")
#: An argument that a shell reads as it is written.
_PLAIN = re.compile(r"[\w./:=,@%+~-]+")
_README = re.compile(r"readme(?:[-_.]\w+)*", re.IGNORECASE)
_DOCUMENT = re.compile(r".*\.(?:md|rst|mdx)", re.IGNORECASE)
_INLINE = re.compile(r"(?<!`)`([^`\n]{6,200})`(?!`)")
_MAX_DOCUMENTS = 120
_MAX_SCRIPTS = 120
#: Maximum characters of a recipe's line; longer lines are ignored.
_MAX_LINE = 4000
#: Maximum number of variables in a script.
_MAX_VARIABLES = 500
#: Maximum nesting of variables in a Makefile.
_MAX_NESTED = 4
#: (runner, name of the task) -> the task's command lines.
Tasks = dict[tuple[str, str], tuple[str, ...]]
#: (file, target, command lines).
Recipe = tuple[str, str, list[str]]
#: Runner, task and arguments: `pixi run -e dev app`, `hatch run test:cov`, `uv run poe train --epochs 1`.
_RUN = re.compile(
    r"(?:^|(?<=[\s;&|$>]))(?:(pixi|pdm|hatch|rye) run (?:-[\w-]+ \S+ )*?|(poe|taskipy|task|make|just) )(\w[\w.:-]*)([^\n;&|]*)"
)


#: File with recipes -> the command that runs them.
_MAKEFILES = {"Makefile": "make", "makefile": "make", "justfile": "just", "Taskfile.yml": "task"}
#: The caller's further arguments in a justfile or Taskfile.
_CALLERS = re.compile(r"[ \t]*\{\{\s*(?:args|ARGS|\.CLI_ARGS)\s*\}\}")
#: First line of a recipe. In a justfile (_JUST_HEADER) its parameters may have defaults.
_HEADER = re.compile(r"([\w.-]+)(?![\w.-])[^:=\n]*:(?!=)|  ([\w.-]+):\s*$")
_JUST_HEADER = re.compile(r"([\w.-]+)(?![\w.-])[^:\n]*:(?!=)")
#: A variable in a justfile or Taskfile, such as `{{.CONFIG | default "a.yaml"}}` or `{{ config }}`.
_BRACES = re.compile(r"""\{\{[^{}\w]*(\w+)\b(?:\s*\|\s*default\s+["']?([^"'\s{}]+))?[^{}]*\}\}""")


@dataclass(frozen=True, kw_only=True)
class Seen:
    """A launch in a command line, and where it was found.

    Attributes:
        launch: the parsed command line.
        cwd: directory to run it in, relative to the root.
        place: kind of evidence, a key of PLACES.
        source: the file, as text for the user.
    """

    launch: Launch
    cwd: str
    place: str
    source: str


def gather(tree: Tree, scripts: Collection[str]) -> tuple[Seen, ...]:
    """Return the launches in the whole repository: the strongest kinds of evidence first, each in reading order."""
    found: list[Seen] = []
    documents = [path for path in tree.matching(_DOCUMENT) if not is_vendored(path)]
    documents += [path for path in tree.matching(_README) if path not in documents and "." not in path]
    readmes = {path for path in documents if _README.fullmatch(path.rsplit("/", 1)[-1])}
    documents.sort(key=lambda path: (path not in readmes, path.count("/"), path.lower() != "readme.md", path))
    tasks = read_tasks(tree)
    made = list(recipes(tree))
    typed = {**targets(made), **tasks}
    for path in documents[:_MAX_DOCUMENTS]:
        found.extend(_document(tree, path, scripts, typed))
    for path, target, recipe in made:
        # A program that `make clean` or `make lint` runs is not the one to debug.
        place = "ci" if role_of(target) == "tool" else "makefile"
        found.extend(_lines(tree, recipe, path, place, scripts=scripts, home=parent(path)))
    for (runner, name), task in tasks.items():
        found.extend(_lines(tree, list(task), f"{runner} task {name}", "script", scripts=scripts, home="."))
    for path, home, lines in pipelines(tree):
        found.extend(_lines(tree, lines, path, "makefile", scripts=scripts, home=home))
    for path in tree.named("Procfile"):
        lines = [line.partition(":")[2] for line in tree.text(path).split("\n")]
        found.extend(_lines(tree, lines, path, "procfile", scripts=scripts, home=parent(path)))
    found.extend(_editor(tree))
    shells = [
        path for path in tree.matching(re.compile(r".*\.(?:sh|bash|slurm|sbatch)")) if not is_vendored(path)
    ]
    for path in shells[:_MAX_SCRIPTS]:
        if path.count("/") <= 3:
            found.extend(_shell_script(tree, path, scripts, "script"))
    for path in tree.matching(re.compile(r".*\.ya?ml")):
        if path.startswith(".github/workflows/"):
            lines = [
                re.sub(r"^\s*(?:-\s*)?(?:run:\s*[|>]?-?)?\s*", "", line)
                for line in logical_lines(tree.text(path))
            ]
            found.extend(_lines(tree, lines, path, "ci", scripts=scripts, home="."))
    return tuple(found)


def _document(tree: Tree, path: str, scripts: Collection[str], tasks: Tasks) -> Iterator[Seen]:
    folder = parent(path)
    is_readme = bool(_README.fullmatch(path.rsplit("/", 1)[-1]))
    root_readme = is_readme and folder in {".", "docs", ".github"}
    place = "readme" if root_readme else "subreadme" if is_readme else "docs"
    home = "." if place != "subreadme" else folder
    text = tree.text(path)
    blocks = list(code_blocks(text, is_rst=path.lower().endswith(".rst")))
    exported = _exported("\n".join(blocks))
    for block in blocks:
        lines = list(with_tasks(logical_lines(block), tasks))
        found = _lines(tree, lines, path, place, scripts=scripts, home=home)
        yield from _with_path(found, exported, home)
    if is_readme:
        for match in _INLINE.finditer(text):
            lines = list(with_tasks([match[1]], tasks))
            where = "inline" if root_readme else "ci"
            yield from _lines(tree, lines, path, where, scripts=scripts, home=home)


def lines_of(tree: Tree, lines: list[str], scripts: Collection[str]) -> list[Seen]:
    """Return the launches of command lines typed in the root, in order."""
    return list(_lines(tree, lines, "", "editor", scripts=scripts, home="."))


def _lines(
    tree: Tree,
    lines: list[str],
    path: str,
    place: str,
    *,
    scripts: Collection[str],
    home: str,
    follow: bool = True,
) -> Iterator[Seen]:
    cwd = home
    for line in lines:
        stripped = line.strip()
        if change := re.match(r"(?:[$>%]\s*)?cd\s+([^\s;&|]+)", stripped):
            cwd = _changed(tree, cwd, home, change[1])
        for launch in parse_line(stripped, scripts):
            if not launch.shell_script:
                yield Seen(launch=launch, cwd=cwd, place=place, source=path)
            elif follow:
                yield from _followed(tree, launch, cwd, path=path, place=place, scripts=scripts)


def _changed(tree: Tree, cwd: str, home: str, directory: str) -> str:
    directory = directory.strip("\"'")
    for base in (cwd, home, "."):
        moved = join(base, directory)
        if moved is not None and tree.has_dir(moved):
            return moved
    return home if directory.startswith("..") else cwd


def _followed(
    tree: Tree, launch: Launch, cwd: str, *, path: str, place: str, scripts: Collection[str]
) -> Iterator[Seen]:
    """Yield the launches in a shell script; they count like the line that runs the script."""
    script = launch.shell_script or ""
    for base in (cwd, "."):
        local = join(base, script)
        if local is not None and tree.has(local):
            for seen in _shell_script(tree, local, scripts, place, given=launch.args, follow=False):
                source = f"{path}: {script}"
                yield Seen(
                    launch=seen.launch, cwd=seen.cwd if seen.cwd != "." else base, place=place, source=source
                )
            return


def _shell_script(
    tree: Tree,
    path: str,
    scripts: Collection[str],
    place: str,
    *,
    given: Sequence[str] = (),
    follow: bool = True,
) -> Iterator[Seen]:
    values: dict[str, str] = {}
    lines: list[str] = []
    for line in logical_lines(tree.text(path)):
        stripped = _OWN_FOLDER.sub(bounded(lambda _: parent(path)), line.strip())
        stripped = _ENTERED.sub(lambda found: posixpath.normpath(found[1]), stripped)
        if shift := _SHIFT.match(stripped):
            given = given[int(shift[1] or 1) :]
        assigned = _ASSIGNED.match(stripped) if len(values) < _MAX_VARIABLES else None
        everything = _ALL.fullmatch(stripped, assigned.end()) if assigned else None
        stripped = _with_arguments(stripped, given)
        if assigned and everything:
            values[assigned[1]] = " ".join(_from_argument(everything, given) or ())
        elif assigned:
            value = substitute(_word(stripped[assigned.end() :]), values, keep_unknown=True)
            if not re.search(r"[$`]", value):
                values[assigned[1]] = value
        if not stripped.startswith("#"):
            lines.append(substitute(stripped, values, keep_unknown=True))
    # Follow one level only: scripts of a project may source each other in circles.
    exported = _exported("\n".join(lines))
    launches = _lines(tree, lines, path, place, scripts=scripts, home=".", follow=follow)
    found = list(_with_path(launches, exported, "."))
    spread = {seen.launch.target for seen in found if spreads(seen.launch)}
    # `if ...; then python train.py; else torchrun train.py; fi`: the branch with the launcher is the usual run.
    yield from (seen for seen in found if seen.launch.target not in spread or spreads(seen.launch))


def _exported(text: str) -> str:
    """Return the relative folders of the first `export PYTHONPATH=` in shell text, as that variable has them; else empty."""
    stated = _EXPORTED.search(text)
    return ":".join(filter(None, map(_relative, _without_former(stated[1])))) if stated else ""


def _without_former(path: str) -> tuple[str, ...]:
    """Return the folders of a PYTHONPATH without its former value, `$PYTHONPATH`."""
    return tuple(dict.fromkeys(each for each in _FORMER.sub(":", path).split(":") if each))


def _relative(folder: str) -> str:
    """Return a folder of a PYTHONPATH, relative to the current one; empty for any other folder."""
    here = _HERE.match(folder)
    is_own = here or re.match(r"\w", folder)
    return posixpath.normpath(folder[here.end() if here else 0 :] or ".") if is_own else ""


def _with_path(found: Iterable[Seen], exported: str, home: str) -> Iterator[Seen]:
    """Yield the launches, with the exported PYTHONPATH for those that start in `home` and set none."""
    more = (f"PYTHONPATH={exported}",) if exported else ()
    for seen in found:
        assigned = tuple(map(_with_relative_path, seen.launch.assigned))
        has_own = seen.cwd != home or any(each.startswith("PYTHONPATH=") for each in assigned)
        seen.launch.assigned = assigned if has_own else (*assigned, *more)
        yield seen


def _with_relative_path(assignment: str) -> str:
    """Return `PYTHONPATH=$PWD/src:$PYTHONPATH` as `PYTHONPATH=src`; any other assignment as it is."""
    name, _, value = assignment.partition("=")
    folders = _without_former(value) if name == "PYTHONPATH" else ()
    relative = [*map(_relative, folders)]
    return f"{name}={':'.join(relative)}" if relative and all(relative) else assignment


def _with_arguments(line: str, given: Sequence[str]) -> str:
    """Return a script's line with the arguments of its call; those that the call lacks, or has to quote, stay."""

    def one(found: re.Match[str]) -> str:
        number = int(found[1] or found[2])
        if number > len(given):
            return found[0] if found[3] is None else found[3]
        return given[number - 1] if _PLAIN.fullmatch(given[number - 1]) else found[0]

    if "$" not in line:
        return line

    def every(found: re.Match[str]) -> str:
        rest = _from_argument(found, given)
        return found[0] if rest is None else " ".join(rest)

    return _ONE.sub(bounded(one), _ALL.sub(bounded(every), line))


def _from_argument(found: re.Match[str], given: Sequence[str]) -> Sequence[str] | None:
    """Return the arguments that `$@` or `${@:3}` stands for; None if a shell has to quote one of them."""
    rest = given[int(found[1] or 1) - 1 :]
    return rest if all(map(_PLAIN.fullmatch, rest)) else None


def _word(text: str) -> str:
    """Return an assigned value without quotes; `$` (an unknown value) if it is not a single word."""
    try:
        words = shlex.split(text, comments=True)
    except ValueError:  # a quote that ends on another line
        return "$"
    return "$" if len(words) > 1 else "".join(words)


def spreads(launch: Launch) -> bool:
    """Return whether a launch starts its program in several processes."""
    by = registry.named(launch.launcher)
    return by is not None and by.spreads


def _editor(tree: Tree) -> Iterator[Seen]:
    """Yield the launches in VS Code's launch.json, which users have debugged with."""
    path = ".vscode/launch.json"
    try:
        document = table(jsonc.loads(tree.text(path), file=path))
    except DkdbgError as error:
        tree.add_problem(error.message)
        return
    for item in map(table, elements(document.get("configurations"))):
        if str(item.get("type")) not in {"python", "debugpy"} or item.get("request") != "launch":
            continue
        raw = item.get("args")
        args = [str(word) for word in raw] if isinstance(raw, list) else str(raw or "").split()
        program = item.get("module") or item.get("program")
        if not isinstance(program, str) or "${file" in program:
            continue
        cwd = _from(".", str(item.get("cwd") or ".")).rstrip("/") or "."
        cwd = cwd if tree.has_dir(cwd) else "."
        how = ["-m"] if item.get("module") else []
        argv = ["python", *how, *(_from(cwd, word) for word in (program, *args))]
        for launch in parse_line(shlex.join(argv)):
            yield Seen(launch=launch, cwd=cwd, place="editor", source=path)


def _from(cwd: str, text: str) -> str:
    """Return a value of launch.json with `${workspaceFolder}/...` replaced by a path relative to `cwd`."""
    up = "" if cwd == "." else "../" * len(cwd.split("/"))
    return re.sub(r"\$\{workspace(?:Folder|Root)\}/?", up, text)


def read_tasks(tree: Tree) -> Tasks:
    """Return the tasks that the root's project files define; empty if they cannot be read."""
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
    """Return the recipes of the root's Makefile, justfile and Taskfile as tasks."""
    found: Tasks = {}
    for path, target, lines in read:
        if "/" not in path and lines and role_of(target) != "tool":
            found.setdefault((_MAKEFILES[path], target), tuple(lines))
    return found


def recipes(tree: Tree) -> Iterator[Recipe]:
    """Yield the recipes of Makefiles, justfiles and Taskfiles, with the file's variables replaced."""
    for path in (path for name in _MAKEFILES for path in tree.named(name)):
        if path.count("/") > 1 or is_vendored(path):
            continue
        text, values = _variables(tree.text(path))
        runner = _MAKEFILES[path.rsplit("/", 1)[-1]]
        if runner == "task":
            values = _of_taskfile(tree, path)
        header = _JUST_HEADER if runner == "just" else _HEADER
        target, lines, given = "", list[str](), values
        for line in logical_lines(_CALLERS.sub("", text)):
            if len(line) > _MAX_LINE:
                continue
            if named := header.match(line):
                yield path, target, lines
                target, lines = named[1] or named[2], []
                given = {**values, **dict(re.findall(r"""\b(\w+)=["']?([^"'\s:]+)""", line))}
            elif line[:1] in "\t " and line.strip():
                filled = _BRACES.sub(functools.partial(_value, given), line) if runner != "make" else line
                lines.append(substitute(filled, values, keep_unknown=True).strip().lstrip("@-"))
        yield path, target, lines


def _value(values: Mapping[str, str], found: re.Match[str]) -> str:
    """Return the value of a variable in braces, otherwise its default, otherwise a placeholder `<name>`."""
    return values.get(found[1], "").strip("\"'") or found[2] or f"<{found[1]}>"


def _of_taskfile(tree: Tree, path: str) -> dict[str, str]:
    try:
        variables = table(table(load_yaml(tree.text(path))).get("vars"))
    except (YAMLError, ValueError, RecursionError):
        return {}
    return {name: str(value) for name, value in variables.items() if isinstance(value, (str, int, float))}


def with_tasks(lines: list[str], tasks: Mapping[tuple[str, str], tuple[str, ...]]) -> Iterator[str]:
    """Yield the lines, but for a line that runs a known task the task's own lines."""
    for line in lines:
        run = _RUN.search(line) if tasks else None
        known = tasks.get((run[1] or run[2], run[3])) if run else None
        if run is None or known is None:
            yield line
            continue
        yield from known[:-1]
        yield f"{known[-1]}{run[4].rstrip()}"


def pipelines(tree: Tree) -> Iterator[tuple[str, str, list[str]]]:
    """Yield (file, directory relative to the root, lines) of each stage in dvc.yaml and entry point in MLproject."""
    for path in (*tree.named("dvc.yaml"), *tree.named("MLproject")):
        if is_vendored(path):
            continue
        try:
            document = table(load_yaml(tree.text(path)))
        except (YAMLError, ValueError, RecursionError) as error:
            tree.add_problem(f"{path}: {' '.join(str(error).split())[:200]}")
            continue
        folder = parent(path)
        for each in map(table, table(document.get("stages")).values()):
            stage = table(each.get("do")) or each
            lines = [str(line) for line in elements(stage.get("cmd"))]
            yield path, join(folder, str(stage.get("wdir") or ".")) or folder, lines
        for entry in map(table, table(document.get("entry_points")).values()):
            yield path, folder, [_filled(str(entry.get("command") or ""), table(entry.get("parameters")))]


def _variables(text: str) -> tuple[str, dict[str, str]]:
    """Return a Makefile's text with its own variables written as `${NAME}`, and their values."""
    names = set(re.findall(r"^([A-Za-z_]\w*)[ \t]*[:?]?=", text, re.MULTILINE))
    text = re.sub(r"\$\((\w+)\)", lambda found: f"${{{found[1]}}}" if found[1] in names else found[0], text)
    found = re.findall(r"^([A-Za-z_]\w*)[ \t]*[:?]?=[ \t]*(.*)$", text, re.MULTILINE)
    values = {name: value.replace("$$", "\0") for name, value in found}  # `$$` is a `$` for the shell
    for _ in range(_MAX_NESTED):
        values = {name: substitute(value, values, keep_unknown=True) for name, value in values.items()}
    return text, {name: value.replace("\0", "$") for name, value in values.items()}


def _filled(command: str, parameters: Mapping[str, Value]) -> str:
    """Return a command of an MLproject with parameters replaced by their defaults, otherwise by `<name>`."""

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
