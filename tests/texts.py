"""The texts of the program: its strings that are not docstrings, with `{}` where a value comes in."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from dkdbg import main

SOURCES = Path(main.__file__).resolve().parent


def texts() -> Iterator[tuple[str, str]]:
    """Yield each text with the path of its file; the names of threads are left out."""
    for path in sorted(SOURCES.rglob("*.py")):
        tree = ast.parse(path.read_text())
        skipped = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        skipped |= {
            id(each) for node in ast.walk(tree) if isinstance(node, ast.keyword) and node.arg == "name" for each in ast.walk(node)
        }  # fmt: skip
        for node in ast.walk(tree):
            if id(node) in skipped:
                continue
            if isinstance(node, ast.JoinedStr):
                skipped.update(id(each) for each in ast.walk(node))
                parts = [each.value if isinstance(each, ast.Constant) else "{}" for each in node.values]
                yield str(path.relative_to(SOURCES)), "".join(map(str, parts))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                text = re.sub(r"%[-0-9.]*[sdrg]|\{\w+(?:\[\w+\])?\}", "{}", node.value)
                yield str(path.relative_to(SOURCES)), text
