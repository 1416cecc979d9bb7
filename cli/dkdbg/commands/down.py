"""`dkdbg down`: the debug service stopped and removed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dkdbg import console, engine, process
from dkdbg.commands.init import check_root, debug_service
from dkdbg.targets.compose import ComposeService, explain

if TYPE_CHECKING:
    from pathlib import Path


def down(root: Path, *, everything: bool) -> int:
    """Stop and remove the debug service, or with `everything` the whole compose project; the exit code.

    Raises:
        DkdbgError: no engine, or compose failed.
    """
    check_root(root)
    service = debug_service(root)
    engine.host_facts()
    target = ComposeService(service=service.name)
    argv = target.down_project() if everything else target.down()
    result = process.run(argv, cwd=root, timeout=120.0)
    if result.code:
        raise explain(result.code, result.stderr)
    console.say("the project is down" if everything else f"{service.name} is down")
    return 0
