"""Run another command with a debug service's image, mounts and environment, in a container that is removed at its end."""

from __future__ import annotations

import os
import secrets
import shlex
from typing import TYPE_CHECKING, Any

from dkdbg import process
from dkdbg.agent.settings import ENV_STANDS_FOR
from dkdbg.core.plan import PUBLISHED_ON
from dkdbg.core.target_values import Prepared
from dkdbg.errors import EXIT_ENGINE, DkdbgError
from dkdbg.launchers.lines.command_lines import launchers_in
from dkdbg.launchers.words import whole_number
from dkdbg.targets.docker import compose_cli, containers, podman
from dkdbg.targets.docker.compose import ComposeService, runs_nothing, started
from dkdbg.targets.docker.compose_up import check_name, check_published, choose_gpu, make_mount_points
from dkdbg.targets.docker.host import host_facts
from dkdbg.targets.docker.image_build import ImageBuild
from dkdbg.targets.docker.ports import free_port, is_free, unused_port

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from dkdbg.core.target_values import Once
    from dkdbg.targets.docker.remote_up import RemoteCopies

#: Timeout for an engine to deliver a signal.
_ANSWER_TIMEOUT_S = 10.0


def prepare(
    root: Path,
    wanted: Once,
    *,
    report: Callable[[str], None],
    detached: bool = False,
    copies: RemoteCopies | None = None,
) -> Prepared:
    """Prepare `Target.once` for a service of the compose project in `root`, without changing files.

    A running service is left alone. One that idles is stopped if another command is to run, unless `docker exec` has
    started something in it. If one of the service's published ports is in use, only the debug port is published, on a
    free port.

    Args:
        detached: the command line returns once the command is started, and its container stays after its end.
        copies: for an engine of another machine, where no port is published.
    """
    service = wanted.service
    host = host_facts()
    if host.is_podman and host.has_selinux:
        raise DkdbgError(
            "compose cannot run another command in the debug service on Podman with SELinux:"
            " the container's label denies it access to your files",
            hint=f"dkdbg init --command {shlex.quote(shlex.join(wanted.command))}, then dkdbg up",
            exit_code=EXIT_ENGINE,
        )
    gpu, why = choose_gpu(root, service, host)
    token = wanted.token()
    target = ComposeService(service=service.name)
    env = compose_cli.environment(port=wanted.port, gpu=gpu, token=token)
    model = compose_cli.check_project(target, root, env=env)
    check_published(model, service, token)
    check_name(str(model.get("name", "")), root)
    running = containers.of_service(target, root)
    runs = running is not None and running.status == "running"
    if (
        wanted.command
        and running is not None
        and runs
        and runs_nothing(model, service.name)
        and not _is_entered(running.id)
    ):
        report(f"stopping {service.name}, which runs no program: this run needs its port")
        process.run(target.stop(), cwd=root)
        runs = False
    image = ImageBuild(root, service, target)
    if image.is_needed:
        if runs and image.is_shown:
            report(f"{service.name} is running, so its image is not rebuilt; dkdbg up builds it")
        elif host.is_podman:
            image.build(lambda: podman.build(model, service.name, root, env=env, report=report))
        else:
            image.build(lambda: compose_cli.run(target, target.build(), root, env=env, report=report))
    # Only now: a build takes minutes, and another program may take the port meanwhile.
    port = wanted.port
    if detached:  # another repository's trial may start at the same time
        port = unused_port()
    elif not service.host_network:  # on the host's network the port stays, and F5 attaches to the run
        port = free_port(port, own_port=None)
    env = compose_cli.environment(port=port, gpu=gpu, token=token)
    if not runs:  # copying the files of another image would remove the running container
        image.copy_files(str(model.get("name", "")), report)
    if copies is None:
        make_mount_points(model, service)
    else:
        target = copies.make(model)
    described: Mapping[str, Any] = _described(model, service.name)
    name = f"{model.get('name')}-{service.name}-run-{secrets.token_hex(6)}"
    publishes = copies is None and not str(described.get("network_mode")).startswith(
        ("host", "service:", "container:")
    )
    argv = target.once(
        wanted.command,
        entrypoint=_entrypoint(described.get("entrypoint") or ()) if wanted.command else "",
        publish=f"{PUBLISHED_ON}:{port}:{service.port}" if publishes else "",
        all_ports=publishes and all(map(is_free, published_ports(described))),
        variables={
            "DKDBG_WAIT": str(wanted.wait),
            "DKDBG_LINGER": "0",
            ENV_STANDS_FOR: "",  # the run answers only to its own name
            **({"DKDBG_RANKS": wanted.ranks} if wanted.ranks else {}),
            **({"PYTHONDONTWRITEBYTECODE": "1"} if detached else {}),  # `dkdbg verify` changes no file
        },
        tty=wanted.tty,
        name=name,
        stays=host.is_podman or detached,
        detached=detached,
    )
    # `depends_on` may name a service whose profile is off: it is not in the model.
    needs = [each for each in described.get("depends_on") or () if _described(model, each)]
    if not detached or _needs_are_ready(model, service.name, root):
        needs = []
    escaped = (str(word) for key in ("entrypoint", "command") for word in described.get(key) or ())
    whole = [word.replace("$$", "$") for word in escaped]  # `docker compose config` doubles each `$`
    return Prepared(
        argv=argv, environment={**os.environ, **env}, port=port if copies is None else 0, is_met=not host.is_podman,
        tell=lambda number: _tell(name, number), cleaning=("docker", "rm", "--force", "--volumes", name), name=name,
        program=tuple(whole[whole.index("--") + 1 :] if "--" in whole else whole), gpu=(gpu, why), stdin_text=target.model,
        needs=target.up_needs(needs) if needs else (),
    )  # fmt: skip


