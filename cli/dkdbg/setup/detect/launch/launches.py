"""Collect launch lines from READMEs, documents, scripts, Makefiles, CI and editor configurations."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dkdbg.errors import DkdbgError
from dkdbg.launchers import registry
from dkdbg.launchers.lines.command_lines import logical_lines, parse_line
from dkdbg.setup.detect.files import is_vendored, join, parent
from dkdbg.setup.detect.launch.code_blocks import code_blocks
from dkdbg.setup.detect.launch.roles import role_of
from dkdbg.setup.detect.launch.tasks import pipelines, read_tasks, recipes, targets, with_tasks
from dkdbg.setup.detect.substitution import substitute
from dkdbg.setup.detect.values import elements, table
from dkdbg.setup.render import jsonc

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from dkdbg.launchers.launcher import Launch
    from dkdbg.setup.detect.files import Tree
    from dkdbg.setup.detect.launch.tasks import Tasks

#: Weight of each place as evidence of "this is how users start it"; see entrypoint.py.
PLACES = {
    "service": 100, "image": 45, "other-service": 20, "other-image": 16, "procfile": 34, "readme": 30, "editor": 24, "makefile": 18, "docs": 15, "script": 14,
    "inline": 13, "subreadme": 11, "ci": 5,
}  # fmt: skip
_README = re.compile(r"readme(?:[-_.]\w+)*", re.IGNORECASE)
_DOCUMENT = re.compile(r".*\.(?:md|rst|mdx)", re.IGNORECASE)
_INLINE = re.compile(r"(?<!`)`([^`\n]{6,200})`(?!`)")
_MAX_DOCUMENTS = 120
_MAX_SCRIPTS = 120


@dataclass(frozen=True, kw_only=True)
class Seen:
    """A launch line and where it was seen.

    Attributes:
        launch: the parsed command.
        cwd: directory to run it in, relative to the root.
        place: a key of PLACES.
        source: file, as text for the user.
    """

    launch: Launch
    cwd: str
    place: str
    source: str


def gather(tree: Tree, scripts: Collection[str]) -> tuple[Seen, ...]:
    """Return the launch lines of the whole repository, the best places first, each in reading order."""
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
        # `make clean` and `make lint` may run a program here too, but not the one to debug.
        place = "ci" if role_of(target) == "tool" else "makefile"
        found.extend(_lines(tree, recipe, path, place, scripts=scripts, home=parent(path)))
    for (runner, name), task in tasks.items():
        found.extend(_lines(tree, list(task), f"{runner} task {name}", "script", scripts=scripts, home="."))
    for path, home, lines in pipelines(tree):
        found.extend(_lines(tree, lines, path, "makefile", scripts=scripts, home=home))
    found.extend(_procfiles(tree, scripts))
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
    here = parent(path)
    is_readme = bool(_README.fullmatch(path.rsplit("/", 1)[-1]))
    root_readme = is_readme and here in {".", "docs", ".github"}
    place = "readme" if root_readme else "subreadme" if is_readme else "docs"
    home = "." if place != "subreadme" else here
    text = tree.text(path)
    for block in code_blocks(text, is_rst=path.lower().endswith(".rst")):
        lines = list(with_tasks(logical_lines(block), tasks))
        yield from _lines(tree, lines, path, place, scripts=scripts, home=home)
    if is_readme:
        for match in _INLINE.finditer(text):
            lines = list(with_tasks([match[1]], tasks))
            where = "inline" if root_readme else "ci"
            yield from _lines(tree, lines, path, where, scripts=scripts, home=home)


def lines_of(tree: Tree, lines: list[str], scripts: Collection[str]) -> list[Seen]:
    """Return the launches of lines typed in the root, in order."""
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
    """Yield the launches in a shell script, at the place of the line that runs the script."""
    script = launch.shell_script or ""
    for base in (cwd, "."):
        local = join(base, script)
        if local is not None and tree.has(local):
            for seen in _shell_script(tree, local, scripts, place, follow=False):
                source = f"{path}: {script}"
                yield Seen(
                    launch=seen.launch, cwd=seen.cwd if seen.cwd != "." else base, place=place, source=source
                )
            return


def _shell_script(
    tree: Tree, path: str, scripts: Collection[str], place: str, *, follow: bool = True
) -> Iterator[Seen]:
    values: dict[str, str] = {}
    lines: list[str] = []
    for line in logical_lines(tree.text(path)):
        stripped = line.strip()
        if assigned := re.fullmatch(
            r"(?:export\s+|local\s+)?([A-Za-z_]\w*)=([\"']?)([^\"'$`]*?)\2(?:\s+#.*)?", stripped
        ):
            values[assigned[1]] = assigned[3]
        if not stripped.startswith("#"):
            lines.append(substitute(stripped, values, keep_unknown=True))
    # Follow one level only: scripts of a project may source each other in circles.
    found = list(_lines(tree, lines, path, place, scripts=scripts, home=".", follow=follow))
    spread = {seen.launch.target for seen in found if spreads(seen.launch)}
    # `if ...; then python train.py; else torchrun train.py; fi`: the branch with the launcher is the real run.
    yield from (seen for seen in found if seen.launch.target not in spread or spreads(seen.launch))


def spreads(launch: Launch) -> bool:
    """Return whether a launch line starts several processes of its program."""
    by = registry.named(launch.launcher)
    return by is not None and by.spreads


def _procfiles(tree: Tree, scripts: Collection[str]) -> Iterator[Seen]:
    for path in tree.named("Procfile"):
        lines = [line.partition(":")[2] for line in tree.text(path).split("\n")]
        yield from _lines(tree, lines, path, "procfile", scripts=scripts, home=parent(path))


def _editor(tree: Tree) -> Iterator[Seen]:
    """Yield the launch configurations of VS Code, which have been used for debugging."""
    path = ".vscode/launch.json"
    try:
        document = table(jsonc.loads(tree.text(path), file=path))
    except DkdbgError as error:
        tree.note(error.message)
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
        words = ["python", *how, *(_from(cwd, word) for word in (program, *args))]
        for launch in parse_line(shlex.join(words)):
            yield Seen(launch=launch, cwd=cwd, place="editor", source=path)


def _from(cwd: str, text: str) -> str:
    """Return a value of launch.json with its paths below `${workspaceFolder}` relative to `cwd`."""
    up = "" if cwd == "." else "../" * len(cwd.split("/"))
    return re.sub(r"\$\{workspace(?:Folder|Root)\}/?", up, text)
