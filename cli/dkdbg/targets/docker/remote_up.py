"""Start a debug service on an engine of another machine, which lacks this machine's files.

The image is built as usual: the docker command sends the build context. Before the program starts, the agent is copied
into the container and the workspace into a volume. The debug port is not published; `dkdbg attach` reaches it through
`docker exec`.
"""

from __future__ import annotations

import contextlib
import getpass
import json
import secrets
import socket
from typing import TYPE_CHECKING, Any

from dkdbg import process
from dkdbg.core.target_values import Started
from dkdbg.errors import EXIT_CONFLICT, DkdbgError
from dkdbg.printable import printable
from dkdbg.targets.docker import client, compose_cli, containers
from dkdbg.targets.docker.compose import ComposeService
from dkdbg.targets.docker.compose_up import check_started, choose_gpu, ended, has_failed
from dkdbg.targets.docker.container import ContainerExecutor
from dkdbg.targets.docker.engine_errors import check, explain
from dkdbg.targets.docker.host import choose_processes, host_facts
from dkdbg.targets.docker.image_build import ImageBuild
from dkdbg.targets.docker.remote_project import AGENT_FOLDER, FROM, remote_project

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from dkdbg.core.plan import DebugService
    from dkdbg.core.target import Executor
    from dkdbg.core.target_values import Start
    from dkdbg.targets.docker.host import HostFacts
    from dkdbg.targets.docker.remote_project import Filled

#: Timeout to copy the agent, 0.9 MB.
_COPY_TIMEOUT_S = 300.0


def start(
    root: Path,
    wanted: Start,
    *,
    report: Callable[[str], None],
    fill: Callable[[Executor, Filled], None],
) -> Started:
    """Start a service of the compose project in `root`; see `Target.up`.

    Args:
        root: the compose project's folder, resolved.
        report: prints one line of progress.
        fill: copies a local folder into a given container. Raises DkdbgError.
    """
    service, engine = wanted.service, client.endpoint().host
    host = check_engine()
    gpu, why = choose_gpu(root, service, host)
    report(f"{host.called} at {printable(engine)}; GPU: {gpu} ({why})")
    processes = choose_processes(root, service, gpu, host, report=report)
    token = wanted.token()
    env = {**compose_cli.environment(port=wanted.port, gpu=gpu, token=token), **processes}
    plain = ComposeService(service=service.name)
    model = compose_cli.check_project(plain, root, env=env)
    check_origin(str(model.get("name", "")), root)
    remote = remote_project(model, service.name, service.port, root=str(root), owner=owner(root))
    target = ComposeService(service=service.name, model=json.dumps(remote.model), folder=str(root))
    if token and compose_cli.remove_with_other_token(plain, root, token):
        report(f"{service.name} ran with another token; it is being restarted")
    image = ImageBuild(root, service, plain)
    build = image.is_needed
    if build:
        compose_cli.run(target, target.build(), root, env=env, report=report)
        image.remove_stale()
    image.copy_files(str(model.get("name", "")), report)
    compose_cli.run(target, target.create(), root, env=env, report=report)
    found = containers.inspected_service(plain, root)
    if found is None:
        raise DkdbgError(
            f"compose has created no container for {service.name}",
            hint="docker compose ps --all lists the containers; a scale or replicas of 0 creates none",
        )
    with _open(found, root) as executor:
        for each in remote.filled:
            fill(executor, each)
    try:
        compose_cli.up(target, target.up(build=False, wait_timeout=wanted.wait), root, env=env, report=report)
    except DkdbgError as error:
        running = containers.of_service(plain, root) if "is unhealthy" in str(error) else None
        raise (ended() if running and has_failed(running) else error) from None
    if build:
        image.done()
    running = containers.of_service(plain, root)
    check_started(running, plain, root, env=env, report=report)
    name = running.name if running else None
    return Started(port=None, gpu=gpu, token=bool(token), name=name, engine=engine)


def check_engine() -> HostFacts:
    """Return the engine's description.

    Raises:
        DkdbgError: it is Podman; or no docker command, no engine, no permission.
    """
    host = host_facts()
    if host.is_podman:
        raise DkdbgError(
            f"the Podman at {printable(client.endpoint().host)} is on another machine; dkdbg cannot build images there",
            hint="run dkdbg on that machine, or copy the code to it: dkdbg run --sync --on ssh://HOST -- CMD",
        )
    return host


def owner(root: Path) -> str:
    """Return user, machine and folder of a start: compose knows only a project's name, and users share an engine."""
    return f"{getpass.getuser()}@{socket.gethostname()}:{root}"


