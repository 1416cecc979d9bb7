"""How many inputs the fuzz tests try (DKDBG_TEST_FUZZ, nightly 10,000; a few, or 300 with DKDBG_TEST_FULL=1), and who speaks them."""

import contextlib
import os
import socket
from pathlib import Path

import hypothesis

from tests.agent.dap_probe import wait_for

FULL = bool(os.environ.get("DKDBG_TEST_FULL"))


def fuzz_settings(few: int, full: int = 300) -> hypothesis.settings:
    """Return the settings of a fuzz test that tries `few` inputs by default, some seconds of them."""
    return hypothesis.settings(
        max_examples=int(os.environ.get("DKDBG_TEST_FUZZ", str(full if FULL else few))),
        deadline=None,
        suppress_health_check=list(hypothesis.HealthCheck),
    )


def speak(port: int, pieces: list[bytes], leaving: str) -> tuple[bytes, socket.socket]:
    """Send pieces to a port of this machine, and leave: `closes`, `half`, `resets`, or `stays`; what was said, and the socket."""
    sock, said = socket.socket(), b""
    sock.settimeout(10)
    with contextlib.suppress(OSError):
        sock.connect(("127.0.0.1", port))
        sock.settimeout(0.0)
        for piece in pieces:
            sock.sendall(piece)
            with contextlib.suppress(BlockingIOError):
                said += sock.recv(1 << 16)
        if leaving == "half":
            sock.shutdown(socket.SHUT_WR)
        if leaving == "resets":
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    if leaving != "stays":
        sock.close()
    return said, sock


class Size:
    """How large a process is now, and may become: threads, descriptors and KiB of memory."""

    def __init__(self, pid: int, *, threads: int, descriptors: int, memory: int) -> None:
        self.pid = pid
        allowed = (threads, descriptors, memory)
        self.most = [before + more for before, more in zip(self._now(), allowed, strict=True)]

    def _now(self) -> tuple[int, int, int]:
        folder = Path(f"/proc/{self.pid}")
        status = dict(
            line.split(":\t") for line in (folder / "status").read_text().splitlines() if ":\t" in line
        )
        return int(status["Threads"]), len(os.listdir(folder / "fd")), int(status["VmRSS"].split()[0])  # noqa: PTH208

    def is_kept(self) -> None:
        """Wait until the process has not grown by more; a connection has some seconds to end."""
        wait_for(self._now, lambda now: all(map(int.__le__, now, self.most)))
