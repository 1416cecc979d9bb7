"""Tells whether an address is a loopback address, which only this machine can reach."""

from __future__ import annotations

import socket


def is_loopback(host: str) -> bool:
    """Tell whether a host name has only loopback addresses; False for the empty name, which means all interfaces.

    False for an unresolvable name too: listening on it will fail anyway.
    """
    if not host:
        return False
    try:
        found = socket.getaddrinfo(host.strip("[]"), None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return False
    return bool(found) and all(is_loopback_address(str(each[4][0])) for each in found)


def is_loopback_address(address: str) -> bool:
    """Tell whether a numeric address is a loopback address."""
    return address == "::1" or address.startswith(("127.", "::ffff:127."))
