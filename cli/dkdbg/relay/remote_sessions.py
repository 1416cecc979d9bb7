"""Sessions on a remote machine: what its agent reports, and the endpoint of the newest one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dkdbg import process
from dkdbg.agent.contract import LOOPBACK
from dkdbg.core.record import SeenRecord, parse_all
from dkdbg.core.target import Endpoint
from dkdbg.relay.relay import Relay

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dkdbg.core.target import Reach

#: Bytes of an agent's answer.
_MAX_ANSWER = 8 << 20


def records(reach: Reach, agent: Sequence[str], *, limit: float) -> list[SeenRecord | str]:
    """The records of sessions there, or why one cannot be read, oldest first.

    Args:
        agent: runs the agent there, without its verb.
        limit: seconds.

    Raises:
        DkdbgError: nothing is said in time, or too much.
        BadRecord: what is said is no JSON.
    """
    done = process.read(reach.wrap((*agent, "sessions", "--json")), most=_MAX_ANSWER, timeout=limit)
    return [] if done.code else parse_all(done.stdout)  # it was taken away in this moment


class RelayedEndpoint:
    """Endpoint of the newest session on this machine: by a relay, whose connections outlive the transport's.

    One thread at a time.

    Args:
        command: of the relay, see there.
    """

    def __init__(self, command: Callable[[str, bool, float], Sequence[str]]) -> None:
        self._command = command
        self._relay: Relay | None = None
        self._local = 0

    @property
    def why(self) -> str:
        """Why the relay is not connected now, while it tries again; empty when it is, or was not needed yet.

        The reason of a relay that has ended is returned once: sessions are looked for anew then.
        """
        if self._relay is None:
            return ""
        why = self._relay.why
        if self._relay.is_gone:
            self.close()
            self._relay = None
        return why

    def of(self, found: Sequence[SeenRecord | str], *, nobody: str) -> Endpoint:
        """Return the endpoint of the newest of these sessions.

        Args:
            nobody: what is waited for where none of them runs.
        """
        live = [each for each in found if isinstance(each, SeenRecord) and each.live]
        if not live:
            return Endpoint(address=None, why=nobody)
        if self._relay is None:
            self._relay = Relay(self._command, ends=True)
            self._local = self._relay.listen(live[-1].port)
        self._relay.aim(self._local, live[-1].port)
        return Endpoint(address=(LOOPBACK, self._local), why="its session does not answer")

    def close(self) -> None:
        """End the relay."""
        if self._relay is not None:
            self._relay.close()
