"""Read the sessions of a remote agent, and forward a port to the newest one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dkdbg import process
from dkdbg.agent.contract import LOOPBACK
from dkdbg.core.record import SeenRecord, parse_all
from dkdbg.core.target import RUN_ABSENT, Endpoint

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dkdbg.core.target import Executor
    from dkdbg.relay.relay import Relay

#: Maximum bytes of an agent's answer.
_MAX_ANSWER_BYTES = 8 << 20


def records(executor: Executor, agent: Sequence[str], *, limit: float) -> list[SeenRecord | str]:
    """Return the records of the remote sessions, oldest first; for an unreadable record the reason.

    Args:
        agent: command line of the remote agent, without its verb.
        limit: timeout in seconds.

    Raises:
        DkdbgError: no answer in time, or too long an answer.
        BadRecord: the answer is not JSON.
    """
    done = process.read(
        executor.wrap((*agent, "sessions", "--json")), max_bytes=_MAX_ANSWER_BYTES, timeout=limit
    )
    return [] if done.code else parse_all(done.stdout)  # the agent has just been removed


class RelayedEndpoint:
    """Local endpoint of the newest remote session, by a relay whose connections survive cuts.

    Use it from one thread at a time.

    Args:
        command: see `Relay`.
    """

    def __init__(self, command: Callable[[str, bool, float], Sequence[str]]) -> None:
        self._command = command
        self._relay: Relay | None = None
        self._local = 0

    @property
    def why(self) -> str:
        """Return why the relay is disconnected; empty while it is connected, or before its first use.

        If the relay has ended, return the reason once; the next call then finds no relay, and `of` starts a new one.
        """
        if self._relay is None:
            return ""
        why = self._relay.why
        if self._relay.is_gone:
            self.close()
            self._relay = None
        return why

    def of(self, found: Sequence[SeenRecord | str], *, why_none: str, run: str = "") -> Endpoint:
        """Return the endpoint of the newest of these sessions.

        Args:
            run: see `Target`.
            why_none: the reason to give if no session runs.
        """
        live = [each for each in found if isinstance(each, SeenRecord) and each.live and each.is_of(run)]
        if not live:
            return Endpoint(address=None, why=RUN_ABSENT if run else why_none)
        if self._relay is None:
            from dkdbg.relay.relay import Relay  # noqa: PLC0415 - saves other verbs 20 ms

            self._relay = Relay(self._command, ends=True)
            self._local = self._relay.listen(live[-1].port)
        self._relay.aim(self._local, live[-1].port)
        return Endpoint(address=(LOOPBACK, self._local), why="its session does not answer")

    def close(self) -> None:
        """End the relay."""
        if self._relay is not None:
            self._relay.close()
