"""`dkdbg restart`: the program started again, the container and the attached editor untouched."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dkdbg import console, engine, process
from dkdbg.commands.init import check_root, make_plan
from dkdbg.commands.up import check_initialised
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
    plan, _ = make_plan(root)
    check_initialised(root, plan)
    engine.host_facts()
    target = ComposeService(service=plan.service.name)
    container = engine.running(target, root, plan.service.port)
    if container is None or container.state != "running":
        raise DkdbgError(f"{plan.service.name} is not running", hint="dkdbg up")
    result = process.run(target.restart_program(), cwd=root)
    if result.code:
        said = (
            result.stderr.strip() or result.stdout.strip() or f"docker ended with {result.code}"
        ).splitlines()
        raise DkdbgError(
            f"{plan.service.name} was not restarted: {said[-1].removeprefix('dkdbg: ')}",
            hint="reload = true under [debug] in dkdbg.toml, then dkdbg init and dkdbg up: from then on it can be",
        )
    console.say(f"{plan.service.name}: {result.stdout.strip().removeprefix('dkdbg: ')}")
    return 0
