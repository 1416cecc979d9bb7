"""One target's door: where it is now, and whether an attach would work there. What runs there may be replaced meanwhile."""

from __future__ import annotations

import http.client
import json
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dkdbg.agent import contract
from dkdbg.targets.place import Door

if TYPE_CHECKING:
    from dkdbg.targets.place import Place

#: Seconds between two looks at a door that is not ready, and for its answer.
INTERVAL = 0.1
ANSWER_LIMIT = 2.0


@dataclass(frozen=True, kw_only=True)
class Seen:
    """One look at a target.

    Attributes:
        endpoint: host and port of its door; None when there is none.
        agent: which agent answered there, another one after each restart; empty when an attach would not work now.
        why: what it waits for, in words; empty when ready.
        record: what the agent says of itself; empty when none answers.
    """

    endpoint: tuple[str, int] | None
    agent: str
    why: str
    record: dict[str, Any]


class Upstream:
    """Looks where a target's door is; any number of threads may ask.

    Args:
        name: for people, unique among the targets of one port.
        token: opens the list of processes of a door that asks for one.
    """

    def __init__(self, place: Place, name: str, token: str = "") -> None:
        self.place = place
        self.name = name
        self.changed = threading.Event()
        self._token = token
        self._refused_by = ""
        self._lock = threading.Lock()
        self._door = Door(endpoint=None, why="")
        self._searched = 0.0
        self._stale = True
        self._seen: Seen | None = None
        self._looked = 0.0

    @property
    def last(self) -> Seen | None:
        """What the last look showed."""
        return self._seen

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
            if self._stale or (missing and now - self._searched > self.place.pause):
                self._stale = False
                self._door = self.place.door()
                self._searched = time.monotonic()
            self._seen = self._ask()
            self._looked = time.monotonic()
            return self._seen

    def _ask(self) -> Seen:
        record = status_of(self._door.endpoint) if self._door.endpoint else {}
        agent = f"{record.get('id')} {record.get('pid')} {record.get('started')}" if record else ""
        if record and record.get("state") in contract.ATTACHABLE and record.get("adapter_up"):
            return Seen(endpoint=self._door.endpoint, agent=agent, why="", record=self._whole(record, agent))
        why = (
            f"its agent is {record['state']}"
            if record.get("state") in {"starting", "exited"}
            else self._door.why
        )
        return Seen(endpoint=self._door.endpoint, agent="", why=why, record=record)

    def _whole(self, record: dict[str, Any], agent: str) -> dict[str, Any]:
        """The record with the processes, where the token shows them.

        Not shown before a door of ours has answered, and once to each agent if it is wrong: an agent that has seen
        too many wrong ones from an address refuses the right one too for a while.
        """
        if is_whole(record) or not self._token or agent == self._refused_by or self._door.endpoint is None:
            return record
        found = status_of(self._door.endpoint, self._token)
        if not found:
            return record
        self._refused_by = "" if is_whole(found) else agent
        return found


def is_whole(record: dict[str, Any]) -> bool:
    """Whether a door has told all of its record: one with a token keeps the processes from those who do not show it."""
    return "processes" in record


def status_of(endpoint: tuple[str, int], token: str = "") -> dict[str, Any]:
    """Return what a door answers to GET /status, the session's record; empty when no door of ours answers.

    A proxy that takes connections for a container that does not listen yet closes them: no answer.

    Args:
        token: shown to the door, empty for none.
    """
    connection = http.client.HTTPConnection(*endpoint, timeout=ANSWER_LIMIT)
    try:
        shown = {"Authorization": f"Bearer {token}"} if token else {}
        connection.request("GET", "/status", headers=shown)
        answer = json.loads(connection.getresponse().read(4 << 20))
    except (OSError, http.client.HTTPException, ValueError):
        return {}
    finally:
        connection.close()
    return answer if isinstance(answer, dict) and "state" in answer and "id" in answer else {}
