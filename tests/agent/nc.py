"""What `nc HOST PORT` is to a program with pdb: a plain socket."""

from __future__ import annotations

import socket
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import subprocess

PROMPT = "(dkdbg) "


class Client:
    """It comes back until the port is open."""

    def __init__(self, port: int, process: subprocess.Popen[Any], host: str = "127.0.0.1") -> None:
        end = time.monotonic() + 15
        while True:
            try:
                self.sock = socket.create_connection((host, port), timeout=15)
                return
            except OSError:  # noqa: PERF203
                assert time.monotonic() < end
                assert process.poll() is None, process.communicate()
                time.sleep(0.02)

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
