"""One target's endpoint: where it is now, and whether an attach would work there. What runs there may be replaced meanwhile."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dkdbg.attach import plain_debugpy
from dkdbg.attach.asking import ANSWER_LIMIT, PlainDebugpyError, status_of
from dkdbg.core.record import BadRecord
from dkdbg.core.target import Endpoint

if TYPE_CHECKING:
    from dkdbg.core.record import SeenRecord
    from dkdbg.core.target import Target

#: Seconds between two looks at a door that is not ready.
INTERVAL = 0.1
#: Seconds that a door gets to answer at most: where one has not in time, the next look waits for twice as long. Behind
#: two ssh hops to a machine that is busy an answer may take longer than anybody would guess.
LONGEST_ANSWER = 16.0


@dataclass(frozen=True, kw_only=True)
class Seen:
    """One look at a target.

    Attributes:
        endpoint: host and port of its door; None when there is none.
        agent: which agent answered there, another one after each restart; empty when an attach would not work now.
        why: what it waits for, in words; empty when ready.
        record: what the agent says of itself; None when none answers.
    """

    endpoint: tuple[str, int] | None
    agent: str
    why: str
    record: SeenRecord | None


class Upstream:
    """Looks where a target is reached; any number of threads may ask.

    Args:
        name: for people, unique among the targets of one port.
        token: opens the list of processes of a door that asks for one.
    """

    def __init__(self, target: Target, name: str, token: str = "") -> None:
        self.target = target
        self.name = name
        self.changed = threading.Event()
        self._token = token
        self._refused_by = ""
        self._plain = ""
        #: Who listens to a port has been heard: `plain_proxy` does that before there is one of us.
        self._is_heard = True
        self._held: plain_debugpy.Greeted | None = None
        self._limit = ANSWER_LIMIT
        self._lock = threading.Lock()
        self._endpoint = Endpoint(address=None, why="")
        self._searched = 0.0
        self._stale = True
        self._seen: Seen | None = None
        self._looked = 0.0

    @property
    def last(self) -> Seen | None:
        """What the last look showed."""
        return self._seen

    def close(self) -> None:
        """Leave a plain debugpy as an editor leaves it, so that its port stays; without waiting for a look."""
        held, self._held = self._held, None
        if held is not None:
            plain_debugpy.leave(held)

    def poke(self) -> None:
        """Something has changed: search anew at the next look."""
        self._stale = True
        self.changed.set()

    def look(self) -> Seen:
        """Search the target if need be, and ask its door. Never raises."""
        with self._lock:
            now = time.monotonic()
            if self._seen is not None and now - self._looked < INTERVAL / 2 and not self._stale:
                return self._seen
            self.changed.clear()
            missing = self._seen is None or not self._seen.agent
            if self._stale or (missing and now - self._searched > self.target.pause):
                self._stale = False
                self._endpoint = self.target.endpoint()
                self._searched = time.monotonic()
            self._seen = self._ask()
            self._looked = time.monotonic()
            return self._seen

    def _ask(self) -> Seen:
        endpoint = self._endpoint.address
        if self._plain:
            return Seen(endpoint=None, agent="", why=self._plain, record=None)
        if endpoint is None:
            return Seen(endpoint=None, agent="", why=self._endpoint.why, record=None)
        try:
            self._look_for_debugpy(endpoint)
            record = self._status_of(endpoint)
            if record is not None and record.is_attachable:
                return Seen(
                    endpoint=endpoint, agent=record.agent, why="", record=self._whole(record, endpoint)
                )
        except PlainDebugpyError:
            where = f"{endpoint[0]}:{endpoint[1]}"
            self._plain = f"a plain debugpy listens at {where} now; stop this and type: dkdbg attach {where}"
            return Seen(endpoint=None, agent="", why=self._plain, record=None)
        except BadRecord as error:
            why = f"what answers at {endpoint[0]}:{endpoint[1]} cannot be understood: {error}"
            return Seen(endpoint=endpoint, agent="", why=why, record=None)
        unready = record is not None and record.state in {"starting", "exited"}
        why = f"its agent is {record.state}" if record is not None and unready else self._endpoint.why
        return Seen(endpoint=endpoint, agent="", why=why, record=record)

    def _look_for_debugpy(self, endpoint: tuple[str, int]) -> None:
        """Hear who begins at a port where nobody was: a question would cost a plain debugpy its port.

        Raises:
            PlainDebugpyError: it is one. The connection is held until the end: one that leaves while its program
                begins takes the program out of the debugger's reach.
        """
        if self.target.address.scheme != "endpoint" or self._is_heard:
            return
        try:
            found = plain_debugpy.greeted(endpoint)
        except OSError:  # nothing listens there
            return
        self._is_heard = True
        if found is not None:
            self._held = found
            raise PlainDebugpyError("it is a plain debugpy, without an agent")

    def _status_of(self, endpoint: tuple[str, int]) -> SeenRecord | None:
        began = time.monotonic()
        found = status_of(endpoint, limit=self._limit)
        self._is_heard = self._is_heard and found is not None  # another one may come
        if found is None and time.monotonic() - began >= self._limit:
            self._limit = min(LONGEST_ANSWER, 2 * self._limit)
        return found

    def _whole(self, record: SeenRecord, endpoint: tuple[str, int]) -> SeenRecord:
        """The record with the processes, where knowing the token shows them.

        Asked once of each agent if our token is wrong: it is no guess.
        """
        if record.processes is not None or not self._token or record.agent == self._refused_by:
            return record
        found = status_of(endpoint, self._token, limit=self._limit)
        if found is None:
            return record
        self._refused_by = "" if found.processes is not None else record.agent
        return found
