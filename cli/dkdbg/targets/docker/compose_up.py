"""Start a debug service: choose its GPU and port, check who can reach it, and verify that it got the GPU."""

from __future__ import annotations

import json
import shlex
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from dkdbg import process
from dkdbg.agent.contract import LOOPBACK
from dkdbg.agent.dap.messages import as_dict, as_list
from dkdbg.core.plan import GPU_KINDS, mount_points
from dkdbg.core.target_values import Started
from dkdbg.errors import EXIT_CONFLICT, EXIT_USAGE, DkdbgError
from dkdbg.repository import dotenv
from dkdbg.targets.docker import compose_cli, containers, podman
from dkdbg.targets.docker.compose import (
    ComposeService,
    asks_for_token,
    callers,
    joined,
    open_addresses,
    replaced_volumes,
    runs_nothing,
    stands_for,
)
from dkdbg.targets.docker.container import has_network
from dkdbg.targets.docker.engine_errors import check, with_port
from dkdbg.targets.docker.host import choose_processes, host_facts
from dkdbg.targets.docker.image_build import ImageBuild
from dkdbg.targets.docker.podman import unlabelled
from dkdbg.targets.docker.ports import on_free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dkdbg.core.plan import DebugService, GpuKind
    from dkdbg.core.target_values import Start
    from dkdbg.targets.docker.container import Container
    from dkdbg.targets.docker.host import HostFacts


def start(
    root: Path, wanted: Start, *, report: Callable[[str], None], moved: Callable[[int], None]
) -> Started:
    """Start a service of the compose project in `root`; see `Target.up`."""
    service = wanted.service
    host = host_facts()
    gpu, why = choose_gpu(root, service, host)
    report(f"{host.called}; GPU: {gpu} ({why})")
    processes = choose_processes(root, service, gpu, host, report=report)
    token = wanted.token()
    target = ComposeService(service=service.name)
    model = compose_cli.check_project(
        target, root, env={**compose_cli.environment(port=service.port, gpu=gpu, token=token), **processes}
    )
    check_published(model, service, token)
    check_name(str(model.get("name", "")), root)
    before = containers.of_service(target, root)
    own_port = before.outside_port if before else None
    if token and compose_cli.remove_with_other_token(target, root, token):
        report(f"{service.name} ran with another token; it is being restarted")

    image = ImageBuild(root, service, target)
    build = image.is_needed

    def up(port: int) -> None:
        if port != wanted.port:
            moved(port)
        env = {**compose_cli.environment(port=port, gpu=gpu, token=token), **processes}
        if host.is_podman:
            up_podman(env)
            return
        if build and (service.masks or service.image_files):
            image.build(lambda: compose_cli.run(target, target.build(), root, env=env, report=report))
        _before_start(image, model, service, root, report)
        try:
            compose_cli.up(
                target,
                target.up(build=build and not service.image_files, wait_timeout=wanted.wait),
                root,
                env=env,
                report=report,
            )
        except DkdbgError as error:
            # Compose may report an exited program only as unhealthy.
            started = containers.of_service(target, root) if "is unhealthy" in str(error) else None
            raise (
                ended() if started and has_failed(started) else with_port(error, model, service.name)
            ) from None
        if build:
            image.done()

    def up_podman(env: dict[str, str]) -> None:
        now = compose_cli.check_project(target, root, env=env)
        if host.has_selinux:
            now = unlabelled(now, service.name)
        if build:
            image.build(lambda: podman.build(now, service.name, root, env=env, report=report))
        _before_start(image, model, service, root, report)
        podman.up(
            ComposeService(service=service.name, model=json.dumps(now), folder=str(root)),
            root, env=env, report=report, wait_timeout=wanted.wait,
        )  # fmt: skip
        if build:
            image.done()

    port = on_free_port(wanted.port, own_port=own_port, start=up)
    image.exclude_links()
    running = containers.of_service(target, root)
    check_started(
        running, target, root, env=compose_cli.environment(port=port, gpu=gpu, token=token), report=report
    )
    is_reached = running is None or has_network(running)  # not with `network_mode: none`
    return Started(
        port=((running and running.outside_port) or port) if is_reached else None, gpu=gpu, token=bool(token),
        name=running.name if running else None, ports=_programs_ports(running, service.port) if running else (),
        idle=runs_nothing(model, service.name),
    )  # fmt: skip


def _before_start(
    image: ImageBuild,
    model: Mapping[str, object],
    service: DebugService,
    root: Path,
    report: Callable[[str], None],
) -> None:
    """Remove and stop what a start must not find, and create what it needs; call it after the image is built."""
    make_mount_points(model, service)
    image.remove_stale()
    image.copy_files(str(model.get("name", "")), report)
    for name, remote in replaced_volumes(model, service.name):
        report(f"your volume {name} at {remote} is replaced by the checkout")
    stop_replaced(model, service, root, report=report)


def make_mount_points(model: Mapping[str, object], service: DebugService) -> None:
    """Create the mount points of the image's folders in the checkout: the engine would create them as root."""
    mounts = as_list(as_dict(as_dict(model.get("services")).get(service.name)).get("volumes"))
    binds = [
        (str(each["source"]), str(each["target"]))
        for each in map(as_dict, mounts)
        if each.get("type") == "bind"
    ]
    for local, below in mount_points(service.masks, binds):
        with suppress(OSError):
            folder, root = Path(local, below), Path(local).resolve()
            if folder.parent.resolve().is_relative_to(
                root
            ):  # a link in a hostile repository may lead elsewhere
                folder.mkdir(parents=True, exist_ok=True)