def _needs_are_ready(model: Mapping[str, Any], service: str, root: Path) -> bool:
    """Return whether the services that `service` depends on are ready."""
    needed = set(started(model, service)) - {service}
    return bool(needed) and needed <= {
        each.service for each in containers.of_project(root) if each.ready and not each.one_off
    }


def _is_entered(container: str) -> bool:
    """Return whether a command that `docker exec` has started runs in a container."""
    asked = process.run(("docker", "top", container, "-o", "pid,ppid,args"), timeout=None)
    lines = asked.stdout.splitlines()[1:]
    rows = [line.split(None, 2) for line in lines]
    inside = {row[0] for row in rows}
    # The parents of the first process, and of processes started by exec, are outside the container.
    begun = [row for row in rows if row[1] not in inside and "agent.pyz health" not in row[-1]]
    return len(begun) > 1


def _tell(name: str, number: int) -> bool:
    """Send a signal to a container with docker; return whether docker delivered it.

    compose would only report "canceled", and leave the container and its port behind.
    """
    return not process.run(["docker", "kill", "--signal", str(number), name], timeout=_ANSWER_TIMEOUT_S).code


def _described(model: Mapping[str, object], name: str) -> Mapping[str, Any]:
    services = model.get("services")
    return (services.get(name) or {}) if isinstance(services, dict) else {}


def published_ports(described: Mapping[str, Any]) -> list[int]:
    """Return the ports of this machine that the service publishes."""
    published = (whole_number(str(each.get("published", "")), 65535) for each in described.get("ports") or ())
    return [port for port in published if port is not None]


def _entrypoint(argv: Sequence[str]) -> str:
    """Return the entrypoint up to `--`, if a program that another command can replace follows it; else empty.

    `python train.py` is such a program. A script alone is not, because it may end in `exec "$@"`: the entrypoint stays.
    """
    end = argv.index("--") + 1 if "--" in argv else len(argv)
    return shlex.join(argv[:end]) if launchers_in(argv[end:]) else ""
