"""Run the debug service's own program once more, in an additional container, and remove all that the run creates."""

from __future__ import annotations

import contextlib
import re
import shlex
import time
from typing import TYPE_CHECKING, Any

from dkdbg import process, signals
from dkdbg.core.known_errors import last_line
from dkdbg.core.plan import PUBLISHED_ON
from dkdbg.core.target_values import Trial
from dkdbg.errors import EXIT_USAGE, DkdbgError
from dkdbg.targets.docker import compose_cli, containers
from dkdbg.targets.docker.compose import ComposeService, runs_nothing, started
from dkdbg.targets.docker.compose_once import prepare, published_ports
from dkdbg.targets.docker.container import PROJECT_NAME, has_network
from dkdbg.targets.docker.engine_errors import check, explain, with_port
from dkdbg.targets.docker.image_build import IMAGE_VOLUME, removal_of_copies, remove_dead_links
from dkdbg.targets.docker.ports import is_free

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from dkdbg.core.target_values import AtEnd, Once, Prepared
    from dkdbg.targets.docker.remote_up import RemoteCopies

#: Lines of the container's output to read, and seconds between two checks of its health.
_LINES, _PAUSE_S = 200, 0.2
#: A container's id.
_ID = re.compile("[0-9a-f]{64}")
#: Maximum bytes of a container's output to read; seconds for that, and for a removal.
_MAX_OUTPUT_BYTES, _TIMEOUT_S, _REMOVAL_TIMEOUT_S = 1 << 20, 60.0, 120.0


def start(
    root: Path,
    wanted: Once,
    *,
    report: Callable[[str], None],
    at_end: AtEnd,
    copies: RemoteCopies | None = None,
) -> Trial:
    """Start the run; see `Target.trial`.

    Args:
        copies: for an engine of another machine.
    """
    service = ComposeService(service=wanted.service.name)
    model: Mapping[str, Any] = compose_cli.check_project(service, root)
    if runs_nothing(model, wanted.service.name):
        raise DkdbgError(
            f"{wanted.service.name} idles: no program to debug was found",
            hint="name it: dkdbg init --command 'python train.py'",
            exit_code=EXIT_USAGE,
        )
    if copies is not None:
        copies.check(str(model.get("name", "")))
    else:
        ports = {port for each in containers.of_project(root) for port in each.outside_ports}
        _check_ports(model, wanted, ports)
    project = str(model.get("name"))
    has_copies = f"{project}_{IMAGE_VOLUME}" in _volumes(model)
    services = set(started(model, wanted.service.name))
    needed = services - {wanted.service.name}

    def remove_volumes() -> None:
        names = sorted(copies.volumes if copies is not None else ())
        remote = [("docker", "volume", "rm", "--force", *names)] if names else []
        _remove([*(() if has_copies else removal_of_copies(project)), *remote], root)

    at_end(lambda: remove_dead_links(root, wanted.service))
    at_end(remove_volumes)
    prepared = prepare(root, wanted, report=report, detached=True, copies=copies)
    # `before` and `volumes` are read after `prepare`, which creates the volume `dkdbg-image`; all else that appears
    # during its build is the user's.
    before, volumes = containers.of_project(root), _volumes(model)
    known = {each.service for each in before if not each.one_off}
    ran = {each.service for each in before if each.running and not each.one_off}
    made: list[tuple[set[str], set[str], set[str]]] = []

    def created() -> tuple[set[str], set[str], set[str]]:
        """Return what this run has started: new containers, containers that had stopped before, and new volumes."""
        now = [each for each in containers.of_project(root) if each.service in needed and not each.one_off]
        new = {each.id for each in now if each.service not in known}
        woken = {each.id for each in now if each.service in known - ran and each.running}
        return new, woken, (_volumes(model) - volumes) & _volumes_of(model, services)

    def removals() -> Iterator[Sequence[str]]:
        yield prepared.cleaning
        new, woken, names = made[0] if made else created()
        if new:
            yield "docker", "rm", "--force", "--volumes", *sorted(new)
        if woken:
            yield "docker", "stop", *sorted(woken)
        if names:
            yield "docker", "volume", "rm", "--force", *sorted(names)
        if not before and not containers.of_project(
            root
        ):  # then this trial has made the project's network too
            yield service.down_project()

    at_end(lambda: _remove(removals(), root, prepared.environment))

    def run(argv: Sequence[str]) -> process.Result:
        return process.stream(
            argv,
            cwd=root,
            env=prepared.environment,
            report=_without_ids(report),
            stdin_text=prepared.stdin_text,
        )

    if prepared.needs:
        _await(run(prepared.needs), model["services"][wanted.service.name]["depends_on"], root)
    done = run(prepared.argv)
    made.append(created())
    check(done)
    return _trial(prepared)


def _without_ids(report: Callable[[str], None]) -> Callable[[str], None]:
    """Return a `report` that drops lines with only a container's id, which `compose run --detach` prints."""
    return lambda line: None if _ID.fullmatch(line) else report(line)


def _await(start: process.Result, needs: Mapping[str, Mapping[str, Any]], root: Path) -> None:
    """Wait until services meet their `depends_on` conditions, as `compose run` would, but recreate no changed service.

    Raises:
        DkdbgError: a required service has failed to start, or can no longer meet its condition.
    """
    if all(need.get("required", True) for need in needs.values()):
        check(start)
    for name, need in needs.items():
        with contextlib.suppress(*(() if need.get("required", True) else (DkdbgError,))):
            while not all(
                _is_met(str(need.get("condition")), name, containers.inspected(each.id)["State"])
                for each in containers.of_project(root)
                if each.service == name and not each.one_off
            ):
                time.sleep(_PAUSE_S)


