"""Parse containers from `docker inspect`: select one by a service's name, and find its debug port and code."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from dkdbg.agent.contract import DEFAULT_PORT, LOOPBACK
from dkdbg.agent.settings import ENV_MAPPINGS, ENV_PORT
from dkdbg.core import compose_names, mapping, sessions
from dkdbg.core.brought import is_brought
from dkdbg.core.mapping import Workspace
from dkdbg.core.plan import AGENT_FILE
from dkdbg.core.sessions import SeenSession
from dkdbg.core.target import Endpoint, Executor
from dkdbg.errors import EXIT_USAGE, DkdbgError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from dkdbg.agent.contract import Deadline
    from dkdbg.core.record import SeenRecord

#: The label of a debug service's containers: the service's name.
LABEL = "dev.dkdbg.session"
#: Labels of compose: the service, the folder of the project (as typed, with symlinks), and whether `compose run` made
#: it.
SERVICE, PROJECT_DIR, ONE_OFF = (
    "com.docker.compose.service", "com.docker.compose.project.working_dir", "com.docker.compose.oneoff",
)  # fmt: skip
#: Label of compose: the project's name.
PROJECT_NAME = "com.docker.compose.project"
#: Programs that restart unhealthy containers, the label that selects the containers, and its values. The engine itself
#: does not restart unhealthy containers.
_RESTARTING = (
    ("autoheal", "autoheal", frozenset({"true"})),
    ("deunhealth", "deunhealth.restart.on.unhealthy", frozenset({"true"})),
)
#: Defaults of a healthcheck (Dockerfile reference, HEALTHCHECK), in nanoseconds.
_INTERVAL_NS, _TIMEOUT_NS, _RETRIES = 30_000_000_000, 30_000_000_000, 3
#: Command of the agent that a debug service mounts (compose/service.yaml.j2).
AGENT = ("sh", AGENT_FILE)


@dataclass(frozen=True, kw_only=True)
class ContainerExecutor(Executor):
    """A container, reached with `docker exec`.

    Attributes:
        name: name or id for `docker exec`.
        label: the name that the user gave.
        user: `uid:gid` to run commands as; empty for the container's own user.
    """

    name: str
    label: str
    user: str = ""

    def wrap(self, argv: Sequence[str], *, tty: bool = False) -> tuple[str, ...]:
        """Return the local command line that runs `argv` in the container, with our standard input and output."""
        user = ("--user", self.user) if self.user else ()
        return ("docker", "exec", "-it" if tty else "-i", *user, self.name, *argv)


def _unhealthy_after(check: Mapping[str, Any]) -> float | None:
    """Return the seconds without an answer after which a healthcheck fails; None without a healthcheck."""
    if (check.get("Test") or ["NONE"])[0] == "NONE":
        return None
    each = (check.get("Interval") or _INTERVAL_NS) + (check.get("Timeout") or _TIMEOUT_NS)
    return float(each * (check.get("Retries") or _RETRIES)) / 1e9


def logs_words(name: str, *, follow: bool, lines: int | None) -> tuple[str, ...]:
    """Return the local command line that prints the output of a container's program; see `Target.logs`."""
    tail = () if lines is None else ("--tail", str(lines))
    return ("docker", "container", "logs", *(("--follow",) if follow else ()), *tail, name)


