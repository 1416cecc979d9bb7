"""`dkdbg restart`: the program started again, the container and the attached editor untouched."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dkdbg import console, engine, process
from dkdbg.commands.init import check_root, debug_service
from dkdbg.errors import DkdbgError
from dkdbg.targets.compose import ComposeService

if TYPE_CHECKING:
    from pathlib import Path


def restart(root: Path) -> int:
    """Ask the running service's agent to restart the program; the exit code.

    Raises:
        DkdbgError: no engine, the service does not run, or its agent runs the program once.
    """
    check_root(root)
    service = debug_service(root)
    engine.host_facts()
    target = ComposeService(service=service.name)
    container = engine.running(target, root, service.port)
    if container is None or container.state != "running":
        raise DkdbgError(f"{service.name} is not running", hint="dkdbg up")
    result = process.run(target.restart_program(), cwd=root)
    if result.code:
        said = (
            result.stderr.strip() or result.stdout.strip() or f"docker ended with {result.code}"
        ).splitlines()
        raise DkdbgError(
            f"{service.name} was not restarted: {said[-1].removeprefix('dkdbg: ')}",
            hint="reload = true under [debug] in dkdbg.toml, then dkdbg init and dkdbg up: from then on it can be",
        )
    console.say(f"{service.name}: {result.stdout.strip().removeprefix('dkdbg: ')}")
    return 0
