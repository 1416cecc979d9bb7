"""A terminal for a program: what it writes there, how wide that is, and the keys of its user."""

import codecs
import os
import pty
import select
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fcntl import ioctl
from pathlib import Path
from typing import Any

#: Seconds that a loaded machine may take for anything.
_TIMEOUT_S = 300.0


class Terminal:
    """A running program in a terminal.

    Attributes:
        shown: everything since the last keys.
    """

    def __init__(self, process: subprocess.Popen[bytes], host: int) -> None:
        self.process, self._host, self.shown = process, host, ""
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode

    def type(self, keys: str) -> None:
        self.shown = ""
        os.write(self._host, keys.encode())

    def until(self, text: str) -> str:
        """Return what is shown since the last keys, once `text` is in it."""
        while text not in self.shown:
            assert self.read(), self.shown
        return self.shown

    def end(self) -> int:
        """Read until the program closes the terminal; return its exit code."""
        while self.read():
            pass
        return self.process.wait(_TIMEOUT_S)

    def hang_up(self) -> None:
        """Close it under the program."""
        with Path(os.devnull).open("rb") as nothing:
            os.dup2(nothing.fileno(), self._host)

    def read(self) -> bool:
        """Read more, unless the program has closed the terminal, or shows nothing for too long."""
        try:
            piece = os.read(self._host, 65536) if select.select([self._host], [], [], _TIMEOUT_S)[0] else b""
        except OSError:  # Linux reports the end so, macOS by nothing
            return False
        self.shown += self._decode(piece)
        return bool(piece)


def begun(argv: Sequence[str], columns: int = 100, **options: Any) -> tuple[subprocess.Popen[bytes], int]:
    """A program in a terminal of its own, of so many columns, and the descriptor of its user's side."""
    host, program_side = pty.openpty()
    ioctl(program_side, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = subprocess.Popen(
        argv, stdin=program_side, stdout=program_side, stderr=program_side, start_new_session=True, **options,
        preexec_fn=lambda: ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509 - a system call
    )  # fmt: skip
    os.close(program_side)
    return process, host


@contextmanager
def terminal(argv: Sequence[str], *, columns: int = 100, **options: Any) -> Iterator[Terminal]:
    """Run a program in a terminal; at the end it is killed."""
    process, host = begun(argv, columns, **options)
    try:
        yield Terminal(process, host)
    finally:
        process.kill()
        process.wait()
        os.close(host)


def in_a_terminal(program: str, columns: int, **env: str) -> str:
    """Return what a Python program writes to a terminal of so many columns."""
    plain = {k: v for k, v in os.environ.items() if k not in {"NO_COLOR", "COLUMNS", "LINES", "COLORTERM"}}
    settings = {**plain, "TERM": "xterm", "PYTHONIOENCODING": "utf-8", **env}
    with terminal([sys.executable, "-c", program], columns=columns, env=settings) as running:
        assert running.end() == 0, running.shown
        return running.shown.replace("\r\n", "\n")
