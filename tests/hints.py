"""What a text of dkdbg tells people to type, as it stands in what dkdbg has said just now, for a test to type it.

A test that provokes a text and does what it says takes the line from `to_type`. So each call of `to_type` in the tests is
proof that a text is exercised; the texts that no test types stand in `tests/untyped.json`, each with the reason.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
from pathlib import Path

from tests import said
from tests.checkout import without_privileges
from tests.pages import environment

TESTS = Path(__file__).parent
#: They type nothing.
_ABOUT_IT = (Path(__file__), TESTS / "unit" / "test_hints.py")
#: Text of the program to why no test types what it says.
UNTYPED = TESTS / "untyped.json"


def to_type(output: str, text: str) -> list[str]:
    """The command lines of a text of `tests/said.json`, with the values that stand in `output` in place of `{}`.

    `output` is what the program printed, or the hint of its error. Fails where the text does not stand in it.
    """
    lines = said.listed()[text]
    pattern = "(.+?)".join(map(re.escape, text.strip().split("{}")))
    found = re.search(f"{pattern}$" if pattern.endswith("(.+?)") else pattern, output, re.MULTILINE)
    assert found, f"{text!r} does not stand in {output!r}"
    return [_filled(text.strip(), line, list(found.groups())) for line in lines]


def _filled(text: str, line: str, values: list[str]) -> str:
    """The line with the values of its own places."""
    first = text[: text.index(line)].count("{}")
    taken = iter(values[first:])
    return re.sub(r"\{\}", lambda _: next(taken), line)


def in_shell(root: Path, line: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """What comes of typing `line` into a shell in `root`, with `dkdbg` on its PATH; file modes count for root too."""
    return subprocess.run(
        [*without_privileges(), "sh", "-c", line], cwd=root, env=environment(env), capture_output=True, text=True,
        check=False, stdin=subprocess.DEVNULL, timeout=300,
    )  # fmt: skip


def exercised() -> dict[str, set[str]]:
    """Each text that a test types, and the tests' files: the second argument of each call of `to_type`, a literal."""
    found: dict[str, set[str]] = {}
    for path in sorted(TESTS.rglob("*.py")):
        source = path.read_text()
        if "to_type(" not in source or path in _ABOUT_IT:
            continue
        for node in ast.walk(ast.parse(source)):
            if not isinstance(node, ast.Call) or getattr(node.func, "id", "") != "to_type":
                continue
            text = ast.literal_eval(node.args[1])  # a literal, so that it is found here
            found.setdefault(text, set()).add(str(path.relative_to(TESTS)))
    return found


def untyped() -> dict[str, str]:
    """What `tests/untyped.json` says."""
    reasons: dict[str, str] = json.loads(UNTYPED.read_text())
    return reasons