def check_origin(project: str, root: Path) -> None:
    """Raise DkdbgError if the engine has a compose project of this name that was started elsewhere.

    Raises:
        DkdbgError: there is such a project; or no docker command, no engine, no permission.
    """
    other = containers.other_origin(project, root, label=FROM, own=owner(root))
    if other is not None:
        whose = f"started by {printable(other)}" if other else "which dkdbg up did not start"
        raise DkdbgError(
            f"the engine already has a compose project called {project}, {whose}; compose would mix up their containers",
            hint=f"give this one another name: printf '\\nCOMPOSE_PROJECT_NAME={project}-2\\n' >> .env",
            exit_code=EXIT_CONFLICT,
        )


def volumes_left(target: ComposeService, root: Path) -> tuple[str, ...]:
    """Return the volumes of the service's container that contain copies of this folder's files."""
    mounts = (containers.inspected_service(target, root) or {}).get("Mounts") or ()
    return tuple(each["Name"] for each in mounts if "_dkdbg-workspace" in str(each.get("Name")))


@contextlib.contextmanager
def _open(found: dict[str, object], root: Path) -> Iterator[Executor]:
    """Yield a running container with the service's volumes: the service's own, or a temporary one.

    The agent is copied into the service's container first, unless the container runs.
    """
    id_, state = str(found["Id"]), found["State"]
    if isinstance(state, dict) and state.get("Running"):
        yield ContainerExecutor(name=id_, label="the running service")
        return
    copy_agent(root, id_)
    with filling(str(found["Image"]), ("--volumes-from", id_)) as executor:
        yield executor


def copy_agent(root: Path, container: str) -> None:
    """Copy the agent into a container. Raises DkdbgError: its file system is read-only, or the engine fails."""
    copied = process.run(
        ("docker", "cp", "--quiet", f"{root / '.dkdbg'}/.", f"{container}:{AGENT_FOLDER}"), timeout=_COPY_TIMEOUT_S
    )  # fmt: skip
    if copied.code and "read-only" in copied.stderr:
        raise DkdbgError(
            "the service's file system is read-only, so the agent cannot be copied into its container",
            hint="read_only: false for the debug service in an override file",
            exit_code=EXIT_CONFLICT,
        )
    check(copied)


@contextlib.contextmanager
def filling(image: str, volumes: Sequence[str]) -> Iterator[ContainerExecutor]:
    """Yield a temporary container of `image` with `volumes`, which are options of `docker run`."""
    name = f"dkdbg-fill-{secrets.token_hex(6)}"
    # The container exits at the end of its standard input, even if this process is killed.
    running = process.converse(
        (
            "docker", "run", "--interactive", "--rm", "--init", "--name", name, "--network", "none", "--user", "0:0",
            *volumes, "--entrypoint", "sh", image, "-c", "echo ready; exec cat >/dev/null",
        )
    )  # fmt: skip
    try:
        if running.stdout is None or running.stdout.readline().strip() != b"ready":
            stderr = running.stderr.read() if running.stderr is not None else b""
            raise explain(running.wait(), stderr.decode("utf-8", "replace"))
        yield ContainerExecutor(name=name, label="a container with the volume of the service")
    finally:
        if running.stdin is not None:
            with contextlib.suppress(OSError):
                running.stdin.close()
        with contextlib.suppress(process.TimeoutExpired):
            running.wait(20)
        process.end(running)


class RemoteCopies:
    """Copies of the mounted folders and the agent, in volumes of a remote engine, for one run.

    Args:
        root: the compose project's folder, resolved.
        fill: copies a local folder into a given container. Raises DkdbgError.

    Attributes:
        volumes: names of the volumes; empty before `make` has created any.
    """

    def __init__(self, root: Path, service: DebugService, fill: Callable[[Executor, Filled], None]) -> None:
        self._root, self._service, self._fill = root, service, fill
        self.volumes: tuple[str, ...] = ()

    def check(self, project: str) -> None:
        """Raise DkdbgError if the engine is Podman, or has a project of this name that was started elsewhere."""
        check_engine()
        check_origin(project, self._root)

    def make(self, model: Mapping[str, Any]) -> ComposeService:
        """Return the service with the copies in place of its mounts.

        Args:
            model: the project as `docker compose config --format json` merges it; the service's image exists.

        Raises:
            DkdbgError: the service mounts something of this machine that cannot be copied, or the engine fails.
        """
        service = self._service
        remote = remote_project(
            model, service.name, service.port, root=str(self._root), owner=owner(self._root), run=secrets.token_hex(6)
        )  # fmt: skip
        volumes = {AGENT_FOLDER: remote.agent, **{each.remote: each.volume for each in remote.filled}}
        self.volumes = tuple(volumes.values())
        options = [word for path, name in volumes.items() for word in ("--volume", f"{name}:{path}:nocopy")]
        image = str(model["services"][service.name].get("image") or f"{model.get('name')}-{service.name}")
        with filling(image, options) as executor:
            copy_agent(self._root, executor.name)
            for each in remote.filled:
                self._fill(executor, each)
        return ComposeService(service=service.name, model=json.dumps(remote.model), folder=str(self._root))
