"""The table of attacks in README.md of this folder, made from the tests here.

python -m tests.attacks.table            print it
python -m tests.attacks.table --write    write it into README.md, between its two marks
"""

import ast
import re
import sys
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
DOCUMENT = HERE / "README.md"
BEGIN, END = "<!-- attacks: made by tests/attacks/table.py -->", "<!-- end of attacks -->"


@dataclass(frozen=True)
class Attack:
    """One test: who attacks, the number of the hole that it holds closed (0 for none of the list), and how."""

    attacker: str
    hole: int
    says: str
    test: str


def attacks() -> list[Attack]:
    """Read all tests that carry the mark `attack`. Raises ValueError for one without a docstring."""
    found = []
    for path in sorted(HERE.glob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and (hole := _hole(node)) is not None:
                says = (ast.get_docstring(node) or "").split("\n\n")[0]
                if not says:
                    raise ValueError(f"{path.name}: {node.name} has no docstring, which README.md shows")
                attacker = path.stem.removeprefix("test_").replace("_", " ")
                found.append(Attack(attacker, hole, " ".join(says.split()), f"{path.name}::{node.name}"))
    return sorted(found, key=lambda one: (one.attacker, one.hole or 99, one.test))


def _hole(node: ast.FunctionDef) -> int | None:
    for decorator in node.decorator_list:
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func).endswith("mark.attack"):
            value = decorator.args[0]
            assert isinstance(value, ast.Constant)
            return int(value.value)
    return None


def table(found: list[Attack]) -> str:
    lines = []
    for attacker in dict.fromkeys(one.attacker for one in found):
        lines += [
            f"### {attacker[0].upper()}{attacker[1:]}",
            "",
            "| hole | the attack, and what comes of it | test |",
            "|---|---|---|",
        ]
        for one in found:
            if one.attacker == attacker:
                says = one.says.replace("|", "\\|")
                lines.append(f"| {one.hole or ''} | {says} | `{one.test.split('::')[1]}` |")
        lines.append("")
    return "\n".join(lines)


def document(text: str) -> str:
    pattern = re.compile(f"{re.escape(BEGIN)}.*{re.escape(END)}", re.DOTALL)
    return pattern.sub(lambda _: f"{BEGIN}\n\n{table(attacks())}\n{END}", text)


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        DOCUMENT.write_text(document(DOCUMENT.read_text()))
    else:
        print(table(attacks()))
