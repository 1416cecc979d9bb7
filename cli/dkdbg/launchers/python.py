"""The plain interpreter, and the helpers that multiprocessing starts below it."""

from __future__ import annotations

import re

from dkdbg.launchers.launcher import Launcher

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from dkdbg.launchers.launcher import Launch, Line


class Python(Launcher):
    """python, pypy, ipython, py, or a variable of a script or Makefile that names an interpreter."""

    def starts(self, word: str) -> bool:
        """Return whether a word is an interpreter."""
        return re.fullmatch(_INTERPRETER, word) is not None

    def launch(self, line: Line) -> Launch | None:
        """Return the script; `python train` and `python tools/` are typos or placeholders."""
        found = interpreted(line.rest)
        if found is None or found.is_module or not re.search(r"\.pyw?$", found.what):
            return None
        return self.launched(line, found.what, found.rest)


class Interpreted:
    """The module or script that an interpreter runs, and the words after it."""

    def __init__(self, what: str, rest: Sequence[str], *, is_module: bool) -> None:
        self.what = what
        self.rest = list(rest)
        self.is_module = is_module


def interpreted(rest: Sequence[str]) -> Interpreted | None:
    """Return the module or script behind the interpreter's own options, None for `-c`, standard input and `--version`."""
    place = 0
    while place < len(rest) and rest[place].startswith("-"):
        flag = rest[place]
        if flag == "-m":
            module = rest[place + 1] if place + 1 < len(rest) else ""
            return Interpreted(module, rest[place + 2 :], is_module=True)
        if flag.startswith("-m") and not flag.startswith("--"):
            return Interpreted(flag[2:], rest[place + 1 :], is_module=True)
        if flag in ("-", "-V", "--version", "-h", "--help") or flag.startswith("-c"):
            return None
        place += 2 if flag in ("-W", "-X", "--check-hash-based-pycs") else 1
    return Interpreted(rest[place], rest[place + 1 :], is_module=False) if place < len(rest) else None


_INTERPRETER = (
    r"(?:\S*/)?(?:python|pypy|ipython)(?:3(?:\.\d+)?|2(?:\.\d+)?)?(?:\.exe)?|py|\$\{?(?:PYTHON|PY)\w*\}?"
    r"|\$\((?:PYTHON|PY)\w*\)"
)
PYTHON = Python(
    "python",
    helpers=(
        ("multiprocessing.resource_tracker", "multiprocessing resource tracker"),
        ("multiprocessing.semaphore_tracker", "multiprocessing semaphore tracker"),
    ),
)
