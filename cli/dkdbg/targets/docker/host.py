"""Detect the selected engine and its capabilities."""

from __future__ import annotations

import contextlib
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dkdbg import process
from dkdbg.errors import DkdbgError
from dkdbg.repository import dotenv
from dkdbg.targets.docker import client, podman
from dkdbg.targets.docker.engine_errors import check, explain

if TYPE_CHECKING:
    from collections.abc import Callable

    from dkdbg.core.plan import DebugService, GpuKind


@dataclass(frozen=True, kw_only=True)
class HostFacts:
    """The selected engine and its capabilities.

    Attributes:
        version: version of the engine, such as `26.1.5`.
        gpu: how a container gets a GPU.
        gpu_source: evidence for `gpu`.
        is_podman: whether it is Podman, behind its Docker API.
        has_selinux: whether SELinux separates its containers from the machine's files.
        gpus: number of GPUs; 1 if there are some that cannot be counted.
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
        """Return the engine's name and version, for messages."""
        return f"Podman {self.version}" if self.is_podman else f"engine {self.version}"


def host_facts() -> HostFacts:
    """Read `docker info`, and this machine's device files if the engine runs on this machine.

    Raises:
        DkdbgError: no docker command, no engine, no permission.
    """
    info = engine_info()
    check(process.run(["docker", "compose", "version", "--short"]))
    is_local = client.endpoint().is_local
    gpu, source = gpu_of(info, is_local=is_local)
    return HostFacts(
        version=str(info.get("ServerVersion", "?")), gpu=gpu, gpu_source=source,
        is_podman=is_podman(),
        has_selinux=podman.has_selinux(info),
        gpus=count_gpus(gpu, is_local=is_local),
        cores=info["NCPU"] if isinstance(info.get("NCPU"), int) and info["NCPU"] > 0 else 1,
    )  # fmt: skip


def engine_info() -> dict[str, Any]:
    """Return the answer of `docker info`. Raises DkdbgError: no docker command, no engine, no permission."""
    result = process.run(["docker", "info", "--format", "{{json .}}"])
    info = _json(result.stdout)
    info = info if isinstance(info, dict) else {}
    if result.code or info.get("ServerErrors"):
        raise explain(result.code or 1, result.stderr + "\n" + "\n".join(info.get("ServerErrors") or ()))
    return info


def is_podman() -> bool:
    """Return whether the engine is Podman, behind its Docker API."""
    asked = process.run(["docker", "version", "--format", "{{json .Server.Components}}"])
    return not asked.code and podman.is_podman(_json(asked.stdout))


def _json(text: str) -> Any:  # noqa: ANN401 - JSON
    try:
        return json.loads(text)
    except ValueError:
        return None


def gpu_of(info: dict[str, Any], *, is_local: bool) -> tuple[GpuKind, str]:
    """Return how containers of an engine get a GPU, and why.

    Args:
        info: from `engine_info`.
        is_local: whether the engine runs on this machine.
    """
    return choose_gpu(
        info, has_kfd=has_kfd(is_local=is_local), cdi_vendors=cdi_vendors(info, is_local=is_local)
    )


def choose_gpu(info: dict[str, object], *, has_kfd: bool, cdi_vendors: frozenset[str]) -> tuple[GpuKind, str]:
    """Return how containers get a GPU, and why: nvidia runtime, CDI (Container Device Interface) or AMD."""
    runtimes = info.get("Runtimes")
    if isinstance(runtimes, dict) and "nvidia" in runtimes:
        return "nvidia", "the engine has the nvidia runtime"
    if "nvidia.com/gpu" in cdi_vendors:
        return "cdi", "the engine reads a CDI specification of nvidia.com/gpu"
    if has_kfd:
        return "amd", "/dev/kfd exists"
    return "none", "no nvidia runtime, no CDI specification and no /dev/kfd"


def has_kfd(*, is_local: bool) -> bool:
    """Return whether /dev/kfd, AMD's device file, exists; False for a remote engine."""
    return is_local and Path("/dev/kfd").exists()


def count_gpus(kind: GpuKind, *, is_local: bool) -> int:
    """Return the number of GPUs; 1 if they cannot be counted, as on another machine."""
    if kind == "none":
        return 0
    found = 0
    if is_local and kind == "amd":
        found = len(list(Path("/dev/dri").glob("renderD*")))
    elif is_local:
        try:
            listed = process.run(["nvidia-smi", "--list-gpus"], timeout=20)
            found = len(re.findall(r"^GPU \d+:", listed.stdout, re.MULTILINE)) if listed.code == 0 else 0
        except (DkdbgError, OSError):
            found = 0
    return found or 1


def cdi_vendors(info: dict[str, object], *, is_local: bool) -> frozenset[str]:
    """Return the CDI kinds that the engine knows: its own list (28.2 and newer), or the specifications in its folders.

    Args:
        info: from `docker info`; an engine without CDI lists no folders.
        is_local: the engine runs on this machine, which then has the folders.
    """
    listed, folders = info.get("DiscoveredDevices"), info.get("CDISpecDirs")
    found = {
        str(each.get("ID", "")).partition("=")[0] for each in (listed if isinstance(listed, list) else ())
    }
    for folder in folders if is_local and isinstance(folders, list) else ():
        for spec in Path(str(folder)).glob("*.*"):
            with contextlib.suppress(OSError):  # another user's file
                text = spec.read_text("utf-8", errors="replace") if spec.is_file() else ""
                found.update(kind for kind in ("nvidia.com/gpu", "amd.com/gpu") if kind in text)
    return frozenset(found)


ENV_PROCESSES = "DKDBG_PROCESSES"


def choose_processes(
    root: Path, service: DebugService, gpu: GpuKind, host: HostFacts, *, report: Callable[[str], None]
) -> dict[str, str]:
    """Return DKDBG_PROCESSES as an environment; empty if the user sets it, or the repository documents no number.

    Each rank gets its own GPU (NCCL rejects two ranks on one). Without GPUs each rank gets a core, unless the program
    needs a GPU.
    """
    if not service.processes or dotenv.read(root, ENV_PROCESSES):
        return {}
    if gpu != "none":
        can, of_what = host.gpus, f"{host.gpus} GPU{'s' * (host.gpus != 1)}"
    elif service.needs_gpu:
        can, of_what = 1, "no GPU"
    else:
        can, of_what = host.cores, f"no GPU and {host.cores} core{'s' * (host.cores != 1)}"
    count = max(1, min(service.processes, can))
    why = (
        "as documented"
        if count == service.processes
        else f"the documentation has {service.processes}, and this machine has {of_what}"
    )
    report(f"{count} process{'es' * (count != 1)} ({why}); {ENV_PROCESSES} sets the number")
    return {ENV_PROCESSES: str(count)}
