"""The only module that speaks to Docker: through its CLI, so that contexts, rootless and remote engines work."""

from __future__ import annotations

import json
import os
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dkdbg import process
from dkdbg.errors import EXIT_CONFLICT, DkdbgError
from dkdbg.targets.compose import ComposeService, explain
from dkdbg.targets.container import Listed
from dkdbg.targets.sessions import LABEL, container_of, of_record

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Sequence

    from dkdbg.model.plan import GpuKind
    from dkdbg.targets.sessions import LabelledContainer, SeenSession

    #: Takes one line of progress.
    Report = Callable[[str], None]
    #: A process whose lines are read.
    Watch = subprocess.Popen[str]


#: Where a debug service mounts `.dkdbg/` (compose/service.yaml.j2).
AGENT_PATH = "/opt/dkdbg"
#: Where a debug service finds the token of its port, if it asks for one.
TOKEN_PATH = "/run/secrets/dkdbg-token"  # noqa: S105


@dataclass(frozen=True, kw_only=True)
class HostFacts:
    """What this machine's engine can do.

    Attributes:
        version: of the engine, such as `26.1.5`.
        gpu: the way in which a container gets a GPU here.
        gpu_source: where that was seen.
    """

    version: str
    gpu: GpuKind
    gpu_source: str


def host_facts() -> HostFacts:
    """What `docker info` and this machine's device files say.

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
    gpu, source = choose_gpu(info, has_kfd=Path("/dev/kfd").exists(), cdi_vendors=_cdi_vendors(info))
    return HostFacts(version=str(info.get("ServerVersion", "?")), gpu=gpu, gpu_source=source)


def choose_gpu(info: dict[str, object], *, has_kfd: bool, cdi_vendors: frozenset[str]) -> tuple[GpuKind, str]:
    """How containers get a GPU, by observation: runtime, then CDI, then AMD's device file (decision 5 of the design)."""
    runtimes = info.get("Runtimes")
    if isinstance(runtimes, dict) and "nvidia" in runtimes:
        return "nvidia", "the engine has the nvidia runtime"
    if "nvidia.com/gpu" in cdi_vendors:
        return "cdi", "the engine reads a CDI specification of nvidia.com/gpu"
    if has_kfd:
        return "amd", "/dev/kfd exists"
    return "none", "no nvidia runtime, no CDI specification and no /dev/kfd"


def _cdi_vendors(info: dict[str, object]) -> frozenset[str]:
    """CDI kinds in the directories that the engine reads; an engine without CDI lists none."""
    folders = info.get("CDISpecDirs")
    found: set[str] = set()
    for folder in folders if isinstance(folders, list) else ():
        for spec in Path(str(folder)).glob("*.*"):
            text = spec.read_text("utf-8", errors="replace") if spec.is_file() else ""
            found.update(kind for kind in ("nvidia.com/gpu", "amd.com/gpu") if kind in text)
    return frozenset(found)


def compose_environment(*, port: int, gpu: GpuKind) -> dict[str, str]:
    """Our environment with what this machine decides about the compose files' variables."""
    return {**os.environ, "DKDBG_PORT": str(port), "DKDBG_GPU": gpu}


def free_port(preferred: int, *, ours: int | None, tries: int = 50) -> int:
    """The first port from `preferred` on that can be bound on 127.0.0.1; one that our own service holds counts as free.

    Raises:
        DkdbgError: none of `tries` ports is free.
    """
    for port in range(preferred, min(preferred + tries, 65536)):
        if port == ours or _can_bind(port):
            return port
    raise DkdbgError(
        f"no free port on 127.0.0.1 from {preferred} to {preferred + tries - 1}",
        hint="name another with [debug] port in dkdbg.toml",
        exit_code=EXIT_CONFLICT,
    )


