"""A line between a job and a waiting attach that a test can cut."""

import contextlib
import json
import socket
import threading
from collections.abc import Iterator

from tests.engine.attach_proxies import docker


class Line:
    """Passes connections on to a port of 127.0.0.1, and bytes both ways.

    Attributes:
        address: where it listens. heard: all bytes that have passed.
    """

    def __init__(self, host: str, target: int) -> None:
        self._target = target
        self._listener = socket.create_server((host, 0))
        self.address = f"{host}:{self._listener.getsockname()[1]}"
        self.heard = bytearray()
        self._open: list[socket.socket] = []
        self._deaf: set[socket.socket] = set()
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Both ends see the end of each connection."""
        for each in self._open:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def silence(self) -> None:
        """Nothing passes on those connections any more, and neither end is told; new ones are as they should be."""
        self._deaf |= set(self._open)

    def close(self) -> None:
        self.cut()
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                ours, _ = self._listener.accept()
                try:
                    theirs = socket.create_connection(("127.0.0.1", self._target))
                except OSError:
                    ours.close()
                    continue
                self._open += [ours, theirs]
                for source, target in ((ours, theirs), (theirs, ours)):
                    threading.Thread(target=self._pass, args=(source, target), daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                if source not in self._deaf:
                    self.heard += data
                    target.sendall(data)
        for each in () if source in self._deaf else (source, target):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def line_to(port: int) -> Iterator[Line]:
    """A line from containers to a port of this machine's loopback."""
    bridge = json.loads(docker("network", "inspect", "bridge"))[0]
    with contextlib.closing(Line(bridge["IPAM"]["Config"][0]["Gateway"], port)) as line:
        yield line
