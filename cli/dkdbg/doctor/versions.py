"""Versions that are known to fail, as data. A comment has the release notes or the version in which it was seen."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from packaging.specifiers import SpecifierSet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dkdbg.doctor.check import Severity
    from dkdbg.doctor.situation import Engine, Repository

_NUMBER = re.compile(r"v?(\d{1,9}(?:\.\d{1,9}){0,3})")


@dataclass(frozen=True, kw_only=True)
class KnownBad:
    """One row.

    Attributes:
        program: engine, compose or podman.
        versions: those that fail.
        severity: of the finding.
        cause: what fails.
        next: what to type or change.
        applies: whether it matters here.
    """

    program: str
    versions: str
    severity: Severity
    cause: str
    next: str
    applies: Callable[[Engine, Repository | None], bool] = lambda _engine, _repository: True


def _any_service(repository: Repository | None, key: str) -> bool:
    return repository is not None and any(body.get(key) for body in repository.services().values())


def _names_cdi(repository: Repository | None) -> bool:
    """Return whether a service names a CDI device under `devices`, such as `nvidia.com/gpu=all`."""
    bodies = repository.services().values() if repository is not None else ()
    devices = (str(each) for body in bodies for each in body.get("devices") or ())
    return any(re.search(r"\w\.\w[\w.]{0,100}/\w{1,100}=", each) for each in devices)


def _reserves_cdi(repository: Repository | None) -> bool:
    """Return whether the debug service that `init` wrote may ask for a GPU by `driver: cdi`."""
    return repository is not None and repository.service is not None and repository.service.gpu


_UPGRADE_COMPOSE = (
    "install a newer compose: sudo apt-get install docker-compose-plugin (from download.docker.com)"
)
_CDI_ON = '{"features": {"cdi": true}} in /etc/docker/daemon.json, then: sudo systemctl restart docker'
KNOWN_BAD = (
    KnownBad(
        program="compose",
        versions="<2.24.4",
        severity="error",
        cause="it knows no !override and !reset, with which the debug service extends yours",
        next=_UPGRADE_COMPOSE,
    ),
    KnownBad(  # seen with Debian's 2.26.1-4: DeviceRequests is null, exit code 0
        program="compose",
        versions="<2.30",
        severity="error",
        cause="it ignores or rejects `gpus:`, and the service may start without a GPU and without an error",
        next="write deploy: {resources: {reservations: {devices: [{driver: nvidia, count: all, capabilities: [gpu]}]}}} instead, or "
        + _UPGRADE_COMPOSE,
        applies=lambda _engine, repository: _any_service(repository, "gpus"),
    ),
    KnownBad(  # seen with 2.26.1: "error gathering device information"
        program="compose",
        versions="<2.30",
        severity="error",
        cause="it takes the name of a CDI device under `devices:` for a file",
        next="write driver: cdi and device_ids under deploy.resources.reservations.devices instead, or "
        + _UPGRADE_COMPOSE,
        applies=lambda _engine, repository: _names_cdi(repository),
    ),
    KnownBad(
        program="engine",
        versions="<23",
        severity="error",
        cause="its builds are not BuildKit's, which the build secrets and cache mounts of Dockerfiles need",
        next="install Docker 23 or newer: https://docs.docker.com/engine/install",
    ),
    KnownBad(  # moby#49963 switched it on with 28.2
        program="engine",
        versions=">=25,<28.2",
        severity="warning",
        cause="CDI is switched off, so a service cannot ask for a GPU by `driver: cdi`",
        next=_CDI_ON,
        applies=lambda engine, repository: (
            _reserves_cdi(repository)
            and not engine.info.get("CDISpecDirs")
            and "nvidia" not in (engine.info.get("Runtimes") or {})
        ),
    ),
    KnownBad(  # release notes of 29.0.0
        program="engine",
        versions=">=29",
        severity="note",
        cause="containers may open 1024 files (1048576 before), which DataLoader workers use up: Too many open files",
        next="ulimits: {nofile: 65536} for the service, in an override file",
        applies=lambda _engine, repository: repository is not None,
    ),
    KnownBad(
        program="podman",
        versions="<4.1",
        severity="warning",
        cause="it knows no CDI devices, so its containers get no GPU",
        next="install Podman 4.1 or newer",
        applies=lambda _engine, repository: _reserves_cdi(repository),
    ),
)


def known_bad(engine: Engine, repository: Repository | None) -> Iterator[dict[str, object]]:
    """Return the program, its version, the severity, the cause and the remedy of each row that fits."""
    versions = {"podman" if engine.is_podman else "engine": engine.version, "compose": engine.compose or ""}
    for row in KNOWN_BAD:
        version = versions.get(row.program, "")
        found = _NUMBER.match(version)
        if (
            found
            and SpecifierSet(row.versions).contains(found[1], prereleases=True)
            and row.applies(engine, repository)
        ):
            yield {
                "program": row.program,
                "version": version,
                "severity": row.severity,
                "cause": row.cause,
                "next": row.next,
            }
