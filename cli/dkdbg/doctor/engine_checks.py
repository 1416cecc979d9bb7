"""Checks of the engine, compose and buildx, with the causes and hints of failed commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dkdbg.doctor.check import Check
from dkdbg.doctor.machine_checks import sized
from dkdbg.doctor.versions import known_bad
from dkdbg.targets.docker.engine_errors import explain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dkdbg.doctor.check import Values
    from dkdbg.doctor.situation import Engine, Situation
    from dkdbg.errors import DkdbgError

_MIN_DISK_BYTES = 2 << 30
_MAX_SKEW_S = 5.0


def values_of(error: DkdbgError) -> dict[str, object]:
    """Return the message and the hint of an error, for a check whose texts they are."""
    return {"message": error.message, "hint": error.hint}


def first_line(stderr: str) -> dict[str, object]:
    """Return the cause of an error of docker in one line, and its hint."""
    error = explain(1, stderr)
    return {"message": error.message.partition("\n")[0], "hint": error.hint}


def _unreachable(situation: Situation) -> Iterator[Values]:
    engine, repository = situation.engine, situation.repository
    is_wanted = repository is not None and repository.service is not None
    if engine is not None and engine.error is not None:
        yield {**values_of(engine.error), "severity": "error" if is_wanted else "note"}


def running(situation: Situation) -> Engine | None:
    """Return the engine if it answers."""
    engine = situation.engine
    return engine if engine is not None and engine.error is None else None


def _no_compose(situation: Situation) -> Iterator[Values]:
    engine = running(situation)
    if engine is not None and engine.compose is None:
        yield first_line("docker: 'compose' is not a docker command.")


def _no_buildx(situation: Situation) -> Iterator[Values]:
    engine = running(situation)
    if engine is not None and engine.buildx is None and not engine.is_podman:
        yield {}


def _no_podman(situation: Situation) -> Iterator[Values]:
    engine = running(situation)
    if engine is not None and engine.is_podman and "podman" not in situation.machine.programs:
        yield {"version": engine.version}


def _overridden(situation: Situation) -> Iterator[Values]:
    engine = situation.engine
    if engine is not None and engine.host and engine.context not in {"", "default"}:
        yield {"host": engine.host, "context": engine.context}


def _api(situation: Situation) -> Iterator[Values]:
    if situation.engine is not None and situation.engine.api:
        yield {"api": situation.engine.api}


def _clock(situation: Situation) -> Iterator[Values]:
    engine = running(situation)
    if engine is not None and abs(engine.skew) > _MAX_SKEW_S:
        yield {"skew": f"{abs(engine.skew):.0f}", "where": "ahead of" if engine.skew > 0 else "behind"}


def _disk(situation: Situation) -> Iterator[Values]:
    engine = running(situation)
    if engine is not None and engine.disk is not None and engine.disk.free < _MIN_DISK_BYTES:
        hint = explain(1, "no space left on device").hint
        yield {"free": sized(engine.disk.free), "path": engine.disk.path, "hint": hint}


def _rootless(situation: Situation) -> Iterator[Values]:
    engine, repository = running(situation), situation.repository
    if engine is None or repository is None or "rootless" not in str(engine.info.get("SecurityOptions")):
        return
    for name, body in repository.services().items():
        if body.get("ulimits"):
            yield {"service": name, **first_line("error setting rlimit type 8: operation not permitted")}


def _versions(situation: Situation) -> Iterator[Values]:
    engine = running(situation)
    return known_bad(engine, situation.repository) if engine is not None else iter(())


CHECKS = (
    Check(name="engine", severity="error", read=_unreachable, cause="{message}", next="{hint}"),
    Check(name="compose", severity="error", read=_no_compose, cause="{message}", next="{hint}"),
    Check(
        name="buildx",
        severity="error",
        read=_no_buildx,
        cause="this docker has no buildx plugin, which builds with secrets and cache mounts need",
        next="sudo apt-get install docker-buildx-plugin (Debian: docker-buildx)",
    ),
    Check(
        name="podman",
        severity="error",
        read=_no_podman,
        cause="the engine is Podman {version}, and there is no podman command, with which dkdbg builds for it",
        next="sudo apt-get install podman",
    ),
    Check(
        name="context",
        severity="warning",
        read=_overridden,
        cause="DOCKER_HOST ({host}) overrides the context {context} that you chose",
        next="unset DOCKER_HOST, or: docker context use default",
    ),
    Check(
        name="api",
        severity="warning",
        read=_api,
        cause="DOCKER_API_VERSION is {api}: docker and the engine no longer agree on one themselves",
        next="unset DOCKER_API_VERSION",
    ),
    Check(
        name="clock",
        severity="warning",
        read=_clock,
        cause="the engine's clock is {skew} s {where} this machine's: builds and reloads see files of another time",
        next="restart Docker Desktop; on WSL: sudo hwclock -s; on a server: sudo timedatectl set-ntp true",
    ),
    Check(
        name="engine-disk",
        severity="warning",
        read=_disk,
        cause="{free} are left on the disk of the Docker engine ({path})",
        next="{hint}",
    ),
    Check(name="rootless", severity="warning", read=_rootless, cause="{service}: {message}", next="{hint}"),
    Check(
        name="version", severity="error", read=_versions, cause="{program} {version}: {cause}", next="{next}"
    ),
)
