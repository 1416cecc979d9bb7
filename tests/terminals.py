"""A terminal for a Python program: what it writes there, and how wide that is."""

from __future__ import annotations

import os
import pty
import select
import struct
import subprocess
import sys
import termios
from fcntl import ioctl


def in_a_terminal(program: str, columns: int, **env: str) -> str:
    """What a program writes to a terminal of so many columns."""
    host, program_side = pty.openpty()
    ioctl(program_side, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    plain = {k: v for k, v in os.environ.items() if k not in {"NO_COLOR", "COLUMNS", "LINES", "COLORTERM"}}
    running = subprocess.Popen(
        [sys.executable, "-c", program], stdin=program_side, stdout=program_side, stderr=program_side,
        env={**plain, "TERM": "xterm", "PYTHONIOENCODING": "utf-8", **env},
    )  # fmt: skip
    os.close(program_side)
    said = b""
    while select.select([host], [], [], 300)[0]:
        try:
            piece = os.read(host, 65536)
        except OSError:  # Linux says so at the end, macOS by nothing
            break
        if not piece:
            break
        said += piece
    os.close(host)
    assert running.wait(300) == 0, said
    return said.decode().replace("\r\n", "\n")