@dataclass(frozen=True, kw_only=True)
class Container:
    """One container, in its current state.

    Attributes:
        label: name of the debug service; empty for containers unrelated to dkdbg.
        running: whether it runs now.
        status: the engine's word, such as `running` or `exited`.
        code: exit code of a container that has exited.
        ready: whether it runs, and its healthcheck passes if it has one.
        host_network: whether its ports are this machine's.
        published: TCP port inside -> `host:port` outside.
        port: the debug port inside.
        address: the container's own IP address on one of its networks; empty if it has none. Networks without a
            gateway (`internal: true`) do not count: they publish no ports, and the agent recognizes this machine
            by the gateway.
        service: set by compose, otherwise empty.
        one_off: made by `docker compose run`.
        created: time as the engine writes it, which sorts by time.
        environment: from the image and the service.
        workdir: working directory of its program; empty for `/`.
        devices: whether the engine was asked for a device such as a GPU (some versions of compose drop that silently).
        agent: command of its agent, without a verb.
        user: `uid:gid` that the agent runs as; empty for the container's own user.
        binds: folder in the container -> folder of the engine's machine that is mounted on it.
        unhealthy_after: seconds without an answer after which its own healthcheck fails; None if it has no healthcheck.
        restarted_by: the program that restarts it once it is unhealthy; empty for none.
    """

    id: str
    name: str
    label: str
    running: bool
    host_network: bool
    published: Mapping[int, str]
    status: str = ""
    code: int = 0
    port: int = DEFAULT_PORT
    address: str = ""
    service: str = ""
    one_off: bool = False
    created: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    workdir: str = ""
    devices: bool = False
    agent: tuple[str, ...] = AGENT
    user: str = ""
    binds: Mapping[str, str] = field(default_factory=dict)
    unhealthy_after: float | None = None
    restarted_by: str = ""
    ready: bool = False

    @classmethod
    def of(cls, inspected: Mapping[str, Any]) -> Container:
        """Parse the output of `docker inspect` for one container."""
        config, network = inspected["Config"], inspected["NetworkSettings"]
        published = {
            int(inside.partition("/")[0]): f"{bindings[0]['HostIp'] or '0.0.0.0'}:{bindings[0]['HostPort']}"  # noqa: S104
            for inside, bindings in (network.get("Ports") or {}).items()
            if bindings and inside.endswith("/tcp")
        }
        labels = config.get("Labels") or {}
        environment = dict(entry.partition("=")[::2] for entry in config.get("Env") or ())
        port = environment.get(ENV_PORT, "")
        entrypoint = config.get("Entrypoint") or []
        return cls(
            id=inspected["Id"], name=inspected["Name"].lstrip("/"), label=labels.get(LABEL, ""),
            agent=(entrypoint[0], AGENT_FILE) if entrypoint[1:2] == [AGENT_FILE] else AGENT,  # without sh
            running=bool(inspected["State"]["Running"]),
            status=str(inspected["State"].get("Status") or ""), code=int(inspected["State"].get("ExitCode") or 0),
            ready=bool(inspected["State"]["Running"]) and (inspected["State"].get("Health") or {}).get("Status", "healthy") == "healthy",
            host_network=inspected["HostConfig"].get("NetworkMode") == "host", published=published,
            port=_port(port) or DEFAULT_PORT,
            address=next(
                (each["IPAddress"] for each in (network.get("Networks") or {}).values() if each.get("IPAddress") and each.get("Gateway")), ""
            ),
            service=labels.get(SERVICE, ""),
            one_off=labels.get(ONE_OFF) == "True", created=inspected.get("Created", ""),
            environment=environment, workdir=str(config.get("WorkingDir") or "").rstrip("/"),
            devices=bool(inspected["HostConfig"].get("DeviceRequests")),
            binds={
                each["Destination"]: each["Source"] for each in inspected.get("Mounts") or () if each.get("Type") == "bind"
            },
            unhealthy_after=None if labels.get(LABEL) else _unhealthy_after(config.get("Healthcheck") or {}),
            restarted_by=next((name for name, label, value in _RESTARTING if labels.get(label, "").lower() in value), ""),
        )  # fmt: skip

    @property
    def is_paused(self) -> bool:
        """Return whether `docker pause` has frozen it: it runs, and no command can be run in it."""
        return self.status == "paused"

    @property
    def outside_ports(self) -> set[str]:
        """Return the ports of the engine's machine that it publishes."""
        return {outside.rpartition(":")[2] for outside in self.published.values()}

    @property
    def outside_port(self) -> int | None:
        """Return the port of the engine's machine that leads to the debug port; None if no port does."""
        if self.host_network:
            return self.port if self.running else None
        outside = self.published.get(self.port)
        return int(outside.rpartition(":")[2]) if outside else None

    @property
    def deadlines(self) -> tuple[Deadline, ...]:
        """Return the deadline of its own healthcheck, which a paused program misses; none in a debug service."""
        if self.unhealthy_after is None:
            return ()
        then = (
            f"{self.restarted_by} restarts it"
            if self.restarted_by
            else "services that depend on it do not start"
        )
        what = f"the container {self.name} becomes unhealthy, and {then},"
        return ({"what": what, "ends": None, "after": self.unhealthy_after, "lift": ""},)

    def with_run(self, argv: Sequence[str], user: str = "") -> Container:
        """Return this container with the agent, name, port and user of the `dkdbg run` session that `argv` started.

        Args:
            argv: command line of a process that a user of the engine (`docker exec`), not the container, has
                started in it.
            user: the user that it runs as, as given to the engine.
        """
        for position, word in enumerate(argv):
            if is_brought(word) and argv[position + 1 : position + 2] in (
                ["launch"],
                ["supervise"],
                ["enter"],
            ):
                given = itertools.takewhile(lambda each: each != "--", argv[position + 2 :])
                options = dict(itertools.pairwise(given))
                port = options.get("--port", "")
                return replace(
                    self, label=options.get("--name") or self.name, agent=("sh", word),
                    port=_port(port) or self.port, user=user,
                )  # fmt: skip
        return self

    def code_at(self, folder: str) -> tuple[str, str] | None:
        """Return host and container side of the mount that contains a folder of the container; None if none does."""
        inside = [each for each in self.binds if folder == each or folder.startswith(each.rstrip("/") + "/")]
        if not inside:
            return None
        found = max(inside, key=len)
        return self.binds[found], found

    def is_called(self, name: str) -> bool:
        """Return whether `name` is its name, or a sufficiently long prefix of its id."""
        return name == self.name or (len(name) >= 8 and self.id.startswith(name))


def _port(text: str) -> int:
    """Return the port in an image's variable or a command line; 0 if `text` is not a port."""
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 6 else 0
    return number if number < 65536 else 0


