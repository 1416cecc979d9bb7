"""What `nc HOST PORT` is to a program with pdb: a plain socket, and a user who reads the ready line and types its token."""

import os
import re
import select
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

PROMPT = "(dkdbg) "
#: A stand-in for netcat, where there is none.
NC = """\
import socket, sys, threading
sock = socket.create_connection((sys.argv[1], int(sys.argv[2])))
def back():
    while data := sock.recv(4096):
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
reader = threading.Thread(target=back)
reader.start()
for line in sys.stdin.buffer:
    sock.sendall(line)
reader.join()
"""


class Client:
    """It comes back until the port is open, and types the token.

    Args:
        token: to be typed; by default the one of the ready line, empty for none.

    Attributes:
        token: what was typed. said: what the program has said on its stderr until its ready line.
    """

    def __init__(
        self, port: int, process: subprocess.Popen[Any], host: str = "127.0.0.1", token: str | None = None
    ) -> None:
        self.said = ""
        self.token = self._read_token(process) if token is None else token
        end = time.monotonic() + 300
        while True:
            try:
                self.sock = socket.create_connection((host, port), timeout=300)
                break
            except OSError:
                assert time.monotonic() < end
                assert process.poll() is None, process.communicate()
                time.sleep(0.02)
        if self.token:
            assert self.until("token: ") == "token: "
            self.sock.sendall(self.token.encode() + b"\n")

    def _read_token(self, process: subprocess.Popen[Any]) -> str:
        # Byte by byte and past Python's buffer: the rest is for `communicate`.
        end = time.monotonic() + 300
        while True:
            if found := re.search(r"; type this first: (\S+)\n", self.said):
                return found[1]
            arrived = (
                select.poll()
            )  # not select.select: one process of tests may have more than 1,024 files open
            arrived.register(process.stderr, select.POLLIN)
            assert arrived.poll(1000 * max(0, end - time.monotonic())), self.said
            data = os.read(process.stderr.fileno(), 1)
            assert data, (self.said, process.communicate())
            self.said += data.decode("utf-8", "replace")

    def until(self, mark: str = PROMPT) -> str:
        text = ""
        while mark not in text:
            data = self.sock.recv(4096)
            if not data:
                return text
            text += data.decode()
        return text

    def ask(self, line: str) -> str:
        self.sock.sendall(line.encode() + b"\n")
        return self.until()


def path(folder: Path) -> str:
    """A PATH on which there is an `nc`.

    Args:
        folder: for the stand-in, where there is none.
    """
    if shutil.which("nc") is None:
        (folder / "nc.py").write_text(NC)
        (folder / "nc").write_text(f'#!/bin/sh\nexec {sys.executable} {folder}/nc.py "$@"\n')
        (folder / "nc").chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"
