"""Print messages, tables and questions, with terminal escape sequences made harmless; the only module that prints."""

from __future__ import annotations

import errno
import io
import json
import os
import re
import shutil
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from dkdbg.errors import DkdbgError
from dkdbg.launchers.words import whole_number
from dkdbg.printable import is_text, printable, printable_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

#: Errors of standard output so far; `finish` reports the first.
_unwritten: list[OSError] = []


def say(text: str = "") -> None:
    """Print a message for the user to standard output; it may have several lines."""
    _print(printable_lines(text))


def warn(text: str) -> None:
    """Print to standard error a message that is not part of the result."""
    _print(printable_lines(text), sys.stderr)


def emit(value: object) -> None:
    """Print one JSON object to standard output."""
    _print(as_json(value, indent=2))


def as_json(value: object, indent: int | None = None) -> str:
    """Return `value` as JSON; letters of all languages stay, invisible and control characters are escaped."""
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    return "".join(each if each == "\n" or is_text(each) else json.dumps(each)[1:-1] for each in text)


def _print(text: str, stream: TextIO | None = None, end: str = "\n") -> None:
    stream = stream or sys.stdout
    try:
        print(f"{text}{end}", end="", file=stream, flush=True)  # one write per message: several threads print
    except OSError as error:
        # The reader is gone (`dkdbg init --yes | head`) or the disk is full. Discard further output, so that `init`
        # does not stop half way.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        if stream is sys.stdout and not isinstance(error, BrokenPipeError):
            _unwritten.append(error)


def finish() -> None:
    """Flush standard output. Raises DkdbgError: some of the output could not be written."""
    _print("", end="")
    if _unwritten:
        error = _unwritten[0]
        is_full = error.errno in {errno.ENOSPC, errno.EDQUOT}
        raise DkdbgError(
            f"cannot write the output: {error.strerror}",
            hint="free space on that disk, or name another file" if is_full else "",
        )


def escape_what_cannot_be_shown() -> None:
    """Write characters that standard output's encoding (cp1252, ISO-8859-1) lacks as escape sequences."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def screen(text: str) -> None:
    """Clear the terminal and print `text`; without a terminal print it after the previous output."""
    if sys.stdout.isatty():
        sys.stdout.write("\x1b[H\x1b[2J\x1b[3J")
    say(text)


def table(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    styles: Mapping[str, Mapping[str, str]] | None = None,
    whole: Collection[str] = (),
    label: str = "",
) -> None:
    """Print a table. In a terminal its cells wrap to fit; in a file or a pipe no line wraps.

    Args:
        rows: rows of cells, each as long as `header`.
        styles: heading -> text of a cell -> the rich style of that cell, used where colours are wanted.
        whole: headings of the columns that users copy from; their cells wrap last.
        label: text before the first line; the other lines are indented by its width.
    """
    from dkdbg import terminal  # noqa: PLC0415 - rich takes 50 ms, half of what a start may take

    columns = width()
    cells = [[printable(cell) for cell in row] for row in rows]
    room = None if columns is None else max(20, columns - len(label))
    for line in terminal.table(header, cells, columns=room, styles=styles, whole=whole):
        _print(label + line)
        label = " " * len(label)


def failure(error: DkdbgError) -> None:
    """Print an error and, below it, its hint to standard error."""
    _print(f"{_coloured('dkdbg:', 'bold red')} {printable_lines(error.message)}", sys.stderr)
    if error.hint:
        _print(f"  {_coloured('hint:', 'bold')} {printable_lines(error.hint)}", sys.stderr)


def _coloured(word: str, style: str) -> str:
    """Return a word, in colour if standard error is a terminal."""
    if not sys.stderr.isatty():
        return word
    from dkdbg import terminal  # noqa: PLC0415 - as above

    return terminal.coloured(word, style)


def emit_line(value: object) -> None:
    """Print one JSON object on one line, for a program that follows the output."""
    _print(as_json(value))


def event_line(kind: str, text: str, **more: object) -> str:
    """Return an event of a long-running verb as one line of JSON."""
    return json.dumps({"event": kind, "time": round(time.time(), 3), "text": text, **more})


class Status:
    """A status line that is redrawn in place; lines printed with `say` stay above it.

    Attributes:
        live: whether standard output is a terminal. If not, nothing is redrawn.
    """

    def __init__(self) -> None:
        self.live = sys.stdout.isatty()
        self._shown = False

    def show(self, text: str, share: float | None = None) -> None:
        """Replace the status line with `text`.

        Args:
            share: progress from 0 to 1, drawn as a bar before the text. None: unknown.
        """
        if not self.live:
            return
        from dkdbg import terminal  # noqa: PLC0415 - as above

        columns, line = shutil.get_terminal_size().columns - 1, printable(text)
        has_bar = share is not None and "utf" in (sys.stdout.encoding or "").lower()
        line = terminal.bar(share or 0.0, line, columns) if has_bar else terminal.cropped(line, columns)
        sys.stdout.write(f"\r\x1b[2K{line}")
        sys.stdout.flush()
        self._shown = True

    def say(self, text: str) -> None:
        """Replace the status line with a line that stays."""
        self.clear()
        say(text)

    def clear(self) -> None:
        """Erase the status line."""
        if self._shown:
            sys.stdout.write("\r\x1b[2K")
            sys.stdout.flush()
            self._shown = False


def ask(question: str, *, diff: Callable[[], None] | None = None) -> bool:
    """Return whether the user answers yes; False without a terminal or at the end of input.

    Args:
        question: the question, without the possible answers.
        diff: called when the user answers `d`; the question is repeated afterwards.
    """
    if not sys.stdin.isatty():
        return False
    answers = "[y/N]" if diff is None else "[y/N], d for the diff:"
    while True:
        try:
            answer = input(f"{printable_lines(question)} {answers} ").strip().lower()
        except EOFError:
            return False
        if diff is None or answer not in {"d", "diff"}:
            return answer in {"y", "yes"}
        diff()


def width() -> int | None:
    """Return the terminal's width in columns; None if standard output is not a terminal: then no line may wrap."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def interactive() -> bool:
    """Return whether standard input is a terminal, on which the user can answer questions."""
    return sys.stdin.isatty()


