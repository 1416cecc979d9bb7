"""Free ports of this machine."""

from __future__ import annotations

import socket

from dkdbg.errors import EXIT_CONFLICT, DkdbgError


def free_port(preferred: int, *, ours: int | None, tries: int = 50) -> int:
    """The first port from `preferred` on that can be bound on 127.0.0.1; one that our own service holds counts as free.

    Raises:
        DkdbgError: none of `tries` ports is free.
    """
    for port in range(preferred, min(preferred + tries, 65536)):
        if port == ours or _can_bind(port):
            return port
    raise DkdbgError(
        f"no free port on 127.0.0.1 from {preferred} to {preferred + tries - 1}",
        hint="name another with [debug] port in dkdbg.toml",
        exit_code=EXIT_CONFLICT,
    )


def _can_bind(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As docker-proxy binds: a port in TIME_WAIT is free, a listening one is not.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
