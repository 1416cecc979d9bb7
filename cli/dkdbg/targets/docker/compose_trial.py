"""Run the debug service's own program once more, in a container beside all that runs, and remove what that has created."""

from __future__ import annotations

import contextlib
import json
import time
from typing import TYPE_CHECKING, Any

from dkdbg import process
from dkdbg.agent.contract import LOOPBACK
from dkdbg.core.target_values import Trial
from dkdbg.errors import EXIT_USAGE, DkdbgError
from dkdbg.targets.docker import client, compose_cli, containers
from dkdbg.targets.docker.compose import ComposeService, runs_nothing
from dkdbg.targets.docker.compose_once import prepare, published_ports
from dkdbg.targets.docker.container import PROJECT_NAME
from dkdbg.targets.docker.engine_errors import explain, with_port
from dkdbg.targets.docker.ports import is_free

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from dkdbg.core.target_values import Once

#: Lines of the container's output to read, and seconds between two looks at its health.
_LINES, _PAUSE_S = 200, 0.2


def start(root: Path, wanted: Once, *, report: Callable[[str], None]) -> Trial:
    """Start it; see `Target.trial`."""
    if not client.endpoint().is_local:
        raise DkdbgError(
            "the engine is on another machine, which has your files only where dkdbg up has copied them",
            hint="dkdbg up, then prove a container there by name: dkdbg verify --on docker://NAME",
            exit_code=EXIT_USAGE,
        )
    service = ComposeService(service=wanted.service.name)
    model: Mapping[str, Any] = compose_cli.check_project(service, root)
    if runs_nothing(model, wanted.service.name):
        raise DkdbgError(
            f"{wanted.service.name} idles: no program to debug was found",
            hint="name it: dkdbg init --command 'python train.py'",
            exit_code=EXIT_USAGE,
        )
    there = containers.of_project(root)
    before, volumes = {each.id for each in there}, _volumes(model)
    _check_ports(model, wanted, {each.rpartition(":")[2] for one in there for each in one.published.values()})
    prepared = prepare(root, wanted, report=report, detached=True)

    def stop() -> None:
        process.run(prepared.cleaning, cwd=root)
        started = [each.id for each in containers.of_project(root) if each.id not in before]
        if started:
            process.run(("docker", "rm", "--force", "--volumes", *started), cwd=root, timeout=120.0)
        if new := _volumes(model) - volumes:
            process.run(("docker", "volume", "rm", *new), cwd=root)
        if not before:  # the project's network is ours too
            process.run(service.down_project(), cwd=root, env=prepared.environment, timeout=120.0)

    try:
        done = process.stream(prepared.argv, cwd=root, env=prepared.environment, report=report)
        if done.code:
            raise explain(done.code, done.stdout)
    except BaseException:
        stop()
        raise

    def ready(limit: float) -> bool:
        end = time.monotonic() + limit
        while time.monotonic() < end:
            state = _state(prepared.name)
            if state.get("Status") != "running":
                return False
            if (state.get("Health") or {"Status": "healthy"}).get("Status") == "healthy":
                return True
            time.sleep(_PAUSE_S)
        return False

    def ended() -> int | None:
        state = _state(prepared.name)
        return None if state.get("Status") in {"running", "created"} else int(state.get("ExitCode") or 0)

    def output() -> str:
        said = process.run(("docker", "logs", "--tail", str(_LINES), prepared.name))
        return said.stdout + said.stderr

    def probe(script: str) -> str:
        with contextlib.suppress(DkdbgError):
            return process.run(service.script(script), cwd=root, env=prepared.environment).stdout
        return ""

    return Trial(
        address=f"docker://{prepared.name}", port=prepared.port, program=prepared.program, gpu=prepared.gpu,
        ready=ready, session=lambda: "", ended=ended, output=output, probe=probe, stop=stop,
    )  # fmt: skip


def _check_ports(model: Mapping[str, Any], wanted: Once, ours: set[str]) -> None:
    """Raise DkdbgError if another program has a port that the service publishes besides the debug port.

    Args:
        ours: ports that this project publishes now.
    """
    service = model.get("services", {}).get(wanted.service.name) or {}
    others = [each for each in service.get("ports") or () if each.get("target") != wanted.service.port]
    for port in published_ports({"ports": others}):
        if str(port) not in ours and not is_free(port):
            taken = explain(1, f"Bind for {LOOPBACK}:{port} failed: port is already allocated")
            raise with_port(taken, model, wanted.service.name)


def _volumes(model: Mapping[str, Any]) -> set[str]:
    """Return the names of the project's volumes on the engine."""
    label = f"label={PROJECT_NAME}={model.get('name')}"
    return set(process.run(("docker", "volume", "ls", "--quiet", "--filter", label)).stdout.split())


def _state(name: str) -> dict[str, Any]:
    """Return the engine's state of a container; empty if it is gone."""
    asked = process.run(("docker", "container", "inspect", "--format", "{{json .State}}", name))
    with contextlib.suppress(ValueError):
        found: dict[str, Any] = json.loads(asked.stdout)
        return found
    return {}
