"""Checks of the engine, compose and buildx, with the causes and hints of failed commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dkdbg.doctor.check import error, warning
from dkdbg.doctor.machine_checks import sized
from dkdbg.targets.docker.engine_errors import explain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dkdbg.doctor.check import Values
    from dkdbg.doctor.situation import Engine, Situation
    from dkdbg.errors import DkdbgError

_MIN_DISK_BYTES = 2 << 30
_MAX_SKEW_S = 5.0


def values_of(error: DkdbgError) -> dict[str, object]:
    """Return the values for a check that shows the error's own message and hint."""
    return {"message": error.message, "hint": error.hint}


def first_line(stderr: str) -> dict[str, object]:
    """Return the first line of the cause that docker's error message shows, and the hint, as values for a check."""
    error = explain(1, stderr)
    return {"message": error.message.partition("\n")[0], "hint": error.hint}


@error("engine")
def _unreachable(situation: Situation) -> Iterator[Values]:
    engine, is_wanted = situation.engine, situation.repository.service is not None
    if engine is not None and engine.error is not None:
        yield {**values_of(engine.error), "severity": "error" if is_wanted else "note"}


def running(situation: Situation) -> Engine | None:
    """Return the engine if it answers; otherwise None."""
    engine = situation.engine
    return engine if engine is not None and engine.error is None else None


@error("compose")
def _no_compose(situation: Situation) -> Iterator[Values]:
    engine = running(situation)
    if engine is not None and engine.compose is None:
        yield first_line("docker: 'compose' is not a docker command.")


@error(
    "buildx",
    "docker has no buildx plugin; Dockerfiles with build secrets or cache mounts require it",
    "sudo apt-get install docker-buildx-plugin (Debian: docker-buildx)",
)
def _no_buildx(situation: Situation) -> Iterator[Values]:
    engine, services = running(situation), situation.repository.started().values()
    is_needed = not services or any("build" in body for body in services)
    if is_needed and engine is not None and engine.buildx is None and not engine.is_podman:
        yield {}


@error(
    "podman",
    "the engine is Podman {version}, but the podman command, which dkdbg needs to build for it, is missing",
    "sudo apt-get install podman",
)
def _no_podman(situation: Situation) -> Iterator[Values]:
    engine = running(situation)
    if engine is not None and engine.is_podman and "podman" not in situation.machine.programs:
        yield {"version": engine.version}


@warning(
    "context",
    "DOCKER_HOST ({host}) overrides the context {context} that you chose",
    "unset DOCKER_HOST, or: docker context use default",
)
def _overridden(situation: Situation) -> Iterator[Values]:
    engine = situation.engine
    if engine is not None and engine.host and engine.context not in {"", "default"}:
        yield {"host": engine.host, "context": engine.context}


@warning(
    "api",
    "DOCKER_API_VERSION is {api}, which disables the version negotiation of docker with the engine",
    "unset DOCKER_API_VERSION",
)
def _api(situation: Situation) -> Iterator[Values]:
    if situation.engine is not None and situation.engine.api:
        yield {"api": situation.engine.api}


@warning(
    "clock",
    "the engine's clock is {skew} s {where} this machine's: builds and reloads see wrong file times",
    "restart Docker Desktop; on WSL: sudo hwclock -s; on a server: sudo timedatectl set-ntp true",
)
def _clock(situation: Situation) -> Iterator[Values]:
    engine = running(situation)
    if engine is not None and abs(engine.skew) > _MAX_SKEW_S:
        yield {"skew": f"{abs(engine.skew):.0f}", "where": "ahead of" if engine.skew > 0 else "behind"}


@warning("engine-disk", "{free} are left on the disk of the Docker engine ({path})")
def _disk(situation: Situation) -> Iterator[Values]:
    engine = running(situation)
    if engine is not None and engine.disk is not None and engine.disk.free < _MIN_DISK_BYTES:
        hint = explain(1, "no space left on device").hint
        yield {"free": sized(engine.disk.free), "path": engine.disk.path, "hint": hint}


@warning("rootless", "{service}: {message}")
def _rootless(situation: Situation) -> Iterator[Values]:
    engine = running(situation)
    if engine is None or "rootless" not in str(engine.info.get("SecurityOptions")):
        return
    for name, body in situation.repository.services().items():
        if body.get("ulimits"):
            yield {"service": name, **first_line("error setting rlimit type 8: operation not permitted")}