def _can_bind(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As docker-proxy binds: a port in TIME_WAIT is free, a listening one is not.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


@dataclass(frozen=True, kw_only=True)
class Running:
    """One container of the debug service; `port` is the published one on 127.0.0.1, None when nothing is published."""

    id: str
    name: str
    state: str
    health: str
    port: int | None


def running(target: ComposeService, root: Path, container_port: int) -> Running | None:
    """The service's container, None when there is none or compose cannot say."""
    result = process.run(target.ps(), cwd=root)
    rows = [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]
    if result.code or not rows:
        return None
    row = rows[0]
    published = [
        p["PublishedPort"] for p in row.get("Publishers") or () if p.get("TargetPort") == container_port
    ]
    return Running(
        id=row["ID"], name=row["Name"], state=row["State"], health=row.get("Health", ""),
        port=next((port for port in published if port), None),
    )  # fmt: skip


def take_away_other_token(target: ComposeService, root: Path, token: str) -> bool:
    """Remove the service when it runs with another token than `token`: compose does not look into a secret's value.

    Raises:
        DkdbgError: it runs and cannot be removed.
    """
    held = process.run(target.wrap(("cat", TOKEN_PATH)), cwd=root)
    if held.code or held.stdout.strip() == token:
        return False
    removed = process.run(target.down(), cwd=root, timeout=120.0)
    if removed.code:
        raise explain(removed.code, removed.stderr)
    return True


def check_project(target: ComposeService, root: Path, *, env: dict[str, str]) -> dict[str, object]:
    """Return the project as compose merges it (`docker compose config`).

    Raises:
        DkdbgError: with compose's reason, when compose does not accept the project's files.
    """
    result = process.run(target.config(), cwd=root, env=env)
    if result.code:
        raise explain(result.code, result.stderr)
    model: dict[str, object] = json.loads(result.stdout)
    return model


def up(
    target: ComposeService, root: Path, *, env: dict[str, str], report: Report, wait_timeout: int = 300
) -> None:
    """Build and start the service and return when an attach will work.

    Raises:
        DkdbgError: whatever hindered it, with the program's last lines reported before.
    """
    result = process.stream(
        target.up(build=True, wait_timeout=wait_timeout), cwd=root, env=env, report=report
    )
    if result.code:
        tail = process.run(target.logs(15), cwd=root, env=env).stdout.strip()
        if tail:
            report("last lines of the program:\n" + "\n".join(f"  | {line}" for line in tail.splitlines()))
        raise explain(result.code, result.stdout)


def device_requests(container: str) -> list[dict[str, object]]:
    """What the engine really granted: `HostConfig.DeviceRequests` (some composes drop a GPU request silently)."""
    import docker

    client = docker.from_env()
    try:
        host_config = client.api.inspect_container(container)["HostConfig"]
    finally:
        client.close()
    return list(host_config.get("DeviceRequests") or ())


def labelled_containers() -> tuple[LabelledContainer, ...]:
    """The containers of debug services, of all projects, ended ones included.

    Raises:
        DkdbgError: no docker command, no engine, no permission.
    """
    listed = process.run(
        ["docker", "ps", "--all", "--quiet", "--no-trunc", "--filter", f"label={LABEL}"], timeout=20.0
    )
    if listed.code:
        raise explain(listed.code, listed.stderr)
    ids = listed.stdout.split()
    if not ids:
        return ()
    inspected = process.run(["docker", "inspect", "--type", "container", *ids], timeout=20.0)
    try:  # a container that went away meanwhile makes inspect fail, and the others are still listed
        return tuple(container_of(each) for each in json.loads(inspected.stdout))
    except ValueError:
        raise explain(inspected.code or 1, inspected.stderr) from None


def watch_containers() -> Watch:
    """A process that prints a line whenever a container of a debug service starts or ends; the caller ends it.

    Raises:
        DkdbgError: there is no docker command.
    """
    actions = ("--filter", "event=start", "--filter", "event=die", "--filter", "event=destroy")
    return process.start(
        ["docker", "events", "--filter", "type=container", "--filter", f"label={LABEL}", *actions, "--format", "{{.Action}}"],
        stdout=process.PIPE, stderr=process.DISCARD, new_session=True,
    )  # fmt: skip


def sessions_in(container: LabelledContainer) -> list[SeenSession]:
    """What the agent in a running container says; nothing when it does not answer."""
    result = process.run(agent_command(container.id, ["sessions", "--json"], tty=None), timeout=20.0)
    try:
        found = json.loads(result.stdout)
    except ValueError:
        return []
    return [of_record(record, live=bool(record.get("live")), container=container) for record in found]


def agent_command(container: str, words: Sequence[str], *, tty: bool | None) -> tuple[str, ...]:
    """The command line that runs the agent in a container, with our terminal, our stdin, or (None) neither."""
    flags = () if tty is None else ("-it",) if tty else ("-i",)
    return ("docker", "exec", *flags, container, "sh", f"{AGENT_PATH}/agent.sh", *words)


def running_containers(root: Path) -> tuple[Listed, ...]:
    """The running containers of the compose project whose folder is `root`, one-off ones left out.

    Raises:
        DkdbgError: no docker command, no engine, no permission.
    """
    filters = (
        "--filter",
        "label=com.docker.compose.project.working_dir",
        "--filter",
        "label=com.docker.compose.oneoff=False",
    )
    result = process.run(
        ["docker", "ps", "--no-trunc", *filters, "--format", Listed.template()], timeout=20.0
    )
    if result.code:
        raise explain(result.code, result.stderr)
    found = [Listed.parse(line) for line in result.stdout.splitlines()]
    return tuple(each for each in found if os.path.realpath(each.project_dir) == os.path.realpath(root))


def inspect(container: str) -> dict[str, Any]:
    """What `docker inspect` says of a container.

    Raises:
        DkdbgError: there is none of that name, or no engine.
    """
    result = process.run(["docker", "container", "inspect", container], timeout=20.0)
    if result.code and "no such container" in result.stderr.lower():
        raise DkdbgError(f"there is no container {container}", hint="docker ps")
    if result.code:
        raise explain(result.code, result.stderr)
    found: dict[str, Any] = json.loads(result.stdout)[0]
    return found


def has_image(name: str) -> bool:
    """Whether the engine has `name` locally."""
    return process.run(["docker", "image", "inspect", "--format", "{{.Id}}", name]).code == 0
