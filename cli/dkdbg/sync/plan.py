"""Plans the operations that make the remote tree equal to the local one.

Pure: two indexes in, ordered operations out.
"""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dkdbg.sync.tree.entries import Entry

#: Minimum bytes of a large file. Large files are sent last and in pieces, so that they delay no others (ADR 10).
LARGE_BYTES = 1 << 20

Operation = Literal["delete", "mkdir", "link", "mode", "adopt", "check", "put"]


class RemoteEntry(NamedTuple):
    """One remote entry.

    Attributes:
        digest: sha256 in hex of a file's content or a link's target, empty for a folder.
        stamp: `Entry.stamp` of the local file when it had this content; empty if unknown.
        held: whether the ledger has the entry, so that sync may delete it.
    """

    kind: str
    mode: int
    size: int
    digest: str
    stamp: str
    held: bool = True


class Step(NamedTuple):
    """One operation on one path.

    `check` reads a local file that has the remote file's size; depending on its digest it records the remote file as
    synced (`adopt`), changes its mode, or sends the local file. `put` sends without a check.
    """

    operation: Operation
    path: str
    wanted: Entry | None = None


def link_digest(target: str) -> str:
    """Return the receiver's digest of a link with this target."""
    return hashlib.sha256(os.fsencode(target)).hexdigest()


def plan(local: Mapping[str, Entry], remote: Mapping[str, RemoteEntry]) -> list[Step]:
    """Return the steps that make `remote` equal to `local`, in an order that is safe at every moment.

    Deletes come first, deepest first, to make room. Then comes each folder, outermost first, with its direct content.
    The large files come last. Paths are relative, with `/`, and sort before everything below them.

    Only entries that the ledger holds are deleted: the receiver moves other entries aside when they are in the way.
    """
    small: list[Step] = []
    large: list[Step] = []
    gone = [
        path
        for path, remote_entry in remote.items()
        if remote_entry.held
        and (
            (local_entry := local.get(path)) is None
            or (local_entry.kind == "d") != (remote_entry.kind == "d")
        )
    ]
    deletes = [Step(operation="delete", path=path) for path in sorted(gone, reverse=True)]
    wants = [path for path, entry in local.items() if not _is_in_sync(entry, remote.get(path))]
    for _, path in sorted(
        (path if local[path].kind == "d" else path.rpartition("/")[0], path) for path in wants
    ):
        entry = local[path]
        step = _step(path, entry, remote.get(path))
        if step is None:
            continue
        is_large = entry.size > LARGE_BYTES and step.operation in {"check", "put"}
        (large if is_large else small).append(step)
    return deletes + small + large


def _is_in_sync(local_entry: Entry, remote_entry: RemoteEntry | None) -> bool:
    """Return whether an entry is present, recorded and unchanged."""
    return (
        remote_entry is not None
        and local_entry.stamp != ""
        and local_entry.stamp == remote_entry.stamp
        and local_entry.mode == remote_entry.mode
        and local_entry.size == remote_entry.size
        and local_entry.kind == remote_entry.kind == "f"
        and remote_entry.held
    )


def _step(path: str, local_entry: Entry, remote_entry: RemoteEntry | None) -> Step | None:
    """Return the step for one local entry; None when it is present and recorded."""
    if remote_entry is None or remote_entry.kind != local_entry.kind:
        operation: Operation = {"d": "mkdir", "l": "link"}.get(local_entry.kind, "put")  # type: ignore[assignment]
        return Step(operation=operation, path=path, wanted=local_entry)
    if local_entry.kind == "d":  # a mode is set only at a folder's creation: the owner may change later
        return None if remote_entry.held else Step(operation="adopt", path=path, wanted=local_entry)
    if local_entry.kind == "l":
        if remote_entry.digest != link_digest(local_entry.target):
            return Step(operation="link", path=path, wanted=local_entry)
        return None if remote_entry.held else Step(operation="adopt", path=path, wanted=local_entry)
    if remote_entry.size != local_entry.size:
        return Step(operation="put", path=path, wanted=local_entry)
    if remote_entry.held and local_entry.stamp and remote_entry.stamp == local_entry.stamp:
        return (
            None
            if remote_entry.mode == local_entry.mode
            else Step(operation="mode", path=path, wanted=local_entry)
        )
    return Step(operation="check", path=path, wanted=local_entry)
