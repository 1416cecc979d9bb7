"""Find the known error in a program's output, by a table of patterns. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from dkdbg.errors import EXIT_ENGINE
from dkdbg.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterable

#: Maximum characters of a quoted line.
_MAX_LINE_CHARS = 400
#: Maximum lines of output to search, and maximum characters of a line: a longer one keeps half from each end.
_MAX_LINES, _MAX_SEARCHED_CHARS = 1000, 1000


class Known(NamedTuple):
    """A known error: the pattern of its message, the cause as dkdbg states it, and a hint for the user."""

    pattern: str
    cause: str
    hint: str
    exit_code: int = EXIT_ENGINE


#: Cause and hint where a container's sh is not found, in messages of the engine and of an init program.
NO_SHELL = (
    "there is no sh on PATH, which starts the agent",
    "if your service sets PATH, add /bin to it; if its image has no shell, debug with a build stage or base image that has one (distroless: the tag debug)",
)


def first(table: Iterable[Known], output: str, flags: int = 0) -> tuple[Known, re.Match[str]] | None:
    """Return the first entry that matches, and its match; None for unknown messages."""
    found = ((known, re.search(known.pattern, output, flags)) for known in table)
    return next(((known, match) for known, match in found if match), None)


def bounded(text: str) -> str:
    """Return the last lines of a text that are searched for errors, shortened."""
    return shortened("\n".join(text.split("\n")[-_MAX_LINES:]))


def shortened(text: str) -> str:
    """Return a text with long lines cut in the middle: some patterns take quadratic time for a line."""
    half = _MAX_SEARCHED_CHARS // 2
    return "\n".join(
        each if len(each) <= _MAX_SEARCHED_CHARS else f"{each[:half]}...{each[-half:]}"
        for each in text.split("\n")
    )


def line_at(output: str, position: int) -> str:
    """Return the line that contains a match, shortened and printable."""
    start = output.rfind("\n", 0, position) + 1
    return printable(output[start:].partition("\n")[0].strip())[:_MAX_LINE_CHARS]


def last_line(output: str) -> str:
    """Return the last line that is not blank, shortened and printable; empty without one."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return printable(lines[-1])[-_MAX_LINE_CHARS:] if lines else ""
