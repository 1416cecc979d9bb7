"""The facts that checks read: a machine, its engine and a repository."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dkdbg.targets.docker.compose import started

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from dkdbg.core.plan import DebugService
    from dkdbg.errors import DkdbgError


@dataclass(frozen=True, kw_only=True)
class Disk:
    """One file system of a machine.

    Attributes:
        path: folder that was queried, anywhere on the file system.
        total, free: size, and space that this user may still fill, in bytes.
        kind: type of the file system, such as `ext4`; empty if unknown.
    """

    path: str
    total: int
    free: int
    kind: str = ""


@dataclass(frozen=True, kw_only=True)
class Machine:
    """A machine or container, as reported by `probe.SCRIPT`. A value that the script could not read is None or empty.

    Attributes:
        label: name for messages; empty for this machine.
        system, release: name and release of the kernel, such as `Linux` and `6.8.0`.
        skew: seconds by which its clock is ahead of this machine's, allowing for the query's duration.
        uid, user: number and name of the user that runs the script.
        owner: uid of the working directory's owner.
        is_writable: whether the user may create files in the working directory.
        folder: the working directory.
        umask: file mode creation mask, as a number.
        files: maximum open files of a process.
        pythons: (name, version) of each Python on PATH, up to the first one that can run the agent.
        programs: the programs of `probe.PROGRAMS` that are installed.
        disks: file systems of the working directory, the home directory and the folder for temporary files.
        shm: file system of /dev/shm.
        limits: inotify limits by their `sysctl` name.
        watchers: number of inotify instances that the user's processes have open.
        ptrace_scope: kernel.yama.ptrace_scope.
        has_nvidia: whether an NVIDIA GPU is on the PCI bus.
        has_device: whether /dev/nvidia0 exists.
        driver: version of the NVIDIA driver.
        cuda: newest CUDA version that the driver supports.
        smi: error message of nvidia-smi; empty if it works.
        torch: version of torch in the Python that can run the agent.
        torch_cuda: CUDA version that this torch was built for.
        visible: CUDA_VISIBLE_DEVICES; None if it is not set.
    """

    label: str = ""
    system: str = ""
    release: str = ""
    skew: float = 0.0
    uid: int | None = None
    user: str = ""
    owner: int | None = None
    is_writable: bool = True
    folder: str = ""
    umask: int | None = None
    files: int | None = None
    pythons: tuple[tuple[str, str], ...] = ()
    programs: frozenset[str] = frozenset()
    disks: tuple[Disk, ...] = ()
    shm: Disk | None = None
    limits: Mapping[str, int] = field(default_factory=dict)
    watchers: int | None = None
    ptrace_scope: int | None = None
    has_nvidia: bool = False
    has_device: bool = False
    driver: str = ""
    cuda: str = ""
    smi: str = ""
    torch: str = ""
    torch_cuda: str = ""
    visible: str | None = None

    @property
    def has_gpu(self) -> bool:
        """Return whether the machine has an NVIDIA GPU, even one that does not work."""
        return bool(self.driver or self.smi or self.has_nvidia)


@dataclass(frozen=True, kw_only=True)
class Engine:
    """The engine behind the docker command.

    Attributes:
        error: why the engine cannot be used; None if it answers.
        info: output of `docker info`.
        compose, buildx: versions of the plugins; None if missing.
        is_local: whether the engine runs on this machine.
        is_podman: whether it is Podman.
        context: name that `docker context use` chose, empty for the default.
        host, api: DOCKER_HOST and DOCKER_API_VERSION, empty if not set.
        skew: seconds by which its clock is ahead of this machine's.
        gpu: how containers get a GPU: none, nvidia, cdi or amd.
        cdi_driver: version of the NVIDIA driver that the CDI specification was made for; empty if unknown.
        disk: file system of its storage folder; None if it cannot be read.
    """

    error: DkdbgError | None = None
    info: Mapping[str, Any] = field(default_factory=dict)
    compose: str | None = None
    buildx: str | None = None
    is_local: bool = True
    is_podman: bool = False
    context: str = ""
    host: str = ""
    api: str = ""
    skew: float = 0.0
    gpu: str = "none"
    cdi_driver: str = ""
    disk: Disk | None = None

    @property
    def version(self) -> str:
        """Return the engine's version, empty if it does not answer."""
        return str(self.info.get("ServerVersion") or "")


@dataclass(frozen=True, kw_only=True)
class Context:
    """A folder that a build sends to the engine.

    Attributes:
        service: name of the built service in the compose file.
        folder: relative to the repository's root.
        ignore: path of the .dockerignore file that the build uses, relative to the root; the file may be missing.
        size: bytes of the files that the .dockerignore does not exclude.
        largest: the folder's largest entry, and its bytes.
    """

    service: str
    folder: str
    ignore: str
    size: int
    largest: tuple[str, int]


@dataclass(frozen=True, kw_only=True)
class Repository:
    """The repository that dkdbg works in.

    Attributes:
        root: absolute, symlinks resolved; None outside a repository.
        service: the debug service that `init` wrote; None if the repository is not set up.
        model: the merged compose project (`docker compose config`); empty without an engine or compose file.
        errors: errors in dkdbg.toml, the compose file or the token file.
        agent: version of dkdbg that built `.dkdbg/agent.pyz`; None if the file is missing.
        installed: version of the installed dkdbg.
        port: the debug port on 127.0.0.1.
        holder: program that listens on that port; empty for a free port or a session of this repository.
        folders: number of folders that `dkdbg sync` and DKDBG_RELOAD watch.
        contexts: build contexts of the services that start with the debug service.
        images_user: (USER of the final stage, name of the Dockerfile); None for root.
        torch_cuda: (CUDA version of the torch that the repository requires, file that requires it).
        is_git: whether it is a git repository.
    """

    root: Path | None = None
    service: DebugService | None = None
    model: Mapping[str, Any] = field(default_factory=dict)
    errors: tuple[DkdbgError, ...] = ()
    agent: str | None = None
    installed: str = ""
    port: int = 0
    holder: str = ""
    folders: int = 0
    contexts: tuple[Context, ...] = ()
    images_user: tuple[str, str] | None = None
    torch_cuda: tuple[str, str] | None = None
    is_git: bool = False

    def services(self) -> dict[str, dict[str, Any]]:
        """Return the project's services by name."""
        found = self.model.get("services")
        return found if isinstance(found, dict) else {}

    def started(self) -> dict[str, dict[str, Any]]:
        """Return the debug service and the services that it depends on, by name."""
        names = started(self.model, self.service.name) if self.service is not None else ()
        return {name: self.services()[name] for name in names}


@dataclass(frozen=True, kw_only=True)
class Situation:
    """Everything that the checks may read; for a target only the machine.

    Attributes:
        machine: this machine, or a target.
        engine: None for a target.
        repository: empty for a target, or outside a repository.
    """

    machine: Machine
    engine: Engine | None = None
    repository: Repository = field(default_factory=Repository)

    @property
    def is_local(self) -> bool:
        """Return whether the machine is this one."""
        return not self.machine.label
