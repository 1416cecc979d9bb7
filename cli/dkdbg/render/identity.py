"""Which project an attach is meant for: an id that `init` makes once, and writes into launch.json and the debug service.

It tells repositories apart, on one machine and for all who clone one: it is committed. No secret, and it lets nobody in.
"""

from __future__ import annotations

import re
import secrets
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from dkdbg.errors import DkdbgError
from dkdbg.planner.editor import ATTACH_NAME, PROJECT_PROPERTY
from dkdbg.render import jsonc, manifest
from dkdbg.render.transaction import read

if TYPE_CHECKING:
    from pathlib import Path

LAUNCH = PurePosixPath(".vscode/launch.json")
_ID = re.compile(r"[a-z0-9][a-z0-9_.-]{0,60}")


def of(root: Path) -> str:
    """Return the project's id: the one in the manifest or in launch.json, else a new one that begins with its folder's name."""
    note = manifest.load(root).notes.get(LAUNCH, {})
    for entries in (note.get("entries"), _launch(root)):
        found = _in(entries)
        if found:
            return found
    name = re.sub(r"[^a-z0-9_.-]+", "-", root.name.lower()).strip("-._")[:40] or "project"
    return f"{name}-{secrets.token_hex(4)}"


def _launch(root: Path) -> object:
    try:
        data = read(root, LAUNCH)
        return {} if data is None else jsonc.loads(jsonc.decode(data, file=str(LAUNCH)))
    except DkdbgError:  # whoever writes it says so
        return {}


def _in(entries: object) -> str:
    configurations = entries.get("configurations") if isinstance(entries, dict) else None
    for each in configurations if isinstance(configurations, list) else ():
        connect = each.get("connect") if isinstance(each, dict) and each.get("name") == ATTACH_NAME else None
        found = connect.get(PROJECT_PROPERTY) if isinstance(connect, dict) else None
        if isinstance(found, str) and _ID.fullmatch(found):
            return found
    return ""
