"""Sessions as `dkdbg ps` shows them: a record of an agent, seen from the machine of the editor."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from dkdbg.agent.contract import DEFAULT_PORT, ENV_PORT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: States in which nobody can attach any more.
ENDED = frozenset({"exited", "lost"})


@dataclass(frozen=True, kw_only=True)
class SeenSession:
    """One session.

    Attributes:
        target: where it runs: `local`, or `container NAME`.
        id, name: of the record; the label's where there is no record to read.
        state: the record's; `lost` when its agent is gone without a word, `exited` for a container that has ended.
        endpoint: `host:port` to attach to from here; empty when there is none.
        started: epoch seconds, None when unknown.
        client: whether an editor is attached.
        processes: what the Python processes are, such as `rank 3`.
    """

    target: str
    id: str
    name: str
    state: str
    endpoint: str = ""
    started: float | None = None
    client: bool = False
    processes: tuple[str, ...] = ()
    detail: str = ""

    @property
    def is_ended(self) -> bool:
        """Whether nobody can attach any more."""
        return self.state in ENDED

    def as_json(self, now: float) -> dict[str, object]:
        """A JSON object; `age` is in seconds."""
        return {**asdict(self), "age": None if self.started is None else round(now - self.started, 1)}


@dataclass(frozen=True, kw_only=True)
class LabelledContainer:
    """A container with dkdbg's label.

    Attributes:
        label: the name of the debug service.
        running: whether it runs now.
        host_network: whether its ports are this machine's.
        published: port inside -> `host:port` outside.
        port: the debug port inside.
        address: the container's own IP address on one of its networks; empty when it has none.
        service, project_dir: of compose, the folder resolved; empty without it.
        created: as the engine writes it, which sorts by time.
    """

    id: str
    name: str
    label: str
    running: bool
    host_network: bool
    published: Mapping[int, str]
    port: int = DEFAULT_PORT
    address: str = ""
    service: str = ""
    project_dir: str = ""
    created: str = ""


LABEL = "dev.dkdbg.session"


def container_of(inspected: Mapping[str, Any]) -> LabelledContainer:
    """What `docker inspect` says about one container."""
    published = {
        int(inside.partition("/")[0]): f"{bindings[0]['HostIp'] or '0.0.0.0'}:{bindings[0]['HostPort']}"  # noqa: S104
        for inside, bindings in (inspected["NetworkSettings"].get("Ports") or {}).items()
        if bindings
    }
    labels = inspected["Config"]["Labels"]
    networks = inspected["NetworkSettings"].get("Networks") or {}
    return LabelledContainer(
        id=inspected["Id"], name=inspected["Name"].lstrip("/"), label=labels.get(LABEL, ""),
        running=bool(inspected["State"]["Running"]),
        host_network=inspected["HostConfig"].get("NetworkMode") == "host", published=published,
        port=_debug_port(inspected["Config"].get("Env") or ()),
        address=next((net["IPAddress"] for net in networks.values() if net.get("IPAddress")), ""),
        service=labels.get("com.docker.compose.service", ""),
        project_dir=labels.get("com.docker.compose.project.working_dir", ""), created=inspected.get("Created", ""),
    )  # fmt: skip


def _debug_port(environment: Sequence[str]) -> int:
    said = dict(entry.partition("=")[::2] for entry in environment).get(ENV_PORT, "")
    return int(said) if said.isdecimal() else DEFAULT_PORT


def of_record(
    record: Mapping[str, Any], *, live: bool, container: LabelledContainer | None = None
) -> SeenSession:
    """A record, read where it was written; `live` says whether its agent runs."""
    state = record["state"] if live or record["state"] == "exited" else "lost"
    endpoint = f"{record['host'] or '127.0.0.1'}:{record['port']}"
    if container is not None and not container.host_network:
        endpoint = container.published.get(record["port"], "")
    return SeenSession(
        target="local" if container is None else f"container {container.name}", id=record["id"], name=record["name"],
        state=state, endpoint="" if state in ENDED else endpoint.replace("0.0.0.0:", "127.0.0.1:"),
        started=record["started"], client=bool(record["client"]),
        processes=tuple(_name(each) for each in record["processes"]), detail=record["detail"],
    )  # fmt: skip


def without_record(container: LabelledContainer) -> SeenSession:
    """A container that has ended, or that does not say what it does."""
    return SeenSession(
        target=f"container {container.name}", id=container.id[:12], name=container.label,
        state="starting" if container.running else "exited",
    )  # fmt: skip


def _name(process: Mapping[str, Any]) -> str:
    return str(process.get("name") or f"process {process['pid']}")


def age(seconds: float) -> str:
    """`12 s`, `3 min`, `5 h`, `2 d`."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{int(seconds // size)} {unit}"
    return f"{max(0, int(seconds))} s"


def table(sessions: Sequence[SeenSession], now: float) -> list[str]:
    """Lines of a table for a person."""
    rows = [("TARGET", "SESSION", "STATE", "ATTACH TO", "AGE", "EDITOR", "PROCESSES")]
    for each in sessions:
        processes = ", ".join(each.processes[:4]) + (
            f", {len(each.processes) - 4} more" if each.processes[4:] else ""
        )
        rows.append(
            (
                each.target, each.name, each.state, each.endpoint or "-",
                "-" if each.started is None else age(now - each.started), "attached" if each.client else "-",
                processes or "-",
            )
        )  # fmt: skip
    widths = [max(len(row[column]) for row in rows) for column in range(6)]
    return [
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[6]])
        for row in rows
    ]
