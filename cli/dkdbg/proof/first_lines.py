"""Choose lines at which a run is certain to stop: the first lines of the user's modules and functions.

Also tell from stacks whether a program still imports: until then, a missing module can end it.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dkdbg.core.stacks import Frame
from dkdbg.launchers.lines.command_lines import launchers_in
from dkdbg.setup.detect.files import Tree, is_vendored
from dkdbg.setup.detect.launch.candidates import find_file, module_file
from dkdbg.setup.detect.python.python_source import parsed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from dkdbg.core.stacks import Session

#: Maximum number of files to set breakpoints in.
_MAX_FILES = 400
#: Beginning of the file names in Python's import system.
_IMPORT = "<frozen importlib"
#: Frame that stands for a process that does not answer.
UNKNOWN = Frame(path="", line=0, function="", own=True)


@dataclass(frozen=True, kw_only=True)
class FirstLines:
    """The first lines of the code in one file.

    Attributes:
        path: absolute, on this machine.
        module: first line of the module's own code; None if it has none.
        functions: (name, first line) of each function, in order.
        last_import: line of the last import in the module's own code; 0 if it has none.
    """

    path: str
    module: int | None
    functions: tuple[tuple[str, int], ...]
    last_import: int = 0


def program_of(tree: Tree, argv: Sequence[str]) -> str:
    """Return the file of `tree` that a command line on the target runs, as an absolute local path; empty if unknown."""
    for launcher, line in launchers_in(argv):
        launch = launcher.launch(line)
        target = launch.target if launch is not None else None
        if launch is None or target is None:
            return ""
        name = target.split(":", maxsplit=1)[0]
        is_module = launch.is_module or (not name.endswith(".py") and "/" not in name)
        found = module_file(tree, name, ".", package=True) if is_module else find_file(tree, name, ".")[0]
        return str(tree.root / found) if found else ""
    return ""


def of_tree(tree: Tree, entry: str) -> tuple[FirstLines, ...]:
    """Return the first lines of the user's files: those of `entry` (absolute, or empty) first, then of the nearest."""
    near = {
        path: _distance(path, entry.removeprefix(f"{tree.root}/"))
        for path in tree.files
        if path.endswith(".py") and not is_vendored(path)
    }
    found = []
    for path in sorted(near, key=near.__getitem__)[:_MAX_FILES]:
        lines = of_text(str(tree.root / path), tree.text(path))
        # The entry may have a syntax error: the program then ends with a clear message.
        if lines is None and str(tree.root / path) == entry:
            lines = FirstLines(path=entry, module=1, functions=())
        if lines is not None:
            found.append(lines)
    return tuple(found)


def of_text(path: str, text: str) -> FirstLines | None:
    """Return the first lines of a file; None for text that is not Python or has no code."""
    try:
        module = parsed(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    first = next((_start(each) for each in _code(module.body)), None)
    functions = tuple(sorted(_functions(module), key=lambda each: each[1]))
    if not (first or functions):
        return None
    imports = (each.lineno for each in module.body if isinstance(each, ast.Import | ast.ImportFrom))
    return FirstLines(path=path, module=first, functions=functions, last_import=max(imports, default=0))


def importing(sessions: Iterable[Session], last_import: Callable[[str], int]) -> Frame | None:
    """Return the innermost module frame of a main thread that imports; None if no process imports.

    The frame's `own` is True only while code of that module runs, not while it waits for another module's import.
    Return UNKNOWN for a process that does not answer, such as one that is loading a C library.

    `last_import` returns the line of the last import in the own code of a remote file; 0 if unknown.
    """
    found = [
        frame
        for session in sessions
        for process in session.processes
        for thread in process.threads or ()
        if thread.main and (frame := _importing(thread.frames, last_import))
    ]
    if any(process.threads is None for session in sessions for process in session.processes):
        found.append(UNKNOWN)
    return min(found, key=lambda each: each.own, default=None)


def _importing(frames: Sequence[Frame], last_import: Callable[[str], int]) -> Frame | None:
    if not _imports(frames, last_import):
        return None
    module = next((each for each in frames if each.function == "<module>"), frames[-1])
    inside = frames[: frames.index(module) + 1]
    return replace(module, own=module.own and not any(each.path.startswith(_IMPORT) for each in inside))


def _imports(frames: Iterable[Frame], last_import: Callable[[str], int]) -> bool:
    return any(
        frame.path.startswith(_IMPORT)
        or (frame.own and frame.function == "<module>" and frame.line <= last_import(frame.path))
        for frame in frames
    )


def _distance(path: str, entry: str) -> tuple[int, int, str]:
    """Return a sort key: `entry` first, then the files below its folder, other files, and tests."""
    folder = entry.rpartition("/")[0]
    is_test = "test" in path.rsplit("/", 1)[-1] or path.startswith("tests/")
    rank = (
        0 if path == entry else 3 if is_test else 1 if path.startswith(f"{folder}/" if folder else "") else 2
    )
    return rank, path.count("/"), path


def _functions(module: ast.Module) -> Iterator[tuple[str, int]]:
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = next((_start(each) for each in _code(node.body)), None)
            if first is not None and first > node.lineno:  # not `def f(): ...` on one line
                yield node.name, first


def _code(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements that have code, so no docstring, bare constant or `global`."""
    for each in body:
        is_constant = isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant)
        is_future = isinstance(each, ast.ImportFrom) and each.module == "__future__"
        if not (is_constant or is_future or isinstance(each, ast.Global | ast.Nonlocal)):
            yield each


def _start(statement: ast.stmt) -> int:
    """Return the line of a statement's first instruction: for a decorated function, its first decorator."""
    decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
    return min([statement.lineno, *(each.lineno for each in decorators)])
