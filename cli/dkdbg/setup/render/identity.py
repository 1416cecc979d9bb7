"""Which project an attach is meant for: an id that `init` makes once, and writes into launch.json and the debug service.

It tells repositories apart, on one machine and for all who clone one: it is committed. No secret, and it lets nobody in.
"""

from __future__ import annotations

import re
import secrets
from typing import TYPE_CHECKING

from dkdbg.agent.dap.messages import PROJECT
from dkdbg.setup.render.editor_files import connects

if TYPE_CHECKING:
    from pathlib import Path

_ID = re.compile(r"[a-z0-9][a-z0-9_.-]{0,60}")


def of(root: Path) -> str:
    """Return the project's id: the one in the manifest or in launch.json, else a new one that begins with its folder's name."""
    for connect in connects(root):
        found = connect.get(PROJECT)
        if isinstance(found, str) and _ID.fullmatch(found):
            return found
    name = re.sub(r"[^a-z0-9_.-]+", "-", root.name.lower()).strip("-._")[:40] or "project"
    return f"{name}-{secrets.token_hex(4)}"
