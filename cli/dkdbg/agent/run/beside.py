"""Notices that the service whose place the debug service takes is answered elsewhere too: those calls never stop here."""

from __future__ import annotations

import socket
import time

from dkdbg.agent import contract

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Mapping, Set

#: Seconds between two looks; the engine's name server answers in a millisecond.
BETWEEN = 5.0


class Beside:
    """What is told once of the service's name.

    Args:
        environ: names it in DKDBG_STANDS_FOR; without, nothing is ever told.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._name = environ.get(contract.ENV_STANDS_FOR, "")
        self._looked = 0.0

    def look(self) -> str:
        """Return what to tell; empty for nothing. May wait for the name server."""
        now = time.monotonic()
        if not self._name or now < self._looked + BETWEEN:
            return ""
        self._looked = now
        others = _addresses(self._name) - _addresses(socket.gethostname())
        if not others:
            return ""
        name, self._name = self._name, ""
        return (
            "%s is answered by its own container too (%s): calls that go there do not stop here; "
            "end it with: docker compose stop %s" % (name, ", ".join(sorted(others)), name)
        )


def _addresses(host: str) -> Set[str]:
    try:
        return {str(entry[4][0]) for entry in socket.getaddrinfo(host, None, socket.AF_INET)}
    except OSError:
        return set()
