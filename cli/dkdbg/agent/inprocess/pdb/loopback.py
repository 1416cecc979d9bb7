"""Whether an address can be reached from this machine alone."""

from __future__ import annotations

import socket


def is_loopback(host: str) -> bool:
    """Tell whether everything that a host's name or address stands for is loopback; the empty one is every interface.

    A name that nobody knows is not: whoever listens there finds out, and is asked for a token until then.
    """
    if not host:
        return False
    try:
        found = socket.getaddrinfo(host.strip("[]"), None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return False
    return bool(found) and all(is_loopback_address(str(each[4][0])) for each in found)


def is_loopback_address(address: str) -> bool:
    """The same of an address as a bound socket tells it."""
    return address == "::1" or address.startswith(("127.", "::ffff:127."))
