"""Query the engine that the docker command uses, with a timeout for each query."""

from __future__ import annotations

import json
import os
import re
import time
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from dkdbg import process
from dkdbg.doctor.situation import Disk, Engine
from dkdbg.errors import DkdbgError
from dkdbg.targets.docker import client, host

_TIMEOUT_S = 30.0
#: Folders with CDI specifications (how containers get a device), and the driver's version in the name of its library.
_CDI_FOLDERS, _CDI_DRIVER = ("/etc/cdi", "/var/run/cdi"), re.compile(r"libcuda\.so\.(\d+\.\d+(?:\.\d+)?)")


def engine() -> Engine:
    """Return the facts about the docker command and its engine. Never raises."""
    found = Engine(
        context=_context(),
        host=os.environ.get("DOCKER_HOST", ""),
        api=os.environ.get("DOCKER_API_VERSION", ""),
    )
    asked = time.time()
    try:
        info = host.engine_info()
        answered = time.time()
        is_local = client.endpoint().is_local
        is_podman = host.is_podman()
    except DkdbgError as error:
        return replace(found, error=error)
    kind, _ = host.gpu_of(info, is_local=is_local)
    return replace(
        found,
        info=info,
        compose=_output("compose", "version", "--short"),
        buildx=_output("buildx", "version"),
        is_local=is_local,
        is_podman=is_podman,
        skew=_skew(str(info.get("SystemTime") or ""), asked, answered),
        gpu=kind,
        cdi_driver=_cdi_driver() if is_local and kind == "cdi" else "",
        disk=_disk(str(info.get("DockerRootDir") or "")) if is_local else None,
    )


def _context() -> str:
    """Return the context that `docker context use` chose, although DOCKER_HOST and DOCKER_CONTEXT take precedence."""
    try:
        folder = os.environ.get("DOCKER_CONFIG") or str(Path.home() / ".docker")
        found = json.loads(Path(folder, "config.json").read_text("utf-8", errors="replace"))
    except (OSError, ValueError, RuntimeError):
        return ""
    return str(found.get("currentContext") or "") if isinstance(found, dict) else ""


def _output(*argv: str) -> str | None:
    """Return the output of a docker command; None if it fails or prints nothing."""
    try:
        done = process.run(["docker", *argv], timeout=_TIMEOUT_S)
    except DkdbgError:
        return None
    return (done.stdout.strip() or None) if done.code == 0 else None


def _skew(text: str, asked: float, answered: float) -> float:
    """Return by how many seconds the engine's clock is ahead (negative: behind), allowing for the query's duration."""
    found = re.fullmatch(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.\d+)?(Z|[+-]\d\d:\d\d)", text)
    if not found:
        return 0.0
    try:
        remote_time = datetime.fromisoformat(found[1] + found[2].replace("Z", "+00:00")).timestamp()
    except ValueError:  # such as 31 June
        return 0.0
    return remote_time - answered if remote_time > answered else min(0.0, remote_time + 1 - asked)


def _cdi_driver() -> str:
    for folder in _CDI_FOLDERS:
        for file in sorted(Path(folder).glob("nvidia*")):
            try:
                found = _CDI_DRIVER.search(file.read_text("utf-8", errors="replace"))
            except OSError:
                continue
            if found:
                return found[1]
    return ""


def _disk(folder: str) -> Disk | None:
    """Return the file system with the engine's storage folder; None if it cannot be read."""
    try:
        found = os.statvfs(folder)
    except (OSError, ValueError):
        return None
    return Disk(path=folder, total=found.f_blocks * found.f_frsize, free=found.f_bavail * found.f_frsize)
