"""Recognise debuggers' addresses and published ports."""

from __future__ import annotations

import re

from dkdbg.agent.contract import DEFAULT_PORT
from dkdbg.setup.detect.substitution import substitute

#: Ports on which debuggers listen by default.
USUAL = frozenset({DEFAULT_PORT})
_LOOPBACK = re.compile(r"127(?:\.\d+){3}|localhost|\[?::1\]?|ip6-localhost")
#: A `${...}` without a default. The message in `${NAME:?MESSAGE}` may contain colons and spaces.
_VARIABLE = re.compile(r"\$\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}")
_RANGE = re.compile(r"(\d{1,5})(?:-(\d{1,5}))?(?:/tcp)?")


def of_program(name: str, ports: frozenset[int]) -> frozenset[int]:
    """Return `ports`; for an image or program called n8n without the default debug port, which n8n serves HTTP on."""
    return ports - USUAL if "n8n" in name.lower() else ports


def resolved(text: str) -> str:
    """Return `text` with variables replaced by their defaults, and by `$VARIABLE` if they have none."""
    return _VARIABLE.sub("$VARIABLE", substitute(text, {}, keep_unknown=True))


def is_loopback(host: str) -> bool:
    """Return whether a host is reachable only from its own machine."""
    return _LOOPBACK.fullmatch(host) is not None


def split_address(address: str) -> tuple[str, str]:
    """Return (host, port) of `[HOST:]PORT`; the host is empty if missing, and 0.0.0.0 for `:PORT`."""
    host, colon, port = resolved(address).rpartition(":")
    return host or ("0.0.0.0" if colon else ""), port  # noqa: S104 - debugpy's meaning of `:PORT`


def covers(text: str, ports: frozenset[int]) -> int | None:
    """Return the lowest of `ports` in `text`, a port or a range; None if it contains none or is malformed."""
    found = _RANGE.fullmatch(text.strip())
    if not found:
        return None
    first, last = int(found[1]), int(found[2] or found[1])
    return min((each for each in ports if first <= each <= last), default=None)


def published(text: str, ports: frozenset[int]) -> tuple[int, str] | None:
    """Return the debug port and host that `[[HOST:]PUBLISHED:]PORT` opens beyond loopback; None if it opens none.

    A host that is a variable without a default opens none.
    """
    rest, _, inside = resolved(text).rpartition(":")
    port = covers(inside, ports)
    if port is None:
        return None
    host, colon, _ = rest.rpartition(":")
    if is_loopback(host) or "$" in host:
        return None
    return port, (host if colon and host else "all addresses")
