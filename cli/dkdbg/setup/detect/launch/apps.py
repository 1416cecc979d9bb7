"""Find the server of an app by the app's own code: `app = FastAPI()` in main.py is started by `uvicorn main:app`."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from dkdbg.launchers.lines.command_lines import parse_line
from dkdbg.setup.detect.files import parent
from dkdbg.setup.detect.python.python_source import parsed, read_source

if TYPE_CHECKING:
    from collections.abc import Collection

    from dkdbg.launchers.launcher import Launch
    from dkdbg.setup.detect.files import Tree

#: A file that starts only as a module of its package: `python -m package.program`.
_RELATIVE_IMPORT = re.compile(r"^(?:from\s+\.+[\w.]*\s+import\b)", re.MULTILINE)
#: Call that makes an app -> its command line, and that of a function that returns one.
_SERVED = {
    "bind": ("serve run {}", ""),
    "FastAPI": ("uvicorn {}", "uvicorn {} --factory"),
    "Starlette": ("uvicorn {}", "uvicorn {} --factory"),
    "Flask": ("flask --app {} run", "flask --app {} run"),
}
_HINT = re.compile(r"\b(?:FastAPI|Starlette|Flask|bind)\(|\bstreamlit\b")


def served(tree: Tree, path: str, text: str) -> tuple[Launch, str] | None:
    """Return the launch of the app in a file and its working directory; None for a file that starts itself, or has no app."""
    fact = read_source(text) if _HINT.search(text) else None
    if fact is None or fact.error:
        return None
    command, cwd = "", "."
    if "streamlit" in fact.imports:  # `python app.py` shows an empty page
        command = f"streamlit run {path}" if fact.has_guard or fact.runs else ""
    elif not fact.has_guard and fact.listens is None and (app := _app(text, fact.imports)) is not None:
        cwd, module = as_module(tree, path, text) or _importable(tree, path, fact.imports)
        command = app[0].format(f"{module}:{app[1]}")
    launches = parse_line(command)
    return (launches[0], cwd) if launches else None


def _app(text: str, imports: Collection[str]) -> tuple[str, str] | None:
    """Return the template of a command line and the app's variable, else a function without arguments that makes one."""
    apps: dict[str, str] = {}
    factories: dict[str, str] = {}
    for node in parsed(text).body:
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            made = _made(node.value)
            if made and isinstance(target, ast.Name):
                apps.setdefault(made, target.id)
        elif isinstance(node, ast.FunctionDef) and len(node.args.defaults) == len(node.args.args):
            made = next((name for each in ast.walk(node) if (name := _made(each))), None)
            if made and re.search("create|make|build|get", node.name):
                factories.setdefault(made, node.name)
    # Ray Serve comes first: a FastAPI app in its file is a part of the deployment.
    found = [(line, apps[name]) for name, (line, _) in _SERVED.items() if name in apps]
    found += [(line, factories[name]) for name, (_, line) in _SERVED.items() if name in factories and line]
    return next((each for each in found if "serve run" not in each[0] or "ray" in imports), None)


def _made(node: ast.AST) -> str | None:
    called = node.func if isinstance(node, ast.Call) else None
    name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", None)
    return name if name in _SERVED else None


def _importable(tree: Tree, path: str, imports: Collection[str]) -> tuple[str, str]:
    """Return the directory from which most of a file's imports are found, the outermost first, and its dotted name there."""
    steps = path.removesuffix("/__init__.py").removesuffix(".py").split("/")

    def found(depth: int) -> int:
        base = "".join(f"{step}/" for step in steps[:depth])
        return sum(tree.has(f"{base}{name}.py") or tree.has_dir(f"{base}{name}") for name in imports)

    depths = [depth for depth in range(len(steps)) if all(step.isidentifier() for step in steps[depth:])]
    best = max(depths or [len(steps) - 1], key=lambda depth: (found(depth), -depth))
    return "/".join(steps[:best]) or ".", ".".join(steps[best:])


def as_module(tree: Tree, path: str, text: str) -> tuple[str, str] | None:
    """Return working directory and dotted name of a file with relative imports in a package; None for any other file."""
    top = parent(path)
    if not _RELATIVE_IMPORT.search(text) or not tree.has(f"{top}/__init__.py"):
        return None
    while tree.has(f"{parent(top)}/__init__.py"):
        top = parent(top)
    home = parent(top)
    steps = path.removesuffix(".py").split("/")[0 if home == "." else home.count("/") + 1 :]
    return (home, ".".join(steps)) if all(step.isidentifier() for step in steps) else None