def diff(text: str) -> None:
    """Print a unified diff, in colour when standard output is a terminal and NO_COLOR is unset."""
    shown = printable_lines(text)
    if sys.stdout.isatty() and not os.environ.get("NO_COLOR"):
        colours = {"+": "\033[32m", "-": "\033[31m", "@": "\033[36m"}
        shown = "\n".join(
            f"{colours[line[0]]}{line}\033[0m" if line[:1] in colours else line for line in shown.split("\n")
        )
    _print(shown)


@contextmanager
def step(text: str, *, show: bool = True) -> Iterator[None]:
    """Time the with statement's body, one step of a longer run; print `text` with ok, or FAILED if the body raises."""
    began = time.monotonic()
    try:
        yield
    except BaseException:
        if show:
            say(f"  FAILED {time.monotonic() - began:6.1f} s  {text}")
        raise
    if show:
        say(f"  ok     {time.monotonic() - began:6.1f} s  {text}")


_KEY = re.compile(rb"\x1b[\[O][A-D]|[\s\S]")


def choose(question: str, options: list[str], *, start: int = 0) -> int | None:
    """Let the user choose an option with the arrow keys and Enter; return its index.

    Return None for `q`, Escape, the end of input or no terminal. A digit selects an option at once if there are
    fewer than ten. A terminal without cursor movement gets a numbered list.
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()) or os.environ.get("TERM", "dumb") == "dumb":
        return _choose_by_number(question, options, start)
    import termios  # noqa: PLC0415 - missing on Windows
    import tty  # noqa: PLC0415

    size = shutil.get_terminal_size()
    rows = max(3, min(len(options), size.lines - 3))
    say(f"{question} (arrow keys, Enter; q chooses none of these)")
    at, drawn, descriptor = start, 0, sys.stdin.fileno()
    keys: list[bytes] = []  # fast typing and pasted text arrive as several keys at once
    before = termios.tcgetattr(descriptor)
    try:
        tty.setcbreak(descriptor)
        while True:
            first = max(0, min(at - rows // 2, len(options) - rows))
            shown = [
                f"{'>' if place == at else ' '} {printable(options[place])}"[: size.columns - 1]
                for place in range(first, min(first + rows, len(options)))
            ]
            sys.stdout.write(
                (f"\x1b[{drawn}A" if drawn else "") + "".join(f"\r\x1b[2K{line}\n" for line in shown)
            )
            sys.stdout.flush()
            drawn = len(shown)
            if not keys:
                keys = _KEY.findall(os.read(descriptor, 64)) or [b""]
            key = keys.pop(0)
            if key in {b"\x1b[A", b"\x1bOA", b"k"}:
                at = (at - 1) % len(options)
            elif key in {b"\x1b[B", b"\x1bOB", b"j", b"\t"}:
                at = (at + 1) % len(options)
            elif key in {b"\r", b"\n"}:
                return at
            elif key in {b"", b"q", b"\x1b", b"\x04"}:
                return None
            elif key.isdigit() and 0 < int(key) <= len(options) < 10:
                return int(key) - 1
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def _choose_by_number(question: str, options: list[str], start: int) -> int | None:
    if not sys.stdin.isatty():
        return None
    say(question)
    for number, option in enumerate(options, 1):
        say(f"  {number}  {printable(option)}")
    try:
        answer = input(f"Number [{start + 1}] ").strip()
    except EOFError:
        return None
    if not answer:
        return start
    chosen = whole_number(answer, len(options))
    return chosen - 1 if chosen else None
