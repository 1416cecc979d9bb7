"""Validate an agent's session record once, on arrival: root at the target may have forged it."""

from __future__ import annotations

import ipaddress
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dkdbg.agent.contract import ATTACHABLE, LOOPBACK
from dkdbg.agent.state import deadlines
from dkdbg.core.mapping import pairs_of_record

if TYPE_CHECKING:
    from dkdbg.agent.contract import Deadline

#: States in which no client can attach.
_OTHERS = ("starting", "exited")
#: Maximum characters of a name and of a line of text, and maximum number of processes.
_NAME, _LINE, _PROCESSES = 200, 1000, 4096
_MAX_PID = 1 << 31
#: Maximum number of names for the batch job in which a session runs.
_JOBS = 10
#: Maximum sessions of one agent.
_SESSIONS = 100


class BadRecord(ValueError):  # noqa: N818 - a value that is not a record
    """The input is not a record; the message is a short reason."""


@dataclass(frozen=True, kw_only=True)
class SeenProcess:
    """One Python process below an agent.

    Attributes:
        name: its description, empty if unknown.
        stopped: source line at which a debugger holds it; empty while it runs.
    """

    pid: int
    name: str
    stopped: str = ""


@dataclass(frozen=True, kw_only=True)
class SeenRecord:
    """The parts of a session record (agent/contract.py) that this machine uses.

    Attributes:
        id, name: identify the session.
        pid: PID of the agent, where it runs.
        started: epoch seconds.
        state: one of contract.State.
        live: whether its agent runs, according to the agent that listed it; None if not reported.
        host, port: address of its listener; empty and 0 if unknown.
        adapter_up: whether the session's adapter accepts an attach.
        client: whether an editor is attached.
        processes: None if the agent hides them from clients that do not prove the token.
        jobs: all names of the batch job in which the session runs, such as an array task's own number and `ARRAY_TASK`;
            empty outside of a job, or if the agent reports no job.
        run: ID of the `dkdbg run` that has started it; empty for none.
        mappings: folders of this repository, relative to its root, and their remote paths; a folder behind a
            symlink is listed with both paths.
        deadlines: time limits that keep running while a debugger holds its program.
    """

    id: str
    name: str
    pid: int
    state: str
    started: float
    live: bool | None
    host: str
    port: int
    adapter_up: bool
    client: bool
    detail: str
    processes: tuple[SeenProcess, ...] | None
    jobs: frozenset[str] = frozenset()
    run: str = ""
    mappings: tuple[tuple[str, str], ...] = ()
    deadlines: tuple[Deadline, ...] = ()

    @property
    def agent(self) -> str:
        """Identity of the agent: it changes with each restart."""
        return f"{self.id} {self.pid} {self.started}"

    @property
    def local_address(self) -> tuple[str, int]:
        """Host and port of the agent's listener, for clients on its own machine."""
        return LOOPBACK if self.host in {"", "0.0.0.0", "::"} else self.host, self.port  # noqa: S104

    def is_of(self, run: str) -> bool:
        """Return whether the `dkdbg run` with this ID has started the session; True for an empty ID."""
        return run in {"", self.run}

    @property
    def is_attachable(self) -> bool:
        """Return whether an attach works now."""
        return self.state in ATTACHABLE and self.adapter_up


def decode(text: bytes | str) -> Any:  # noqa: ANN401 - `parse` checks it
    """Decode JSON. Raises BadRecord: it is not JSON, or nested too deeply."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadRecord("it is not JSON") from error


def parse(value: object) -> SeenRecord:
    """Return `value` as a record. Raises BadRecord: it is not a record."""
    if not isinstance(value, dict):
        raise BadRecord("it is not the record of a session")
    state = _text(value, "state", _NAME)
    if state not in ATTACHABLE and state not in _OTHERS:
        raise BadRecord(f"it has an unknown state: {state[:40]}")
    live = value.get("live")
    return SeenRecord(
        id=_text(value, "id", _NAME), name=_text(value, "name", _NAME, ""), pid=_number(value, "pid", _MAX_PID),
        state=state, started=_time(value), live=live if isinstance(live, bool) else None, host=_host(value),
        port=_number(value, "port", 65535),
        # Agents up to 0.1 send `adapter_port` instead.
        adapter_up=value.get("adapter_up") is True or _number(value, "adapter_port", 65535) > 0,
        client=value.get("client") is True, detail=_text(value, "detail", _LINE, ""), processes=_processes(value),
        jobs=_jobs(value), run=_text(value, "run", _NAME, ""), mappings=pairs_of_record(value.get("mappings")),
        deadlines=tuple(deadlines.parse(value.get("deadlines"))),  # agents up to 0.1 do not send it
    )  # fmt: skip


def parse_all(text: bytes | str) -> list[SeenRecord | str]:
    """Return the records in an agent's list, at most 100; for an unreadable record, the reason as text.

    Raises:
        BadRecord: it is not JSON.
    """
    answer = decode(text)
    found: list[SeenRecord | str] = []
    for each in answer[:_SESSIONS] if isinstance(answer, list) else [answer]:
        try:
            found.append(parse(each))
        except BadRecord as error:  # noqa: PERF203 - one bad record must not hide the others
            found.append(str(error))
    return found


def _text(value: dict[str, Any], key: str, max_chars: int, default: str | None = None) -> str:
    found = value.get(key, default)
    if not isinstance(found, str) or (default is None and not found):
        raise BadRecord(f"its {key} is not text")
    return found[:max_chars]


def _number(value: dict[str, Any], key: str, max_value: int) -> int:
    found = value.get(key, 0)
    if isinstance(found, bool) or not isinstance(found, int) or not 0 <= found <= max_value:
        raise BadRecord(f"its {key} is not a number from 0 to {max_value}")
    return found


def _time(value: dict[str, Any]) -> float:
    found = value.get("started", 0.0)
    if isinstance(found, bool) or not isinstance(found, int | float) or not 0 <= found < 1e11:
        raise BadRecord("its start time is not a time")
    return float(found)


def _jobs(value: dict[str, Any]) -> frozenset[str]:
    found = value.get("jobs", [])  # agents up to 0.1 do not send it
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found[:_JOBS]):
        raise BadRecord("its jobs are not a list of names")
    return frozenset(found[:_JOBS])


def _host(value: dict[str, Any]) -> str:
    found = _text(value, "host", _NAME, "")
    if found in {"", "localhost"}:
        return found
    try:
        return str(ipaddress.ip_address(found))
    except ValueError as error:
        raise BadRecord("its host is not an address") from error


def _processes(value: dict[str, Any]) -> tuple[SeenProcess, ...] | None:
    found = value.get("processes")
    if found is None:
        return None
    if not isinstance(found, list):
        raise BadRecord("its processes are not a list")
    return tuple(_process(each) for each in found[:_PROCESSES])


def _process(value: object) -> SeenProcess:
    if not isinstance(value, dict):
        shown = "a list" if isinstance(value, list) else repr(value)[:40]
        raise BadRecord(
            f"its processes contain {shown} in place of an object; restart the program under this dkdbg"
        )
    return SeenProcess(
        pid=_number(value, "pid", _MAX_PID),
        name=_text(value, "name", _NAME, ""),
        stopped=_text(value, "stopped", _NAME, ""),
    )