def choose(containers: Iterable[Container], service: str) -> Container | None:
    """Return the container that a service's name means, for every verb.

    Prefer running containers to ended ones, then containers of the service to those of `docker compose run`, then the
    debug service to the service itself. Among running replicas the first by name is chosen, so that the choice is
    stable. Among containers that have ended, or that `docker compose run` has made, the newest is chosen.

    Args:
        containers: the containers of one project.
    """
    fitting = [each for each in containers if _rank(service, each) is not None]
    fitting.sort(key=lambda each: each.name)
    fitting.sort(key=lambda each: each.created if each.one_off or not each.running else "", reverse=True)
    fitting.sort(key=lambda each: (not each.running, each.one_off, _rank(service, each)))
    return fitting[0] if fitting else None


def _rank(service: str, container: Container) -> int | None:
    ranks = [compose_names.rank(service, name) for name in (container.service, container.label) if name]
    return min((rank for rank in ranks if rank is not None), default=None)


def only_debug_service(containers: Iterable[Container]) -> str:
    """Return the name of the only running debug service.

    Args:
        containers: the containers of one project.

    Raises:
        DkdbgError: none runs, or several do.
    """
    running = [each for each in containers if each.running]
    debug = sorted({each.service or each.label for each in running if each.label})
    if len(debug) == 1:
        return debug[0]
    names = ", ".join(debug or sorted({each.service for each in running if each.service}))
    raise DkdbgError(
        (
            f"{len(debug)} debug services of this repository are running"
            if debug
            else "no debug service of this repository is running"
        )
        + (f"; there are: {names}" if names else ""),
        hint="name the service as the target" if names else "dkdbg up, or name a target: docker://NAME",
        exit_code=EXIT_USAGE,
    )


def not_running(containers: Iterable[Container], service: str) -> DkdbgError:
    """Return the error for a missing container of a service, which lists the running ones.

    Args:
        containers: the containers of one project.
    """
    names = ", ".join(sorted({each.service for each in containers if each.running and each.service}))
    return DkdbgError(
        f"the service {service} is not running" + (f"; there are: {names}" if names else ""),
        hint="dkdbg up starts the debug service; docker://NAME names any container",
    )


def no_endpoint(container: Container | None) -> str:
    """Return why a container has no endpoint; empty if it may have one."""
    if container is None:
        return "there is no container yet"
    if not container.running:
        return f"container {container.name} is not running"
    if container.is_paused:
        return f"container {container.name} is paused: docker unpause {container.name}"
    if not container.label:  # no dkdbg agent: a plain debugpy would stop listening after a connection
        return f"container {container.name} runs without the dkdbg agent"
    return ""


def endpoint_of(container: Container | None) -> Endpoint:
    """Return the address of a container's agent as seen from this machine; none for a container without dkdbg's label.

    Without a published port the container's own address is used, which only a Linux host can reach.
    """
    closed = no_endpoint(container)
    if container is None or closed:
        return Endpoint(address=None, why=closed)
    endpoint = _published_at(container)
    if endpoint is None:
        return Endpoint(address=None, why="its debug port is not published")
    return Endpoint(address=endpoint, why=f"container {container.name} is starting")


def has_network(container: Container) -> bool:
    """Return whether the engine's machine can reach a container; True for a stopped one, which may be reachable later."""
    return not container.running or _published_at(container) is not None


def _published_at(container: Container) -> tuple[str, int] | None:
    if container.host_network:
        return LOOPBACK, container.port
    published = container.published.get(container.port)
    if published:
        host, _, port = published.rpartition(":")
        return host.replace("0.0.0.0", LOOPBACK).replace("::", "::1"), int(port)  # noqa: S104
    return (container.address, container.port) if container.address else None


def sessions_of(container: Container, records: Sequence[SeenRecord | str]) -> list[SeenSession]:
    """Return the sessions in a container with dkdbg's label.

    Args:
        records: answer of its agent; empty if it does not answer, or its container has exited or is paused.
    """
    target, address, id_ = f"container {container.name}", f"docker://{container.name}", container.id[:12]
    if not records:
        state = sessions.PAUSED if container.is_paused else "starting" if container.running else "exited"
        detail = no_endpoint(container) if container.is_paused else ""
        return [
            SeenSession(
                target=target, address=address, id=id_, name=container.label, state=state, detail=detail
            )
        ]
    return sessions.of_records(
        records, target=target, address=address, id=id_, label=container.label,
        endpoint=lambda record: None if container.host_network else container.published.get(record.port, ""),
    )  # fmt: skip


def workspace_of(container: Container) -> Workspace:
    """Return the code's folder in a container: the mapping that `init` planned, or WORKDIR.

    Raises:
        DkdbgError: the container has neither.
    """
    planned = mapping.workspace_of(container.environment.get(ENV_MAPPINGS, ""))
    if planned is not None:
        return planned
    if container.workdir:
        return Workspace(local=".", remote=container.workdir, why="the WORKDIR of the image")
    raise mapping.unknown("the container: no mapping, no WORKDIR")
