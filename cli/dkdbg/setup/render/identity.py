"""Identify the project to attach to, by an id that `init` creates once for launch.json and the debug service.

The id is committed, so it distinguishes repositories on one machine and is the same in all clones. It is not a secret
and grants no access.
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
    """Return the project's id from the manifest or launch.json, else a new one that begins with the folder's name."""
    for connect in connects(root):
        found = connect.get(PROJECT)
        if isinstance(found, str) and _ID.fullmatch(found):
            return found
    name = re.sub(r"[^a-z0-9_.-]+", "-", root.name.lower()).strip("-._")[:40] or "project"
    return f"{name}-{secrets.token_hex(4)}"
