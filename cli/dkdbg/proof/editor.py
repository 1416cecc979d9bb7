"""The launch entry that F5 uses, as it is in launch.json now."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dkdbg.agent.dap import paths
from dkdbg.core.pairs import ROOT
from dkdbg.setup.render import editor_files

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Entry:
    """The arguments that an editor sends with its attach.

    Attributes:
        port: on 127.0.0.1; None without an entry.
        mappings: (local root, remote root), both absolute, in order.
        just_my_code, sub_process: as in debugpy.
        source: where they come from, for messages.
    """

    port: int | None
    mappings: tuple[tuple[str, str], ...]
    just_my_code: bool = True
    sub_process: bool = True
    source: str = editor_files.LAUNCH

    def remote_of(self, path: str) -> str:
        """Return the remote path of a local file, as debugpy maps it; empty if no mapping has it."""
        found = paths.mapped(path, self.mappings)
        return found[1] if found else ""

    def local_of(self, path: str) -> str:
        """Return the local path of a remote file; empty if no mapping has it."""
        found = paths.mapped(path, [(remote, local) for local, remote in self.mappings])
        return found[1] if found else ""


def of_repository(root: Path, planned: Iterable[tuple[str, str]] = ()) -> Entry:
    """Return our entry in launch.json; without one the planned mapping.

    Args:
        root: the repository's root, resolved.
        planned: folders relative to the root, and there.
    """
    entry = editor_files.attach_entry(root)
    connect = entry.get("connect")
    port = connect.get("port") if isinstance(connect, dict) else None
    if not entry:
        return Entry(
            port=None, mappings=absolute(root, planned), source="the mapping that dkdbg init planned"
        )
    pairs = paths.pairs(entry.get("pathMappings"))
    return Entry(
        port=port if isinstance(port, int) else None,
        mappings=tuple((os.path.normpath(local.replace(ROOT, str(root))), remote) for local, remote in pairs),
        just_my_code=entry.get("justMyCode") is not False,
        sub_process=entry.get("subProcess") is not False,
    )


def absolute(root: Path, pairs: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Return pairs with absolute local folders."""
    return tuple((str(root if local == "." else root / local), remote) for local, remote in pairs)
