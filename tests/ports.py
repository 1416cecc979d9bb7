"""Ports for tests that run beside each other: a process of tests owns a range, and gives each port away once.

A port that the kernel chose for a probe is anybody's again as soon as the probe is closed. Ours lie below the range
from which kernels choose (32768 on Linux, 49152 on macOS). Who listens on the first port of a range owns the range.
"""

import random
import socket
import struct
import time

SIZE = 200
RANGES = range(15_000, 32_000, SIZE)

_owners: list[socket.socket] = []
_left: list[int] = []


def free_port(count: int = 1) -> int:
    """The first of `count` neighbouring ports on 127.0.0.1 that nobody listens on, or gets from here."""
    while True:
        if len(_left) < count:
            _left[:] = _own_range()
        ports = _left[:count]
        del _left[:count]
        if all(map(_is_free, ports)):
            return ports[0]


def wait_open(port: int, limit: float = 300) -> None:
    """Wait until a dkdbg proxy listens on this port of 127.0.0.1; it tolerates probes."""
    end = time.monotonic() + limit
    while True:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        assert time.monotonic() < end, port
        time.sleep(0.05)


def _own_range() -> list[int]:
    for first in random.SystemRandom().sample(RANGES, len(RANGES)):
        owner = socket.socket()
        try:
            owner.bind(("127.0.0.1", first))
            owner.listen()
        except OSError:
            owner.close()
        else:
            _owners.append(owner)
            return list(range(first + 1, first + SIZE))
    raise AssertionError("no range of ports is free")


def _is_free(port: int) -> bool:
    """Whether a server can listen there, and whoever connects reaches it.

    What a killed Podman has left leads a port of this machine to a container that is no more: nobody listens there, and
    nobody who connects gets an answer.
    """
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
            probe.listen()
            with socket.create_connection(("127.0.0.1", port), 2) as client:
                # Both ends are shut at once, so that no port stays in TIME_WAIT and the next one can bind it.
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                probe.accept()[0].close()
        except OSError:
            return False
    return True
