"""Detect the selected engine and its capabilities."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dkdbg import process
from dkdbg.targets.docker import client, podman
from dkdbg.targets.docker.engine_errors import explain
from dkdbg.targets.docker.gpu import cdi_vendors, choose_gpu, count_gpus, has_kfd

if TYPE_CHECKING:
    from dkdbg.core.plan import GpuKind


@dataclass(frozen=True, kw_only=True)
class HostFacts:
    """The selected engine and its capabilities.

    Attributes:
        version: version of the engine, such as `26.1.5`.
        gpu: how a container gets a GPU there.
        gpu_source: where that was detected.
        is_podman: whether it is Podman, behind its Docker API.
        has_selinux: whether SELinux separates its containers from the machine's files.
        gpus: number of GPUs, 0 without one; 1 if they cannot be counted.
        cores: number of cores that containers can use.
    """

    version: str
    gpu: GpuKind
    gpu_source: str
    is_podman: bool = False
    has_selinux: bool = False
    gpus: int = 0
    cores: int = 1

    @property
    def called(self) -> str:
        """Return its name and version, for messages."""
        return f"Podman {self.version}" if self.is_podman else f"engine {self.version}"


def host_facts() -> HostFacts:
    """Read `docker info`, and this machine's device files if the engine runs here.

    Raises:
        DkdbgError: no docker command, no engine, no permission.
    """
    result = process.run(["docker", "info", "--format", "{{json .}}"])
    try:
        info = json.loads(result.stdout)
    except ValueError:
        info = {}
    if result.code or info.get("ServerErrors"):
        raise explain(result.code or 1, result.stderr + "\n" + "\n".join(info.get("ServerErrors") or ()))
    compose = process.run(["docker", "compose", "version", "--short"])
    if compose.code:
        raise explain(compose.code, compose.stderr)
    is_local = client.endpoint().is_local
    gpu, source = choose_gpu(
        info, has_kfd=has_kfd(is_local=is_local), cdi_vendors=cdi_vendors(info, is_local=is_local)
    )
    asked = process.run(["docker", "version", "--format", "{{json .Server.Components}}"])
    return HostFacts(
        version=str(info.get("ServerVersion", "?")), gpu=gpu, gpu_source=source,
        is_podman=podman.is_podman(json.loads(asked.stdout)) if not asked.code else False,
        has_selinux=podman.has_selinux(info),
        gpus=count_gpus(gpu, is_local=is_local),
        cores=info["NCPU"] if isinstance(info.get("NCPU"), int) and info["NCPU"] > 0 else 1,
    )  # fmt: skip
