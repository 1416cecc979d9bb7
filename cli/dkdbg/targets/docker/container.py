"""Containers as `docker inspect` shows them: which one a service's name means, where its debug port and its code are."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from dkdbg.agent.contract import DEFAULT_PORT, LOOPBACK
from dkdbg.agent.settings import ENV_MAPPINGS, ENV_PORT
from dkdbg.core import debug_names, mapping, sessions
from dkdbg.core.brought import is_brought
from dkdbg.core.record import BadRecord, parse
from dkdbg.core.sessions import SeenSession, of_record
from dkdbg.core.target import Endpoint, Reach, Workspace
from dkdbg.errors import EXIT_USAGE, DkdbgError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

#: The label of a debug service's containers: the service's name.
LABEL = "dev.dkdbg.session"
#: Labels of compose: the service, the folder of the project (as typed, links kept), and whether `compose run` made it.
SERVICE, PROJECT_DIR, ONE_OFF = (
    "com.docker.compose.service", "com.docker.compose.project.working_dir", "com.docker.compose.oneoff",
)  # fmt: skip
#: Label of compose: the project's name.
PROJECT_NAME = "com.docker.compose.project"
#: Runs the agent that a debug service mounts (compose/service.yaml.j2).
AGENT = ("sh", "/opt/dkdbg/agent.pyz")


@dataclass(frozen=True, kw_only=True)
class ContainerReach(Reach):
    """A container as something that commands are run in.

    Attributes:
        name: name or id, as `docker exec` takes it.
        label: as a person named it.
        user: `uid:gid` as whom commands are run; empty for the container's own.
    """

    name: str
    label: str
    user: str = ""

    def wrap(self, argv: Sequence[str], *, tty: bool = False) -> tuple[str, ...]:
        """The local command line that runs `argv` in it, with our standard input and output."""
        user = ("--user", self.user) if self.user else ()
        return ("docker", "exec", "-it" if tty else "-i", *user, self.name, *argv)


def logs_words(name: str, *, follow: bool, lines: int | None) -> tuple[str, ...]:
    """The local command line that prints what the program of a container has printed; see `Target.logs`."""
    tail = () if lines is None else ("--tail", str(lines))
    return ("docker", "container", "logs", *(("--follow",) if follow else ()), *tail, name)


@dataclass(frozen=True, kw_only=True)
class Container:
    """One container, as the engine sees it now.

    Attributes:
        label: the name of the debug service; empty for containers that dkdbg has nothing to do with.
        running: whether it runs now.
        host_network: whether its ports are this machine's.
        published: port inside -> `host:port` outside.
        port: the debug port inside.
        address: the container's own IP address on one of its networks; empty when it has none.
        service, project_dir: of compose, empty without it. The folder is as the kernel names it.
        one_off: made by `docker compose run`.
        created: as the engine writes it, which sorts by time.
        environment: of the image and the service.
        workdir: folder in which its program starts; empty for `/`.
        devices: the engine was asked for a device such as a GPU (some composes drop that silently).
        agent: runs the agent in it, without its verb.
        user: `uid:gid` as whom that agent runs; empty for the container's own.
        binds: folder inside -> that of the engine's machine which is mounted there.
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
    one_off: bool = False
    created: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    workdir: str = ""
    devices: bool = False
    agent: tuple[str, ...] = AGENT
    user: str = ""
    binds: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, inspected: Mapping[str, Any]) -> Container:
        """What `docker inspect` says about one container."""
        config, network = inspected["Config"], inspected["NetworkSettings"]
        published = {
            int(inside.partition("/")[0]): f"{bindings[0]['HostIp'] or '0.0.0.0'}:{bindings[0]['HostPort']}"  # noqa: S104
            for inside, bindings in (network.get("Ports") or {}).items()
            if bindings
        }
        labels = config.get("Labels") or {}
        environment = dict(entry.partition("=")[::2] for entry in config.get("Env") or ())
        port = environment.get(ENV_PORT, "")
        return cls(
            id=inspected["Id"], name=inspected["Name"].lstrip("/"), label=labels.get(LABEL, ""),
            running=bool(inspected["State"]["Running"]),
            host_network=inspected["HostConfig"].get("NetworkMode") == "host", published=published,
            port=_port(port) or DEFAULT_PORT,
            address=next(
                (each["IPAddress"] for each in (network.get("Networks") or {}).values() if each.get("IPAddress")), ""
            ),
            service=labels.get(SERVICE, ""), project_dir=labels.get(PROJECT_DIR, ""),
            one_off=labels.get(ONE_OFF) == "True", created=inspected.get("Created", ""),
            environment=environment, workdir=str(config.get("WorkingDir") or "").rstrip("/"),
            devices=bool(inspected["HostConfig"].get("DeviceRequests")),
            binds={
                each["Destination"]: each["Source"] for each in inspected.get("Mounts") or () if each.get("Type") == "bind"
            },
        )  # fmt: skip

    def with_run(self, words: Sequence[str], user: str = "") -> Container:
        """This container with the session that `dkdbg run` has started in it.

        Args:
            words: command line of a process that an engine's user, never the container, has started in it.
            user: as whom, as he named him.
        """
        for position, word in enumerate(words):
            if is_brought(word) and words[position + 1 : position + 2] in (["launch"], ["enter"]):
                said = itertools.takewhile(lambda each: each != "--", words[position + 2 :])
                options = dict(itertools.pairwise(said))
                port = options.get("--port", "")
                return replace(
                    self, label=options.get("--name") or self.name, agent=("sh", word),
                    port=_port(port) or self.port, user=user,
                )  # fmt: skip
        return self

    def code_at(self, folder: str) -> tuple[str, str] | None:
        """Where a folder of it lies on the engine's machine: both sides of the mount that it is in; None for none."""
        inside = [each for each in self.binds if folder == each or folder.startswith(each.rstrip("/") + "/")]
        if not inside:
            return None
        found = max(inside, key=len)
        return self.binds[found], found

    def is_called(self, name: str) -> bool:
        """Whether `name` is its name, or enough of the beginning of its id."""
        return name == self.name or (len(name) >= 8 and self.id.startswith(name))


