"""Format changes as a unified diff like git's, readable on a terminal."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from dkdbg.repository.transaction import Change

_NO_NEWLINE = "\\ No newline at end of file\n"


def diff(changes: Iterable[Change]) -> str:
    """Return a unified diff with git's headers, empty without changes.

    Files that are not UTF-8 text take one line with their sizes in bytes. If every line ends in CRLF, the header says
    so once. If only some do, those end in a visible `^M`, as in git.
    """
    return "".join("".join(_file(change)) for change in changes)


def _file(change: Change) -> Iterator[str]:
    old = "/dev/null" if change.before is None else f"a/{change.path}"
    new = "/dev/null" if change.after is None else f"b/{change.path}"
    yield f"diff --git a/{change.path} b/{change.path}\n"
    mode = "100755" if change.mode is not None and change.mode & 0o111 else "100644"
    if change.before is None:
        yield f"new file mode {mode}\n"
    elif change.after is None:
        yield "deleted file mode 100644\n"
    elif change.mode is not None:
        yield f"new mode {mode}\n"
    if change.before == change.after:
        return
    before, after = _text(change.before), _text(change.after)
    if before is None or after is None:
        sizes = " -> ".join(str(len(side)) for side in (change.before, change.after) if side is not None)
        yield f"Binary files {old} and {new} differ ({sizes} bytes)\n"
        return
    all_crlf = (
        all(text.count("\r\n") == text.count("\n") for text in (before, after)) and "\n" in before + after
    )
    if all_crlf:
        yield "line ends: CRLF\n"
    ending = "" if all_crlf else "^M"
    # Split at \n only, as git does: str.splitlines also splits at form feeds and U+2028.
    left, right = ([line.replace("\r\n", ending + "\n") for line in _lines(text)] for text in (before, after))
    for line in difflib.unified_diff(left, right, old, new):
        yield line if line.endswith("\n") else f"{line}\n{_NO_NEWLINE}"


def _text(data: bytes | None) -> str | None:
    """Return the text of a file, empty for no file; None if it is binary."""
    if data is None:
        return ""
    try:
        return None if b"\0" in data else data.decode()
    except UnicodeDecodeError:
        return None


def _lines(text: str) -> list[str]:
    lines = [line + "\n" for line in text.split("\n")]
    lines[-1] = lines[-1][:-1]
    return lines if lines[-1] else lines[:-1]
