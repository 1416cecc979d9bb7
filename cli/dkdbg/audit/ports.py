"""Recognise addresses and published ports of debuggers."""

from __future__ import annotations

import re

from dkdbg.agent.contract import DEFAULT_PORT
from dkdbg.setup.detect.substitution import substitute

#: Ports on which debuggers listen by default.
USUAL = frozenset({DEFAULT_PORT})
_LOOPBACK = re.compile(r"127(?:\.\d+){3}|localhost|\[?::1\]?|ip6-localhost")
#: A `${...}` without a default; the message in `${NAME:?MESSAGE}` may contain colons and spaces.
_VARIABLE = re.compile(r"\$\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}")
_RANGE = re.compile(r"(\d{1,5})(?:-(\d{1,5}))?(?:/tcp)?")


def of_program(name: str, ports: frozenset[int]) -> frozenset[int]:
    """Return `ports`, without the default debug port if the image or program is n8n, which serves on 5678."""
    return ports - USUAL if "n8n" in name.lower() else ports


def resolved(text: str) -> str:
    """Return `text` with its variables replaced by their defaults; a variable without a default becomes `$VARIABLE`."""
    return _VARIABLE.sub("$VARIABLE", substitute(text, {}, keep_unknown=True))


def is_loopback(host: str) -> bool:
    """Return whether a host is reachable only from its own machine."""
    return _LOOPBACK.fullmatch(host) is not None


def split_address(address: str) -> tuple[str, str]:
    """Return host and port of `[HOST:]PORT`; the host is empty if missing, and 0.0.0.0 in `:PORT`."""
    host, colon, port = resolved(address).rpartition(":")
    return host or ("0.0.0.0" if colon else ""), port  # noqa: S104 - as debugpy reads `:PORT`


def covers(text: str, ports: frozenset[int]) -> int | None:
    """Return the lowest of `ports` that `text`, a port or a range, covers; None if it covers none or is malformed."""
    found = _RANGE.fullmatch(text.strip())
    if not found:
        return None
    first, last = int(found[1]), int(found[2] or found[1])
    return min((each for each in ports if first <= each <= last), default=None)


def published(text: str, ports: frozenset[int]) -> tuple[int, str] | None:
    """Return the debug port that `[[HOST:]PUBLISHED:]PORT` opens beyond loopback, and the host; None if it opens none.

    If the host is a variable without a default, return None.
    """
    rest, _, inside = resolved(text).rpartition(":")
    port = covers(inside, ports)
    if port is None:
        return None
    host, colon, _ = rest.rpartition(":")
    if is_loopback(host) or "$" in host:
        return None
    return port, (host if colon and host else "all addresses")