def _port(text: str) -> int:
    """The port that an image or a command line names; 0 when it names none."""
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 6 else 0
    return number if number < 65536 else 0


def choose(containers: Iterable[Container], service: str) -> Container | None:
    """The container that a service's name means: every verb asks here.

    A running one goes before one that has ended; one of the service before one of `docker compose run`; the debug twin
    before the service itself. Of several replicas it is the first by name, so that it stays the same one; of several
    that have ended, or were made by `docker compose run`, the newest.

    Args:
        containers: of one project.
    """
    fitting = [each for each in containers if _rank(service, each) is not None]
    fitting.sort(key=lambda each: each.name)
    fitting.sort(key=lambda each: each.created if each.one_off or not each.running else "", reverse=True)
    fitting.sort(key=lambda each: (not each.running, each.one_off, _rank(service, each)))
    return fitting[0] if fitting else None


def _rank(service: str, container: Container) -> int | None:
    ranks = [debug_names.rank(service, name) for name in (container.service, container.label) if name]
    return min((rank for rank in ranks if rank is not None), default=None)


def only_debug_service(containers: Iterable[Container]) -> str:
    """The name of the only debug service that runs.

    Args:
        containers: of one project.

    Raises:
        DkdbgError: none runs, or several do.
    """
    running = [each for each in containers if each.running]
    debug = sorted({each.service or each.label for each in running if each.label})
    if len(debug) == 1:
        return debug[0]
    names = ", ".join(debug or sorted({each.service for each in running if each.service}))
    raise DkdbgError(
        (f"{len(debug)} debug services run here" if debug else "no debug service of this repository runs")
        + (f"; there are: {names}" if names else ""),
        hint="name the service as the target" if names else "dkdbg up, or name a target: docker://NAME",
        exit_code=EXIT_USAGE,
    )


def not_running(containers: Iterable[Container], service: str) -> DkdbgError:
    """The error that says that a service's container is not there, with those that are.

    Args:
        containers: of one project.
    """
    names = ", ".join(sorted({each.service for each in containers if each.running and each.service}))
    return DkdbgError(
        f"the service {service} does not run here" + (f"; there are: {names}" if names else ""),
        hint="dkdbg up starts the debug service; docker://NAME names any container",
    )


def no_endpoint(container: Container | None) -> str:
    """Why a container has no endpoint, in words; empty where it may have one."""
    if container is None:
        return "there is no container yet"
    if not container.running:
        return f"container {container.name} is not running"
    if not container.label:  # whatever listens there is not ours: a connection deafens a plain debugpy
        return f"container {container.name} runs without an agent of dkdbg"
    return ""


def endpoint_of(container: Container | None) -> Endpoint:
    """Where the agent of a container is reached from here; a container without dkdbg's label has none.

    Its own address, where nothing is published, is reachable from a Linux host only; elsewhere nothing answers there.
    """
    closed = no_endpoint(container)
    if container is None or closed:
        return Endpoint(address=None, why=closed)
    endpoint = _published_at(container)
    if endpoint is None:
        return Endpoint(address=None, why="its debug port is not published")
    return Endpoint(address=endpoint, why=f"container {container.name} is starting")


def has_network(container: Container) -> bool:
    """Whether a running container can be reached at all from its engine's machine; one that does not run may be later."""
    return not container.running or _published_at(container) is not None


def _published_at(container: Container) -> tuple[str, int] | None:
    if container.host_network:
        return LOOPBACK, container.port
    published = container.published.get(container.port)
    if published:
        host, _, port = published.rpartition(":")
        return host.replace("0.0.0.0", LOOPBACK).replace("::", "::1"), int(port)  # noqa: S104
    return (container.address, container.port) if container.address else None


def sessions_of(container: Container, records: Sequence[object]) -> list[SeenSession]:
    """The sessions in a container with dkdbg's label.

    Args:
        records: what its agent says; empty when it does not answer, or has ended.
    """
    target, address = f"container {container.name}", f"docker://{container.name}"
    if not records:
        state = "starting" if container.running else "exited"
        return [
            SeenSession(
                target=target, address=address, id=container.id[:12], name=container.label, state=state
            )
        ]
    found = []
    for value in records:
        try:
            record = parse(value)
        except BadRecord as error:  # whoever is root in there may have written it
            found.append(unreadable(container, str(error)))
            continue
        endpoint = None if container.host_network else container.published.get(record.port, "")
        found.append(
            of_record(record, live=bool(record.live), target=target, address=address, endpoint=endpoint)
        )
    return found


def unreadable(container: Container, why: str) -> SeenSession:
    """A container whose agent, or what is in its place, says what makes no sense."""
    return sessions.unreadable(
        target=f"container {container.name}", address=f"docker://{container.name}", id=container.id[:12],
        name=container.label, why=why,
    )  # fmt: skip


def workspace_of(container: Container) -> Workspace:
    """Where the code lies in a container: the mapping that `init` planned, else WORKDIR.

    Raises:
        DkdbgError: neither says.
    """
    planned = mapping.workspace_of(container.environment.get(ENV_MAPPINGS, ""))
    if planned is not None:
        return planned
    if container.workdir:
        return Workspace(local=".", remote=container.workdir, why="the WORKDIR of the image")
    raise mapping.unknown("the container: no mapping, no WORKDIR")
