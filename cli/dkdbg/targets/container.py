"""A running container as a place where a process runs, and where in it the workspace lies."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dkdbg.agent.contract import ENV_MAPPINGS
from dkdbg.errors import EXIT_USAGE, DkdbgError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: How launch.json and DKDBG_MAPPINGS name the repository's root.
_ROOT = "${workspaceFolder}"


@dataclass(frozen=True, kw_only=True)
class Container:
    """One container.

    Attributes:
        name: name or id, as `docker exec` takes it.
        label: as a person named it.
    """

    name: str
    label: str

    def wrap(self, argv: Sequence[str]) -> tuple[str, ...]:
        """The local command line that runs `argv` in it, with our standard input and output."""
        return ("docker", "exec", "-i", self.name, *argv)


@dataclass(frozen=True, kw_only=True)
class Workspace:
    """Where the code lies on a target.

    Attributes:
        local: folder relative to the repository's root, `.` for the root itself.
        remote: absolute path on the target.
        why: where that was seen.
    """

    local: str
    remote: str
    why: str


def workspace_of(inspected: Mapping[str, Any]) -> Workspace:
    """Where `docker inspect` says that the code lies: the mapping that `init` planned, else WORKDIR.

    Raises:
        DkdbgError: neither says.
    """
    config = inspected.get("Config") or {}
    environment = dict(entry.partition("=")[::2] for entry in config.get("Env") or ())
    pairs = _pairs(environment.get(ENV_MAPPINGS, ""))
    if pairs:
        whole = [pair for pair in pairs if pair[0] == "."]
        if not whole and len(pairs) > 1:
            said = ", ".join(f"{local} at {remote}" for local, remote in pairs)
            raise DkdbgError(
                f"the service has several folders of this repository: {said}",
                hint=f"sync one at a time: dkdbg -C {pairs[0][0]} sync TARGET --to {pairs[0][1]}",
                exit_code=EXIT_USAGE,
            )
        local, remote = (whole or pairs)[0]
        return Workspace(local=local, remote=remote, why="the mapping that dkdbg init planned")
    folder = str(config.get("WorkingDir") or "")
    if folder and folder != "/":
        return Workspace(local=".", remote=folder, why="the WORKDIR of the image")
    raise DkdbgError(
        "nothing says where the code lies in the container: no mapping, no WORKDIR",
        hint="name the folder: dkdbg sync TARGET --to /path/in/the/container",
        exit_code=EXIT_USAGE,
    )


def _pairs(text: str) -> list[tuple[str, str]]:
    """(local, remote) of DKDBG_MAPPINGS that lie in the repository, local relative to its root."""
    try:
        entries = json.loads(text or "[]")
    except ValueError:
        return []
    found = []
    for entry in entries if isinstance(entries, list) else ():
        local, remote = str(entry.get("localRoot", "")), str(entry.get("remoteRoot", ""))
        if remote.startswith("/") and (local == _ROOT or local.startswith(_ROOT + "/")):
            found.append((local[len(_ROOT) + 1 :] or ".", remote))
    return found


@dataclass(frozen=True, kw_only=True)
class Listed:
    """One line of `docker ps`.

    Attributes:
        service, project_dir: of compose, empty without it.
        session: the label of a debug service, empty for others.
    """

    id: str
    name: str
    service: str
    project_dir: str
    session: str

    @classmethod
    def template(cls) -> str:
        """The format that `docker ps` has to print it in."""
        labels = ("com.docker.compose.service", "com.docker.compose.project.working_dir", "dev.dkdbg.session")
        return "\t".join(["{{.ID}}", "{{.Names}}", *(f'{{{{.Label "{label}"}}}}' for label in labels)])

    @classmethod
    def parse(cls, line: str) -> Listed:
        """Read one line of it."""
        id_, name, service, project_dir, session = line.split("\t")
        return cls(id=id_, name=name, service=service, project_dir=project_dir, session=session)


def choose(listed: Sequence[Listed], service: str) -> Listed:
    """The container of `service`, or of its debug twin, which comes first; of the only debug service when empty.

    Args:
        listed: running containers of one project.

    Raises:
        DkdbgError: none fits, or several debug services run.
    """
    if not service:
        debug = {each.service: each for each in listed if each.session}
        if len(debug) == 1:
            return next(iter(debug.values()))
        names = ", ".join(sorted(debug or {each.service: each for each in listed}))
        raise DkdbgError(
            (f"{len(debug)} debug services run here" if debug else "no debug service of this repository runs")
            + (f"; there are: {names}" if names else ""),
            hint="name one: dkdbg sync SERVICE"
            if names
            else "dkdbg up, or name a target: dkdbg sync docker://NAME",
            exit_code=EXIT_USAGE,
        )
    for name in (f"{service}-debug", f"{service}-dkdbg", service):
        fitting = sorted(each.name for each in listed if each.service == name)
        if fitting:
            return next(each for each in listed if each.name == fitting[0])
    names = ", ".join(sorted({each.service for each in listed}))
    raise DkdbgError(
        f"the service {service} does not run here" + (f"; there are: {names}" if names else ""),
        hint="dkdbg up starts the debug service; dkdbg sync docker://NAME takes any container",
    )
