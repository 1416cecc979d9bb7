"""List the containers of the selected engine, and watch them for changes.

Listings use the docker command, which answers in a tenth of the time that the SDK takes to load. `dkdbg attach`, which
runs longer, listens to the engine's events with the SDK. Every function that asks the engine raises DkdbgError without
docker command, engine or permission.
"""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dkdbg import process
from dkdbg.core.record import BadRecord
from dkdbg.core.target import Changes
from dkdbg.errors import DkdbgError
from dkdbg.relay import remote_sessions
from dkdbg.repository import dotenv, folders
from dkdbg.targets.docker import client
from dkdbg.targets.docker.container import (
    LABEL,
    PROJECT_DIR,
    PROJECT_NAME,
    Container,
    ContainerExecutor,
    sessions_of,
)
from dkdbg.targets.docker.engine_errors import check, explain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from dkdbg.core.record import SeenRecord
    from dkdbg.core.sessions import SeenSession
    from dkdbg.targets.docker.compose import ComposeService

#: Timeout for a listing by the engine.
_ANSWER_TIMEOUT_S = 60.0
#: Timeout for an agent's answer.
_AGENT_TIMEOUT_S = 20.0


def of_debug_services() -> tuple[Container, ...]:
    """Return the containers of all debug services, including ended ones, and those that `dkdbg run` currently uses."""
    labelled = [id_ for id_, _ in _listed(LABEL)]
    running = check(process.run(["docker", "ps", "--quiet", "--no-trunc"], timeout=_ANSWER_TIMEOUT_S))
    others = [id_ for id_ in running.stdout.split() if id_ not in labelled]
    return (*_inspected(labelled), *(each for each in _inspected(others) if each.label))


def of_project(root: Path) -> tuple[Container, ...]:
    """Return the containers of the compose project in `root`, including ended ones."""
    own_folder = project_folder(root)  # compose keeps the symlinks in a path
    return _inspected([id_ for id_, folder in _listed(PROJECT_DIR) if os.path.realpath(folder) == own_folder])


def project_folder(root: Path) -> str:
    """Return compose's folder of the project in `root`, without symlinks: the folder of COMPOSE_FILE's first file."""
    files = dotenv.read(root, "COMPOSE_FILE")
    if not files:
        return os.path.realpath(root)
    separator = dotenv.read(root, "COMPOSE_PATH_SEPARATOR") or ":"
    return os.path.realpath((root / files.split(separator)[0]).parent)


def other_folder(project: str, root: Path) -> str:
    """Return another folder that has containers in a compose project of this name; empty if no folder has.

    Compose distinguishes projects only by name, by default the folder's name: a start would replace those containers.
    """
    own_folder = project_folder(root)
    called = {id_ for id_, name in _listed(PROJECT_NAME) if name == project}
    others = {os.path.realpath(folder) for id_, folder in _listed(PROJECT_DIR) if id_ in called}
    return (
        ""
        if own_folder in others
        else next((each for each in sorted(others) if not folders.is_gone(Path(each))), "")
    )


def other_origin(project: str, root: Path, *, label: str, own: str) -> str | None:
    """Return another owner of containers in a project of this name.

    None if all belong to `own` or `root`; empty if the owner is unknown.

    Args:
        project: compose's name for it.
        root: this project's folder; containers that plain compose has started in it count as own ones.
        label: label with the owner of a container.
        own: the label's value for own containers.
    """
    folder = project_folder(root)
    owners, folders = dict(_listed(label)), dict(_listed(PROJECT_DIR))
    called = [id_ for id_, name in _listed(PROJECT_NAME) if name == project]
    for id_ in called:
        if id_ in owners and owners[id_] != own:
            return owners[id_]
        if id_ not in owners and os.path.realpath(folders.get(id_, "")) != folder:
            return ""
    return None


def of_name(name: str, *, runs: bool = True) -> Container | None:
    """Return the container with this name or id, None if there is no such container.

    Args:
        runs: also look for a session that `dkdbg run` has started in it. That loads the SDK if a process, such as a
            shell, was started in it, and takes longer than a sync of 10,000 unchanged files.
    """
    found = _found(name)
    if found is None:
        return None
    return _container(found) if runs else Container.of(found)


def of_service(target: ComposeService, root: Path) -> Container | None:
    """Return a compose service's container, running or not; None if it has no container, or if compose fails."""
    found = inspected_service(target, root)
    return None if found is None else Container.of(found)


def inspected_service(target: ComposeService, root: Path) -> dict[str, Any] | None:
    """Return the engine's full description of a compose service's container; None as for `of_service`."""
    listed = process.run(target.ps(), cwd=root)
    ids = [] if listed.code else listed.stdout.split()
    return _found(ids[0]) if ids else None


def _found(name: str) -> dict[str, Any] | None:
    """Return the engine's full description of the container with this name or id; None if there is no such container."""
    asked = process.run(["docker", "container", "inspect", "--", name], timeout=_ANSWER_TIMEOUT_S)
    if asked.code and "no such container" in asked.stderr.lower():
        return None
    return dict(json.loads(check(asked).stdout)[0])


def inspected(id_: str) -> dict[str, Any]:
    """Return the engine's full description of a container; its environment may contain secrets.

    Raises:
        DkdbgError: there is no such container, or no engine.
    """
    asked = check(process.run(["docker", "container", "inspect", "--", id_], timeout=_ANSWER_TIMEOUT_S))
    return dict(json.loads(asked.stdout)[0])


