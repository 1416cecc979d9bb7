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
        """Return the launch of a script; ignore `python train` and `python tools/`, which are typos or placeholders."""
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
    """Return the module or script after the interpreter's options; None for `-c`, standard input and `--version`."""
    left = list(rest)
    while left:
        word = left.pop(0)
        if not word.startswith("-"):
            return Interpreted(word, left, is_module=False)
        if word in ("-", "--version", "--help"):
            return None
        if word == "--check-hash-based-pycs":
            del left[:1]
        for position, letter in enumerate("" if word.startswith("--") else word[1:], 2):
            value = word[position:]
            if letter in "cVh?":
                return None
            if letter == "m":
                return Interpreted(value or "".join(left[:1]), left[0 if value else 1 :], is_module=True)
            if letter in "WX":
                del left[: 0 if value else 1]
                break
    return None


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
