"""Hints that a user types: the command lines of a hint as they stand in an output, and a shell to type them into."""

import re
import subprocess
from pathlib import Path

from dkdbg.hints import Hint
from tests.checkout import without_privileges
from tests.commands import command
from tests.pages import environment


def hinted(output: str, hint: Hint) -> list[str]:
    """Return the command lines of a hint with the values of `output`; fail where the hint does not stand in it."""
    seen: set[str] = set()

    def field(found: re.Match[str]) -> str:
        again = found[1] in seen
        seen.add(found[1])
        return f"(?P={found[1]})" if again else f"(?P<{found[1]}>.+?)"

    pattern = re.sub(r"\\\{(\w+)\\\}", field, re.escape(hint.template.replace("`", "")))
    end = "$" if pattern.endswith(")") else r"(?=$|[;,).])"  # a value at the end may have any characters
    found = re.search(rf"(?:^|(?<=[\s(;])){pattern}{end}", output, re.MULTILINE)
    assert found, f"{hint.template!r} does not stand in {output!r}"
    return [line.format(**found.groupdict()) for line in re.findall("`(.+?)`", hint.template)]


def in_shell(root: Path, line: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Type `line` into a shell in `root`, with `dkdbg` on its PATH; file modes count for root too."""
    return command([*without_privileges(), "sh", "-c", line], root, env=environment(env), check=False)
