"""Find free ports of this machine."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from dkdbg.core.plan import PUBLISHED_ON
from dkdbg.errors import EXIT_CONFLICT, DkdbgError

if TYPE_CHECKING:
    from collections.abc import Callable

#: Maximum number of starts that find their port in use: more are not explained by a race for the port.
_MAX_STARTS = 5


def on_free_port(preferred: int, *, own_port: int | None, start: Callable[[int], None]) -> int:
    """Call `start` with the first free port, and with the next one if another program took it meanwhile.

    Returns:
        The port with which `start` succeeded.

    Raises:
        DkdbgError: `start` failed for another reason, or no port is free.
    """
    for _ in range(_MAX_STARTS):
        port = free_port(preferred, own_port=own_port)
        try:
            start(port)
        except DkdbgError as error:
            if error.exit_code != EXIT_CONFLICT or port == own_port or is_free(port):
                raise
            preferred = port + 1
        else:
            return port
    raise DkdbgError(
        f"the engine reported every port up to {preferred - 1} as taken, although each was free before the start",
        hint="does the service run more than once (scale, replicas)? Each of its containers needs the same port",
        exit_code=EXIT_CONFLICT,
    )


def free_port(preferred: int, *, own_port: int | None, tries: int = 50) -> int:
    """Return the first port from `preferred` on that can be bound on 127.0.0.1.

    `own_port`, which the service already publishes, counts as free.

    Raises:
        DkdbgError: no free port among `tries` ports.
    """
    for port in range(preferred, min(preferred + tries, 65536)):
        if port == own_port or is_free(port):
            return port
    raise DkdbgError(
        f"no free port on 127.0.0.1 from {preferred} to {preferred + tries - 1}",
        hint="name another with [debug] port in dkdbg.toml",
        exit_code=EXIT_CONFLICT,
    )


def unused_port() -> int:
    """Return a port of 127.0.0.1 chosen by the kernel: two simultaneous callers get different ones."""
    with socket.create_server((PUBLISHED_ON, 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


def is_free(port: int) -> bool:
    """Return whether this port of 127.0.0.1 is free now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # Like docker-proxy: a port in TIME_WAIT is free, a listening one is not.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((PUBLISHED_ON, port))
        except OSError:
            return False
    return True
