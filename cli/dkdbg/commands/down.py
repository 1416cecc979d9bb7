"""`dkdbg down`: the debug service stopped and removed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dkdbg import console, engine, process
from dkdbg.commands.init import check_root, make_plan
from dkdbg.commands.up import check_initialised
from dkdbg.targets.compose import ComposeService, explain

if TYPE_CHECKING:
    from pathlib import Path


def down(root: Path, *, everything: bool) -> int:
    """Stop and remove the debug service, or with `everything` the whole compose project; the exit code.

    Raises:
        DkdbgError: no engine, or compose failed.
    """
    check_root(root)
    plan, _ = make_plan(root)
    check_initialised(root, plan)
    engine.host_facts()
    target = ComposeService(service=plan.service.name)
    argv = target.down_project() if everything else target.down()
    result = process.run(argv, cwd=root, timeout=120.0)
    if result.code:
        raise explain(result.code, result.stderr)
    console.say("the project is down" if everything else f"{plan.service.name} is down")
    return 0
