"""A service of this repository's compose project: `compose://trainer` stands for its debug service, where it has one."""

from __future__ import annotations

import os
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from dkdbg import process
from dkdbg.agent.contract import ENV_TOKEN
from dkdbg.engine import compose, containers
from dkdbg.engine.container_place import ContainerPlace
from dkdbg.engine.host import host_facts
from dkdbg.engine.ports import free_port
from dkdbg.errors import EXIT_CONFLICT, EXIT_USAGE, DkdbgError
from dkdbg.model.plan import GPU_KINDS
from dkdbg.render import dotenv
from dkdbg.render.transaction import read
from dkdbg.targets.address import Address
from dkdbg.targets.compose import ComposeService, open_addresses
from dkdbg.targets.container import choose, not_running, only_debug_service
from dkdbg.targets.engine_errors import explain
from dkdbg.targets.place import Kind, Started

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from dkdbg.engine.host import HostFacts
    from dkdbg.model.plan import DebugService, GpuKind
    from dkdbg.targets.container import Container
    from dkdbg.targets.place import Start

SCHEME = "compose"


class ComposePlace(ContainerPlace):
    """See `targets/place.py`; an empty name is the only debug service that runs.

    Args:
        root: the compose project's folder, resolved.
        seen: as ContainerPlace.
    """

    def __init__(self, address: Address, root: Path, seen: Container | None = None) -> None:
        super().__init__(address, seen)
        self._root = root
        self._project: tuple[Container, ...] = ()

    @property
    def label(self) -> str:
        """The service's name."""
        return self.address.rest or "debug"

    def look(self) -> Container | None:
        """The container of the service, or of its twin."""
        self._project = containers.of_project(self._root)
        return choose(self._project, self.address.rest or only_debug_service(self._project))

    def absent(self) -> DkdbgError:
        """With the services that do run."""
        return not_running(self._project, self.address.rest)

    def called(self, found: Container) -> str:
        """By service and container."""
        return f"{SCHEME}://{found.service} ({found.name})"

    def up(self, wanted: Start, *, report: Callable[[str], None], moved: Callable[[int], None]) -> Started:
        """`docker compose up`, with the GPU and the port that this machine has."""
        service, root = wanted.service, self._root
        host = host_facts()
        gpu, why = choose_gpu(root, service, host)
        report(f"engine {host.version}; GPU: {gpu} ({why})")
        token = wanted.token()
        target = ComposeService(service=service.name)
        model = compose.check_project(target, root, env=environment(port=service.port, gpu=gpu, token=token))
        check_published(model, service, token)
        port = wanted.port
        if not service.host_network:
            running = compose.running(target, root, service.port)
            port = free_port(port, ours=running.port if running else None)
            if port != wanted.port:
                moved(port)
        if token and compose.take_away_other_token(target, root, token):
            report(f"{service.name} ran with another token; it starts anew")
        compose.up(
            target,
            root,
            env=environment(port=port, gpu=gpu, token=token),
            report=report,
            wait_timeout=wanted.wait,
        )
        running = compose.running(target, root, service.port)
        if running and gpu in {"nvidia", "cdi"} and not _has_devices(running.id):
            raise DkdbgError(
                f"{service.name} runs, but this compose dropped its GPU request",
                hint="docker compose version must be 2.24.4 or newer; dkdbg down takes the service away",
            )
        published = running.port if running and running.port else port
        return Started(port=published, gpu=gpu, token=bool(token), name=running.name if running else None)

    def down(self, *, everything: bool) -> str:
        """`docker compose rm` or `down`."""
        target = ComposeService(service=self.address.rest)
        argv = target.down_project() if everything else target.down()
        result = process.run(argv, cwd=self._root, timeout=120.0)
        if result.code:
            raise explain(result.code, result.stderr)
        return "the project is down" if everything else f"{self.address.rest} is down"


def _has_devices(container: str) -> bool:
    found = containers.of_name(container)
    return found is not None and found.devices


def environment(*, port: int, gpu: GpuKind, token: str) -> dict[str, str]:
    """What compose's files are interpolated with; the token is in no file and on no command line."""
    return {**compose.compose_environment(port=port, gpu=gpu), ENV_TOKEN: token}


def check_published(model: Mapping[str, object], service: DebugService, token: str) -> None:
    """Raise DkdbgError when the port will be reachable from other machines and asks for no token."""
    found = open_addresses(model, service.name, service.port)
    if found and not token:
        raise DkdbgError(
            f"{service.name} publishes its debug port on {', '.join(found)}, where other machines reach it, and asks for no token:"
            " whoever connects would run code as you",
            hint=f'publish it on 127.0.0.1 in {service.compose_file}, or set token = "env" under [debug] in dkdbg.toml, '
            "then dkdbg init and dkdbg up",
            exit_code=EXIT_CONFLICT,
        )


def choose_gpu(root: Path, service: DebugService, host: HostFacts) -> tuple[GpuKind, str]:
    """How the service gets a GPU: what DKDBG_GPU says in the environment or in .env, else what this machine has.

    Raises:
        DkdbgError: DKDBG_GPU names no variant.
    """
    if not service.gpu:
        return "none", "nothing in the repository asks for one"
    env = read(root, PurePosixPath(".env"))
    written = dotenv.value_of(env.decode("utf-8", errors="replace"), "DKDBG_GPU") if env else None
    said = os.environ.get("DKDBG_GPU") or written
    for kind in GPU_KINDS:
        if said == kind:
            return kind, "DKDBG_GPU says so"
    if said:
        raise DkdbgError(
            f"DKDBG_GPU is {said!r}", hint="it is one of none, nvidia, cdi, amd", exit_code=EXIT_USAGE
        )
    return host.gpu, host.gpu_source


def _place(address: Address, root: Path) -> ComposePlace:
    if len(address.parts) > 1:
        raise DkdbgError(f"{address} names no service", hint="compose://SERVICE", exit_code=EXIT_USAGE)
    return ComposePlace(address, root)


def _named(name: str, root: Path) -> ComposePlace | None:
    """A service of the project that runs, or has run."""
    found = choose(containers.of_project(root), name)
    return ComposePlace(Address(scheme=SCHEME, rest=name), root, found) if found else None


KIND = Kind(place=_place, named=_named)
