"""The only module that prints; whatever the text, it commands no terminal (`printable`)."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from dkdbg.printable import is_text, printable, printable_lines

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dkdbg.errors import DkdbgError


def say(text: str = "") -> None:
    """One message for a person, on standard output; it may have several lines."""
    _print(printable_lines(text))


def warn(text: str) -> None:
    """One message that must not be mistaken for a result, on standard error."""
    print(printable_lines(text), file=sys.stderr, flush=True)


def emit(value: object) -> None:
    """One JSON object for a program, on standard output."""
    _print(as_json(value, indent=2))


def as_json(value: object, indent: int | None = None) -> str:
    """JSON in the letters of its language; what is no text is escaped as JSON does it, so that nothing is lost."""
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    return "".join(each if each == "\n" or is_text(each) else json.dumps(each)[1:-1] for each in text)


def _print(text: str) -> None:
    try:
        print(text, flush=True)
    except BrokenPipeError:
        # `dkdbg init --yes | head`: nobody reads any more, which is no reason to stop half way.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except UnicodeEncodeError:
        # A terminal or pipe in another encoding (LC_ALL=C, cp1252): a name of the user's may not fit.
        encoding = sys.stdout.encoding or "ascii"
        print(text.encode(encoding, "backslashreplace").decode(encoding), flush=True)


def failure(error: DkdbgError) -> None:
    """An error: what went wrong, then what to type next."""
    warn(f"dkdbg: {error.message}")
    if error.hint:
        warn(f"  hint: {error.hint}")


def emit_line(value: object) -> None:
    """One JSON object on one line, for a program that follows what happens."""
    _print(as_json(value))


class Status:
    """One line that is redrawn in place while a person looks on; lines said through it stay above it.

    Attributes:
        live: whether standard output is a terminal. Without one nothing is redrawn.
    """

    def __init__(self) -> None:
        self.live = sys.stdout.isatty()
        self._shown = False

    def show(self, text: str) -> None:
        """Put `text` in the place of the line before."""
        if self.live:
            width = shutil.get_terminal_size().columns - 1
            sys.stdout.write(f"\r\x1b[2K{printable(text)[:width]}")
            sys.stdout.flush()
            self._shown = True

    def say(self, text: str) -> None:
        """A line that stays."""
        self.clear()
        say(text)

    def clear(self) -> None:
        """Take the line away."""
        if self._shown:
            sys.stdout.write("\r\x1b[2K")
            sys.stdout.flush()
            self._shown = False


def ask(question: str) -> bool:
    """Whether a person answers yes; no without a terminal or at the end of input."""
    if not sys.stdin.isatty():
        return False
    try:
        return input(f"{printable_lines(question)} [y/N] ").strip().lower() in {"y", "yes"}
    except EOFError:
        return False


def interactive() -> bool:
    """Whether a person can answer questions here."""
    return sys.stdin.isatty()


def diff(text: str) -> None:
    """A unified diff, with colours when standard output is a terminal that wants them."""
    shown = printable_lines(text)
    if sys.stdout.isatty() and not os.environ.get("NO_COLOR"):
        colours = {"+": "\033[32m", "-": "\033[31m", "@": "\033[36m"}
        shown = "\n".join(
            f"{colours[line[0]]}{line}\033[0m" if line[:1] in colours else line for line in shown.split("\n")
        )
    _print(shown)


@contextmanager
def step(text: str, *, show: bool = True) -> Iterator[None]:
    """One step of a longer run with the seconds it took; a failing step is marked before its error travels on."""
    began = time.monotonic()
    try:
        yield
    except BaseException:
        if show:
            say(f"  FAILED {time.monotonic() - began:6.1f} s  {text}")
        raise
    if show:
        say(f"  ok     {time.monotonic() - began:6.1f} s  {text}")
