"""Convert a compose project for an engine on another machine: volumes replace mounts of this machine's files. Pure."""

from __future__ import annotations

import copy
import hashlib
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from dkdbg.agent.settings import ENV_MAPPINGS
from dkdbg.core import mapping
from dkdbg.errors import EXIT_CONFLICT, DkdbgError
from dkdbg.printable import printable
from dkdbg.targets.docker.compose import started

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Label of services started on a remote engine: the user, machine and folder that started them.
FROM = "dev.dkdbg.from"
#: Folder of the agent in a container: a copy on a remote engine, a mount on a local one (compose/service.yaml.j2).
AGENT_FOLDER = "/opt/dkdbg"
#: Source of the token's secret if there is no token: a local file that is not read (compose/service.yaml.j2).
_NO_TOKEN = "dkdbg-token"  # noqa: S105


@dataclass(frozen=True, kw_only=True)
class Filled:
    """A folder to copy into a volume that replaces a mount.

    Attributes:
        local: relative to the repository's root, `.` for the root itself.
        remote: absolute, in the container.
        volume: the volume's name on the engine.
    """

    local: str
    remote: str
    volume: str


@dataclass(frozen=True, kw_only=True)
class RemoteProject:
    """The project that compose receives instead of the local files.

    Attributes:
        model: in the format of `docker compose config`.
        filled: the folders to copy before the program starts.
        agent: volume for the agent; empty if it is copied into the container.
    """

    model: dict[str, Any]
    filled: tuple[Filled, ...]
    agent: str = ""


def remote_project(
    model: Mapping[str, Any], service: str, port: int, *, root: str, owner: str, run: str = ""
) -> RemoteProject:
    """Convert a project: folders in volumes, the agent in the container's layer, the debug port unpublished.

    The port is reached through `docker exec`: on the engine's machine, all users share the loopback interface.

    Args:
        model: the project as `docker compose config --format json` merges it.
        root: the repository's local root, absolute and resolved.
        owner: user, machine and folder of the start, for the label FROM.
        run: name of one run, which gets its own volumes, including one for the agent: compose starts the container at
            once, before anything can be copied into it. The caller creates and removes the volumes.

    Raises:
        DkdbgError: the project has no such service, or mounts something else of this machine, which the remote engine
            would replace with an empty folder.
    """
    made = copy.deepcopy(dict(model))
    services = made.get("services", {})
    if service not in services:  # compose reports it only for local files
        raise DkdbgError(
            f"the project has no service {printable(service)}; the debug files may be older than dkdbg.toml or your compose file",
            hint="dkdbg init rewrites them",
        )
    debug = services[service]
    local_root = PurePosixPath(root)
    mappings = str((debug.get("environment") or {}).get(ENV_MAPPINGS, "")).replace("$$", "$")
    planned = [PurePosixPath(remote) for _, remote in mapping.pairs_of(mappings)]
    filled: list[Filled] = []
    absent: list[str] = []
    for name in started(made, service):
        kept = []
        for mount in services[name].get("volumes") or ():
            source = PurePosixPath(str(mount.get("source", "")))
            if mount.get("type") != "bind":
                kept.append(mount)
            elif name == service and (mount.get("target") == AGENT_FOLDER or source == local_root / ".dkdbg"):
                continue  # the copy of the workspace contains an agent that is not run
            elif source != local_root and local_root not in source.parents:
                # An absolute path of the engine's machine; if it is missing, fail instead of creating a folder.
                bind = {**(mount.get("bind") or {}), "create_host_path": False}
                kept.append({**mount, "bind": bind})
            elif name == service and any(
                PurePosixPath(mount["target"]) in (remote, *remote.parents) for remote in planned
            ):
                key = f"dkdbg-workspace{f'-{len(filled) + 1}' if filled else ''}"
                volume = (
                    f"{made.get('name', '')}_{key}-{run or hashlib.sha256(owner.encode()).hexdigest()[:8]}"
                )
                made.setdefault("volumes", {})[key] = {"name": volume, **({"external": True} if run else {})}
                kept.append(
                    {"type": "volume", "source": key, "target": mount["target"], "volume": {"nocopy": True}}
                )
                filled.append(
                    Filled(
                        local=source.relative_to(local_root).as_posix(), remote=mount["target"], volume=volume
                    )
                )
            else:
                absent.append(f"{name} mounts ./{source.relative_to(local_root)} at {mount['target']}")
        services[name]["volumes"] = kept
        absent += _files_of(made, name)
    if absent:
        raise DkdbgError(
            "the Docker engine is on another machine, which lacks these local files that are mounted: "
            + printable("; ".join(absent)),
            hint="copy them into the image, or put them on that machine and mount them by absolute path, "
            "in an override file",
            exit_code=EXIT_CONFLICT,
        )
    agent = f"{made.get('name', '')}_dkdbg-agent-{run}" if run else ""
    if agent:
        made.setdefault("volumes", {})["dkdbg-agent"] = {"name": agent, "external": True}
        debug["volumes"].append(
            {"type": "volume", "source": "dkdbg-agent", "target": AGENT_FOLDER, "read_only": True}
        )
    debug["ports"] = [each for each in debug.get("ports") or () if each.get("target") != port]
    for name in started(made, service):
        services[name]["labels"] = {**(services[name].get("labels") or {}), FROM: owner.replace("$", "$$")}
    return RemoteProject(model=made, filled=tuple(filled), agent=agent)


def _files_of(model: dict[str, Any], name: str) -> list[str]:
    """Describe the local files among a service's secrets and configs; drop the unused token's."""
    absent = []
    service = model["services"][name]
    for kind in ("secrets", "configs"):
        kept = []
        for each in service.get(kind) or ():
            file = str(model.get(kind, {}).get(each.get("source"), {}).get("file", ""))
            if file and each.get("source") == _NO_TOKEN:
                continue
            if file:
                absent.append(f"{name} gets {file} as one of its {kind}")
            kept.append(each)
        if kept or kind in service:
            service[kind] = kept
    return absent