def image_of(inspected: dict[str, Any]) -> str:
    """Return the image of a container: the given name, or the id if another image has that name now."""
    name, id_ = str(inspected["Config"].get("Image") or ""), str(inspected["Image"])
    asked = process.run(
        ["docker", "image", "inspect", "--format", "{{.Id}}", "--", name or id_], timeout=_ANSWER_TIMEOUT_S
    )
    return name if name and asked.stdout.strip() == id_ else id_


def entrypoint_of_image(id_: str) -> tuple[str, ...]:
    """Return the ENTRYPOINT of an image, also if inherited from its base image; empty if unset."""
    argv = ["docker", "image", "inspect", "--format", "{{json .Config.Entrypoint}}", "--", id_]
    asked = check(process.run(argv, timeout=_ANSWER_TIMEOUT_S))
    return tuple(map(str, json.loads(asked.stdout) or ()))


def names() -> list[str]:
    """Return the names of all running containers."""
    listed = process.run(["docker", "ps", "--format", "{{.Names}}"], timeout=_ANSWER_TIMEOUT_S)
    return sorted(check(listed).stdout.split())


def _listed(label: str) -> list[tuple[str, str]]:
    """Return the ids of the containers with a label, and the label's values."""
    shown = f'{{{{.ID}}}}\t{{{{.Label "{label}"}}}}'
    argv = ["docker", "ps", "--all", "--no-trunc", "--filter", f"label={label}", "--format", shown]
    listed = check(process.run(argv, timeout=_ANSWER_TIMEOUT_S)).stdout
    lines = (line.partition("\t") for line in listed.splitlines())
    return [(id_, value) for id_, _, value in lines]


def _inspected(ids: Sequence[str]) -> tuple[Container, ...]:
    if not ids:
        return ()
    asked = process.run(["docker", "container", "inspect", *ids], timeout=_ANSWER_TIMEOUT_S)
    found: list[dict[str, Any]] = []
    with contextlib.suppress(ValueError):
        found = json.loads(asked.stdout)
    gone = asked.stderr.lower().count("no such container")  # inspect fails then, and still shows the others
    if len(found) + gone < len(ids):  # without an engine docker shows an empty list
        raise explain(asked.code or 1, asked.stderr)
    return tuple(_container(each) for each in found)


def _container(inspected: dict[str, Any]) -> Container:
    """Return a container with the session that `dkdbg run` has started in it, from the engine's list of exec commands.

    The container itself is not asked: it could name any port of this machine.
    """
    found = Container.of(inspected)
    if found.label:
        return found
    for argv, user in _running(inspected):
        found = found.with_run(argv, user)
    return found


def of_run(id_: str, run: str) -> Container | None:
    """Return a container with the session of one `dkdbg run`; without a session before its start and after its end.

    Args:
        run: the ID of that run.
    """
    inspected = _found(id_)
    if inspected is None:
        return None
    found = Container.of(inspected)
    for argv, user in _running(inspected):
        if any(word.endswith(f"={run}") for word in argv):
            return found.with_run(argv, user)
    return replace(found, label="")


def _running(inspected: dict[str, Any]) -> Iterator[tuple[list[str], str]]:
    """Yield command line and user of each running exec command, as the engine reports them."""
    running = inspected.get("ExecIDs") or ()
    if not inspected["State"]["Running"] or not running:
        return
    for seen in _execs(running):
        if seen.get("Running"):
            asked = seen.get("ProcessConfig") or {}
            argv = [str(asked.get("entrypoint")), *map(str, asked.get("arguments") or ())]
            yield argv, str(asked.get("user") or "")


def _execs(ids: Sequence[str]) -> list[dict[str, Any]]:
    """Return the engine's exec commands of a container, without those that have ended meanwhile."""
    found: list[dict[str, Any]] = []
    engine = client.connect()
    try:
        for each in ids:
            try:
                found.append(engine.exec_inspect(each))
            except (OSError, ValueError) as error:  # noqa: PERF203 - this command has ended meanwhile
                if getattr(error, "response", None) is None:  # the engine did not answer
                    break
    finally:
        engine.close()
    return found


def sessions_in(container: Container) -> list[SeenSession]:
    """Return the sessions that the agent in a container with dkdbg's label reports; empty without the label."""
    if not container.label:
        return []
    try:
        records = records_in(container) if container.running and not container.is_paused else []
    except (DkdbgError, BadRecord) as error:
        records = [str(error)]
    return sessions_of(container, records)


def records_in(container: Container) -> list[SeenRecord | str]:
    """Return the records of a running container's agent, as `remote_sessions.records`."""
    executor = ContainerExecutor(name=container.id, label=container.name, user=container.user)
    return remote_sessions.records(executor, container.agent, limit=_AGENT_TIMEOUT_S)


class ContainerChanges(Changes):
    """Starts and ends of containers of debug services. All instances are equal: one listener serves all targets."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ContainerChanges)

    def __hash__(self) -> int:
        return hash(ContainerChanges)

    def __str__(self) -> str:
        return "the engine's events"

    def _open(self) -> tuple[Iterable[object], Callable[[], None]]:
        where = client.endpoint()
        engine = client.connect(where)
        filters = {"type": "container", "label": LABEL, "event": ["start", "die", "destroy"]}
        try:
            stream = engine.events(filters=filters)
        except OSError as error:
            engine.close()
            raise explain(1, f"Cannot connect to the Docker daemon at {where.host}: {error}") from error

        def end() -> None:
            with contextlib.suppress(OSError, AttributeError):  # the stream may have just ended
                stream.close()
            engine.close()

        return stream, end
