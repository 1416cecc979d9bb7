"""Versions that are known to fail. A comment names the release notes, or the version that showed the failure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from packaging.requirements import Requirement

from dkdbg.doctor.check import error, note, warning
from dkdbg.doctor.engine_checks import running

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dkdbg.doctor.check import Values
    from dkdbg.doctor.situation import Engine, Situation

_NUMBER = re.compile(r"v?(\d{1,9}(?:\.\d{1,9}){0,3})")


def _fails(
    versions: str, applies: Callable[[Engine, Situation], object] = lambda _engine, _situation: True
) -> Callable[[Situation], Iterator[Values]]:
    """Return the `read` of a check for failing `versions` of engine, compose or podman; it also requires `applies`."""
    row = Requirement(versions)

    def read(situation: Situation) -> Iterator[Values]:
        engine = running(situation)
        if engine is None:
            return
        installed = {
            "podman" if engine.is_podman else "engine": engine.version,
            "compose": engine.compose or "",
        }
        version = installed.get(row.name, "")
        found = _NUMBER.match(version)
        is_bad = found and row.specifier.contains(found[1], prereleases=True)
        if is_bad and applies(engine, situation):
            yield {"is": f"{row.name} {version}"}

    return read


def _names_cdi(_engine: Engine, situation: Situation) -> bool:
    """Return whether a service lists a CDI device, such as `nvidia.com/gpu=all`, under `devices`."""
    bodies = situation.repository.services().values()
    devices = (str(each) for body in bodies for each in body.get("devices") or ())
    return any(re.search(r"\w\.\w[\w.]{0,100}/\w{1,100}=", each) for each in devices)


def _reserves_cdi(engine: Engine, situation: Situation) -> bool:
    """Return whether the debug service that `init` wrote may request a GPU by `driver: cdi`."""
    service = situation.repository.service
    has_gpu = situation.machine.has_gpu or not engine.is_local  # a remote engine's machine may have a GPU
    return service is not None and service.gpu and has_gpu


_UPGRADE_COMPOSE = (
    "install a newer compose: sudo apt-get install docker-compose-plugin (from download.docker.com)"
)

error(
    "version",
    "{is}: it does not support !override and !reset, which the debug service needs",
    _UPGRADE_COMPOSE,
)(_fails("compose<2.24.4"))
error(  # seen with Debian's 2.26.1-4: DeviceRequests is null, exit code 0
    "version",
    "{is}: it ignores or rejects `gpus:`, and the service may start without a GPU and without an error",
    "write deploy: {{resources: {{reservations: {{devices: [{{driver: nvidia, count: all, capabilities: [gpu]}}]}}}}}} instead, or "
    + _UPGRADE_COMPOSE,
)(
    _fails(
        "compose<2.30",
        lambda _, situation: any(body.get("gpus") for body in situation.repository.services().values()),
    )
)
error(  # seen with 2.26.1: "error gathering device information"
    "version",
    "{is}: it treats a CDI device name under `devices:` as a file",
    "write driver: cdi and device_ids under deploy.resources.reservations.devices instead, or "
    + _UPGRADE_COMPOSE,
)(_fails("compose<2.30", _names_cdi))
error(
    "version",
    "{is}: it does not build with BuildKit; Dockerfiles with build secrets or cache mounts require it",
    "install Docker 23 or newer: https://docs.docker.com/engine/install",
)(_fails("engine<23"))
warning(  # moby#49963: CDI is enabled by default since 28.2
    "version",
    "{is}: CDI is switched off, so a service cannot ask for a GPU by `driver: cdi`",
    '{{"features": {{"cdi": true}}}} in /etc/docker/daemon.json, then: sudo systemctl restart docker',
)(
    _fails(
        "engine>=25,<28.2",
        lambda engine, situation: (
            _reserves_cdi(engine, situation)
            and not engine.info.get("CDISpecDirs")
            and "nvidia" not in (engine.info.get("Runtimes") or {})
        ),
    )
)
note(  # release notes of 29.0.0
    "version",
    "{is}: containers may open only 1024 files (1048576 before), and DataLoader workers need more: Too many open files",
    "ulimits: {{nofile: 65536}} for the service, in an override file",
)(_fails("engine>=29", lambda _, situation: situation.repository.root is not None))
warning(
    "version",
    "{is}: it does not support CDI devices, so its containers get no GPU",
    "install Podman 4.1 or newer",
)(_fails("podman<4.1", _reserves_cdi))
