"""Warns if the service's name resolves to its original container too: breakpoints do not stop requests sent there."""

from __future__ import annotations

import socket
import threading

from dkdbg.agent import settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Mapping

#: Seconds between two checks; the engine's name server answers in a millisecond.
INTERVAL_S = 5.0


class OriginalService:
    """The check, on a thread of its own because a name server may hang.

    Args:
        environ: names the service in DKDBG_STANDS_FOR; without it nothing is checked.
        listens: tells whether an editor is attached. tell: called once with the warning.
    """

    def __init__(
        self, environ: Mapping[str, str], listens: Callable[[], bool], tell: Callable[[str], None]
    ) -> None:
        self._name = environ.get(settings.ENV_STANDS_FOR, "")
        self._listens, self._tell = listens, tell
        self._over = threading.Event()

    def start(self) -> None:
        """Start checking."""
        if self._name:
            threading.Thread(target=self._watch, name="dkdbg beside", daemon=True).start()

    def stop(self) -> None:
        """Stop checking."""
        self._over.set()

    def _watch(self) -> None:
        while not self._over.wait(INTERVAL_S):
            if self._listens() and (others := _other_addresses(self._name)):
                text = (
                    "%s also resolves to its own container (%s): requests that go there do not stop here; "
                    "stop it with: docker compose stop %s"
                )
                self._tell(text % (self._name, ", ".join(others), self._name))
                return


def _other_addresses(host: str) -> list[str]:
    """Return the addresses of a name that are not this container's."""
    try:
        found = {str(entry[4][0]) for entry in socket.getaddrinfo(host, None, socket.AF_INET)}
    except (OSError, UnicodeError):
        return []
    return sorted(each for each in found if not _is_own_address(each))


def _is_own_address(address: str) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((address, 0))
        except OSError:
            return False
        return True
