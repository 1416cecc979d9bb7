"""One target's door: where it is now, and whether an attach would work there. The container may be replaced meanwhile."""

from __future__ import annotations

import http.client
import json
import os
import threading
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from dkdbg import engine
from dkdbg.agent import contract
from dkdbg.agent.record import records
from dkdbg.errors import DkdbgError
from dkdbg.targets.address import container_for, endpoint_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from dkdbg.targets.address import Address
    from dkdbg.targets.sessions import LabelledContainer

#: Seconds between two looks at a door that is not ready, and for its answer.
INTERVAL = 0.1
ANSWER_LIMIT = 2.0
#: Seconds after which a target that is not there is searched again, without a word from the engine.
SEARCH_INTERVAL = 3.0


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
        root: the compose project's folder, resolved.
        name: for people, unique among the targets of one port.
        token: opens the list of processes of a door that asks for one.
    """

    def __init__(self, address: Address, name: str, root: Path, token: str = "") -> None:
        self.address = address
        self.name = name
        self.changed = threading.Event()
        self._root = root
        self._token = token
        self._refused_by = ""
        self._lock = threading.Lock()
        self._endpoint: tuple[str, int] | None = None
        self._why = ""
        self._searched = 0.0
        self._stale = True
        self._seen: Seen | None = None
        self._looked = 0.0

    @property
    def is_container(self) -> bool:
        """Whether the engine knows of its starts and ends."""
        return self.address.kind in {"compose", "docker"}

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
            pause = SEARCH_INTERVAL if self.is_container else INTERVAL
            if self._stale or (missing and now - self._searched > pause):
                self._stale = False
                self._endpoint, self._why = self._search()
                self._searched = time.monotonic()
            self._seen = self._ask()
            self._looked = time.monotonic()
            return self._seen

    def _search(self) -> tuple[tuple[str, int] | None, str]:
        kind, name = self.address.kind, self.address.name
        if kind == "endpoint":
            return (name, self.address.port), f"nothing answers at {name}:{self.address.port}"
        if kind == "local":
            return _local(name)
        try:
            found = [_resolved(each) for each in engine.labelled_containers()]
        except DkdbgError as error:
            return None, error.message.splitlines()[0]
        container = container_for(self.address, found, self._root)
        if container is None:
            return None, "there is no container yet"
        if not container.running:
            return None, f"container {container.name} is not running"
        endpoint = endpoint_of(container)
        return (
            endpoint,
            f"container {container.name} is starting" if endpoint else "its debug port is not published",
        )

    def _ask(self) -> Seen:
        record = status_of(self._endpoint) if self._endpoint else {}
        agent = f"{record.get('id')} {record.get('pid')} {record.get('started')}" if record else ""
        if record and record.get("state") in contract.ATTACHABLE and record.get("adapter_port"):
            return Seen(endpoint=self._endpoint, agent=agent, why="", record=self._whole(record, agent))
        why = (
            f"its agent is {record['state']}" if record.get("state") in {"starting", "exited"} else self._why
        )
        return Seen(endpoint=self._endpoint, agent="", why=why, record=record)

    def _whole(self, record: dict[str, Any], agent: str) -> dict[str, Any]:
        """The record with the processes, where the token shows them.

        Not shown before a door of ours has answered, and once to each agent if it is wrong: an agent that has seen
        too many wrong ones from an address refuses the right one too for a while.
        """
        if is_whole(record) or not self._token or agent == self._refused_by or self._endpoint is None:
            return record
        found = status_of(self._endpoint, self._token)
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


def _resolved(container: LabelledContainer) -> LabelledContainer:
    """The same with its project's folder as the kernel names it: compose keeps the links in a path."""
    return replace(
        container, project_dir=os.path.realpath(container.project_dir) if container.project_dir else ""
    )


def _local(name: str) -> tuple[tuple[str, int] | None, str]:
    live = [
        each
        for each in records.list_records()
        if records.is_live(each) and name in {"", each["name"], each["id"]}
    ]
    if not live:
        return None, f"no session {name} runs on this machine".replace("  ", " ")
    host, port = live[-1]["host"], live[-1]["port"]
    everywhere = host in {"", "0.0.0.0", "::"}  # noqa: S104
    return ("127.0.0.1" if everywhere else host, port), "its session does not answer"


class Events:
    """Pokes the targets whenever the engine says that a container has started or ended.

    Args:
        report: takes one line when the engine cannot be listened to.
    """

    def __init__(self, upstreams: list[Upstream], report: Callable[[str], None]) -> None:
        self._upstreams = upstreams
        self._report = report
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._process: engine.Watch | None = None

    def start(self) -> None:
        """Listen from now on."""
        threading.Thread(target=self._listen, name="dkdbg engine events", daemon=True).start()

    def stop(self) -> None:
        """Listen no more."""
        with self._lock:
            self._stopped.set()
            if self._process is not None:
                self._process.kill()
                self._process.wait()

    def _listen(self) -> None:
        while not self._stopped.is_set():
            with self._lock:
                if self._stopped.is_set():
                    return
                try:
                    self._process = engine.watch_containers()
                except DkdbgError as error:
                    self._report(error.message)
                    return
            for _ in self._process.stdout or ():
                for upstream in self._upstreams:
                    upstream.poke()
            self._stopped.wait(SEARCH_INTERVAL)  # the engine is gone