def _programs_ports(running: Container, debug_port: int) -> tuple[tuple[int, str], ...]:
    """Return the program's own published ports: the port inside, and an address that a local browser can open."""
    found = []
    for inside, outside in sorted(running.published.items()):
        host, _, port = outside.rpartition(":")
        host = LOOPBACK if host in {"0.0.0.0", "::"} else f"[{host}]" if ":" in host else host  # noqa: S104
        if inside != debug_port:
            found.append((inside, f"{host}:{port}"))
    return tuple(found)


def stop_replaced(
    model: Mapping[str, object], service: DebugService, root: Path, *, report: Callable[[str], None]
) -> None:
    """Stop the service that the debug service replaces, and report how to start its dependents.

    Raises:
        DkdbgError: it cannot be stopped.
    """
    name = stands_for(model, service.name)
    original = ComposeService(service=name)
    if not name:
        return
    running = process.run(original.running(), cwd=root)
    if not running.code and running.stdout.strip():
        check(process.run(original.stop(), cwd=root, timeout=None))
        report(
            f"{name} is stopped while {service.name} answers in its place; to start it again: docker compose start {name}"
        )
    found = {each: joined(model, each, name) for each in callers(model, name) if each != service.name}
    for each, settings in found.items():
        if settings:
            used = " and ".join(settings)
            report(
                f"{each} does not reach {service.name}: it joins the container of {name} ({used}). While you debug, write"
                f" {used.replace(f'service:{name}', f'service:{service.name}')} there: docker compose --profile debug up --no-deps {shlex.quote(each)}"
            )
    others = [each for each, settings in found.items() if not settings]
    if others:
        shown = " ".join(map(shlex.quote, others))
        report(
            f"compose starts {name} beside {service.name} for {', '.join(others)}; without it: "
            f"docker compose up --no-deps {shown}"
        )


def check_started(
    running: Container | None,
    target: ComposeService,
    root: Path,
    *,
    env: dict[str, str],
    report: Callable[[str], None],
) -> None:
    """Raise DkdbgError if the service did not get the GPU it requested, or its program has already failed."""
    if running and env["DKDBG_GPU"] in {"nvidia", "cdi"} and not running.devices:
        raise DkdbgError(
            f"{target.service} runs without a GPU: this docker compose ignored its GPU request",
            hint="docker compose version must be 2.24.4 or newer; dkdbg down removes the service",
        )
    if running and has_failed(running):
        compose_cli.report_last_lines(target, root, env=env, report=report)
        raise ended()


def ended() -> DkdbgError:
    """Return the error for a program that has exited."""
    return DkdbgError(
        "the program ended before an editor could attach",
        hint="its last lines are above; dkdbg verify names the cause",
    )


def has_failed(found: Container) -> bool:
    """Return whether the program has failed since compose saw it healthy; compose does not check it again.

    The agent of a failed program stays for a while, for an editor that still connects.
    """
    if not found.running:
        return found.code != 0
    seen = containers.sessions_in(found)
    if not seen:  # no answer, or the container ended meanwhile
        now = containers.of_name(found.id)
        return now is None or not now.running
    return all(each.is_ended for each in seen)


def check_name(project: str, root: Path) -> None:
    """Raise DkdbgError if another folder has a compose project of this name: a start would replace its containers."""
    other = containers.other_folder(project, root)
    if other:
        raise DkdbgError(
            f"{other} has a compose project called {project} too; compose would mix up their containers",
            hint=f"give this one another name: printf '\\nCOMPOSE_PROJECT_NAME={project}-2\\n' >> .env",
            exit_code=EXIT_CONFLICT,
        )


def check_published(model: Mapping[str, object], service: DebugService, token: str) -> None:
    """Raise DkdbgError if other machines could reach the port without a token, or a required token is not passed on."""
    if token and not asks_for_token(model, service.name):
        raise DkdbgError(
            f"{service.name} is configured to require a token, but {service.compose_file} does not pass DKDBG_TOKEN",
            hint=f"dkdbg init writes it; where init keeps the file because you changed it: rm {shlex.quote(service.compose_file)}, then dkdbg init again",
            exit_code=EXIT_CONFLICT,
        )
    found = open_addresses(model, service.name, service.port)
    if found and not token:
        raise DkdbgError(
            f"{service.name} publishes its debug port on {', '.join(found)}, where other machines reach it, and requires no token:"
            " anyone who connects could run code as you",
            hint=f'publish it on 127.0.0.1 in {service.compose_file}, or set token = "env" under [debug] in dkdbg.toml, '
            "then dkdbg init and dkdbg up",
            exit_code=EXIT_CONFLICT,
        )


def choose_gpu(root: Path, service: DebugService, host: HostFacts) -> tuple[GpuKind, str]:
    """Return how the service gets a GPU: by DKDBG_GPU in the environment or in .env, or by this machine's devices.

    Raises:
        DkdbgError: DKDBG_GPU names no variant.
    """
    if not service.gpu:
        return "none", "nothing in the repository requests a GPU"
    text = dotenv.read(root, "DKDBG_GPU")
    for kind in GPU_KINDS:
        if text == kind:
            return kind, "DKDBG_GPU says so"
    if text:
        raise DkdbgError(f"DKDBG_GPU is {text!r}", hint="use none, nvidia, cdi or amd", exit_code=EXIT_USAGE)
    return host.gpu, host.gpu_source
