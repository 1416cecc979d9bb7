"""Copy our files to an engine of another machine for one run, into volumes that are removed after it."""

from __future__ import annotations

import json
import secrets
from typing import TYPE_CHECKING, Any

from dkdbg.targets.docker.compose import ComposeService
from dkdbg.targets.docker.remote_project import AGENT_FOLDER, remote_project
from dkdbg.targets.docker.remote_up import check_engine, check_ours, copy_agent, filling, owner

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from dkdbg.core.plan import DebugService
    from dkdbg.core.target import Reach
    from dkdbg.targets.docker.remote_project import Filled


class RemoteCopies:
    """The copies for one run.

    Args:
        root: the compose project's folder, resolved.
        fill: copies a local folder into a given container. Raises DkdbgError.

    Attributes:
        volumes: names of the volumes, once they may exist.
    """

    def __init__(self, root: Path, service: DebugService, fill: Callable[[Reach, Filled], None]) -> None:
        self._root, self._service, self._fill = root, service, fill
        self.volumes: tuple[str, ...] = ()

    def check(self, project: str) -> None:
        """Raise DkdbgError if the engine is Podman, or has a project of this name that was started elsewhere."""
        check_engine()
        check_ours(project, self._root)

    def make(self, model: Mapping[str, Any]) -> ComposeService:
        """Return the service with the copies in place of its mounts.

        Args:
            model: the project as `docker compose config --format json` merges it; the service's image exists.

        Raises:
            DkdbgError: something of this machine that cannot be copied is mounted; the engine fails.
        """
        service = self._service
        remote = remote_project(
            model, service.name, service.port, root=str(self._root), owner=owner(self._root), run=secrets.token_hex(6)
        )  # fmt: skip
        there = {AGENT_FOLDER: remote.agent, **{each.remote: each.volume for each in remote.filled}}
        self.volumes = tuple(there.values())
        options = [word for path, name in there.items() for word in ("--volume", f"{name}:{path}:nocopy")]
        image = str(model["services"][service.name].get("image") or f"{model.get('name')}-{service.name}")
        with filling(image, options) as reach:
            copy_agent(self._root, reach.name)
            for each in remote.filled:
                self._fill(reach, each)
        return ComposeService(service=service.name, model=json.dumps(remote.model), folder=str(self._root))