def _is_met(condition: str, name: str, state: Mapping[str, Any]) -> bool:
    """Return whether a container meets a `depends_on` condition. Raises DkdbgError: it cannot any more."""
    runs, code = state["Running"], state["ExitCode"]
    health = (state.get("Health") or {}).get("Status", "without a healthcheck")
    if condition == "service_completed_successfully":
        if not runs and code:
            raise explain(1, f'service "{name}" didn\'t complete successfully: exit {code}')
        return not runs
    if condition == "service_healthy" and not (runs and health in {"starting", "healthy"}):
        end = f"is {health}" if runs else f"exited ({code})"
        raise explain(1, f'dependency failed to start: service "{name}" {end}')
    return condition != "service_healthy" or health == "healthy"


def _trial(prepared: Prepared) -> Trial:
    """Return the `Trial` of a started run, whose functions query its container."""

    def ready(limit: float) -> bool:
        end = time.monotonic() + limit
        while time.monotonic() < end:
            state = containers.inspected(prepared.name)["State"]
            if state.get("Status") != "running":
                return False
            if (state.get("Health") or {"Status": "healthy"}).get("Status") == "healthy":
                return True
            time.sleep(_PAUSE_S)
        return False

    def ended() -> int | None:
        state = containers.inspected(prepared.name)["State"]
        return None if state.get("Status") in {"running", "created"} else int(state.get("ExitCode") or 0)

    def output() -> str:
        with contextlib.suppress(DkdbgError):
            argv = ("docker", "logs", "--tail", str(_LINES), prepared.name)
            said = process.read(argv, max_bytes=_MAX_OUTPUT_BYTES, timeout=_TIMEOUT_S)
            return said.stdout + said.stderr
        return ""

    def probe(script: str) -> str:
        with contextlib.suppress(DkdbgError):
            found, name = containers.inspected(prepared.name), f"{prepared.name}-probe"
            config = found["Config"]
            path = [
                word
                for each in config.get("Env") or ()
                if each.startswith("PATH=")
                for word in ("--env", each)
            ]
            argv = (
                "docker", "run", "--rm", "--name", name, "--network", "none", "--volumes-from", f"{prepared.name}:ro", *path,
                "--user", config.get("User") or "0", "--workdir", config.get("WorkingDir") or "/", "--entrypoint", "sh", found["Image"], "-c", script,
            )  # fmt: skip
            try:
                return process.read(argv, max_bytes=_MAX_OUTPUT_BYTES, timeout=_TIMEOUT_S).stdout
            finally:  # after a timeout the container outlives the command
                process.run(("docker", "rm", "--force", name), timeout=_REMOVAL_TIMEOUT_S)
        return ""

    def entrypoint() -> tuple[str, ...]:
        return containers.entrypoint_of_image(containers.inspected(prepared.name)["Image"])

    found = containers.of_name(prepared.name, runs=False)
    return Trial(
        address=f"docker://{prepared.name}", port=prepared.port if found is None or has_network(found) else 0, program=prepared.program, gpu=prepared.gpu,
        ready=ready, session=lambda: "", ended=ended, output=output, probe=probe, entrypoint=entrypoint,
    )  # fmt: skip


def _check_ports(model: Mapping[str, Any], wanted: Once, published: set[str]) -> None:
    """Raise DkdbgError if another program has a port that the service publishes besides the debug port.

    Args:
        published: ports that this project publishes now.
    """
    service = model.get("services", {}).get(wanted.service.name) or {}
    others = [each for each in service.get("ports") or () if each.get("target") != wanted.service.port]
    for port in published_ports({"ports": others}):
        if str(port) not in published and not is_free(port):
            taken = explain(1, f"Bind for {PUBLISHED_ON}:{port} failed: port is already allocated")
            raise with_port(taken, model, wanted.service.name)


def _volumes(model: Mapping[str, Any]) -> set[str]:
    """Return the names of the project's volumes on the engine."""
    label = f"label={PROJECT_NAME}={model.get('name')}"
    return set(check(process.run(("docker", "volume", "ls", "--quiet", "--filter", label))).stdout.split())


def _volumes_of(model: Mapping[str, Any], services: Collection[str]) -> set[str]:
    """Return the names of the volumes that services of the project mount by name."""
    mounts = (mount for name in services for mount in model["services"][name].get("volumes") or ())
    sources = {each.get("source") for each in mounts if each.get("type") == "volume"}
    return {str(body.get("name")) for key, body in (model.get("volumes") or {}).items() if key in sources}


@signals.ignored()
def _remove(
    removals: Iterable[Sequence[str]], root: Path, environment: Mapping[str, str] | None = None
) -> None:
    """Run commands that remove what a trial has created. Raises DkdbgError: something is left, and why."""
    left = [_failure(argv, root, environment) for argv in removals]
    if any(left):
        raise DkdbgError(f"left behind: {'; '.join(filter(None, left))}")


def _failure(argv: Sequence[str], root: Path, environment: Mapping[str, str] | None) -> str:
    """Run a command that removes something; return why it failed, empty if it did not."""
    try:
        done = process.run(argv, cwd=root, env=environment, timeout=_REMOVAL_TIMEOUT_S)
    except DkdbgError as error:
        return error.message
    if (
        not done.code or "no such container" in done.stderr.lower()
    ):  # old engines fail for a missing container
        return ""
    return f"{shlex.join(argv)}: {last_line(done.stderr)}"
