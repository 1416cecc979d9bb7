"""`dkdbg down`: the debug service stopped and removed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dkdbg import console
from dkdbg.targets import registry
from dkdbg.verbs.init import check_root, debug_service
from dkdbg.verbs.up import startable

if TYPE_CHECKING:
    from pathlib import Path


def down(root: Path, *, everything: bool) -> int:
    """Stop and remove the debug service, or with `everything` all that belongs to it; the exit code.

    Raises:
        DkdbgError: it cannot be stopped, with cause and next step.
    """
    check_root(root, "down")
    service = debug_service(root)
    target = startable(registry.home(root, service.name))
    console.say(target.down(service, everything=everything))
    return 0
