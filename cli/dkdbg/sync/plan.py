"""What has to happen so that the remote tree becomes the local one. Pure: two indexes in, operations in a safe order out."""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from dkdbg.sync.tree.entries import Entry

#: Files above this many bytes travel in pieces and last, so that they hold up nobody (ADR 10: PUT is whole).
LARGE = 1 << 20

Operation = Literal["delete", "mkdir", "link", "mode", "adopt", "check", "put"]


class There(NamedTuple):
    """One remote entry.

    Attributes:
        digest: sha256 in hex of a file's content or a link's target, empty for a folder.
        stamp: of the local file that this content came from; empty when unknown.
        held: whether the ledger has it, which is what makes it ours to delete.
    """

    kind: str
    mode: int
    size: int
    digest: str
    stamp: str
    held: bool = True


class Step(NamedTuple):
    """One operation on one path.

    `check` reads a local file that has the size of the remote one, and adopts, changes the mode, or sends, as its digest
    demands; `put` sends without asking.
    """

    operation: Operation
    path: str
    wanted: Entry | None = None


def link_digest(target: str) -> str:
    """What the receiver says of a link with this target."""
    return hashlib.sha256(os.fsencode(target)).hexdigest()


def unknown(local: Iterable[str], remote: Mapping[str, There]) -> list[str]:
    """The local paths of which the listing says nothing: they may exist remotely all the same, and STAT tells."""
    return [path for path in local if path not in remote]


def plan(local: Mapping[str, Entry], remote: Mapping[str, There]) -> list[Step]:
    """The steps that make `remote` into `local`, in an order that is safe at every moment.

    Deletes come first, deepest first, for what takes their place; then each folder, outermost first, with what lies right
    in it; the large files come last. Paths are relative, with `/`, and sort before what lies below them.
    Nothing is deleted that the ledger does not hold: the receiver moves that aside when it stands in the way.
    """
    small: list[Step] = []
    large: list[Step] = []
    gone = [
        path
        for path, there in remote.items()
        if there.held and ((here := local.get(path)) is None or (here.kind == "d") != (there.kind == "d"))
    ]
    deletes = [Step(operation="delete", path=path) for path in sorted(gone, reverse=True)]
    wants = [path for path, wanted in local.items() if not _is_there(wanted, remote.get(path))]
    for _, path in sorted(
        (path if local[path].kind == "d" else path.rpartition("/")[0], path) for path in wants
    ):
        wanted = local[path]
        step = _step(path, wanted, remote.get(path))
        if step is None:
            continue
        is_large = wanted.size > LARGE and step.operation in {"check", "put"}
        (large if is_large else small).append(step)
    return deletes + small + large


def _is_there(wanted: Entry, there: There | None) -> bool:
    """Whether a file is there, noted and unchanged: what most of them are, so nothing more is asked about those."""
    return (
        there is not None
        and wanted.stamp != ""
        and wanted.stamp == there.stamp
        and wanted.mode == there.mode
        and wanted.size == there.size
        and wanted.kind == there.kind == "f"
        and there.held
    )


def _step(path: str, wanted: Entry, there: There | None) -> Step | None:
    """What one local entry needs; None when it is there already and noted."""
    if there is None or there.kind != wanted.kind:
        operation: Operation = {"d": "mkdir", "l": "link"}.get(wanted.kind, "put")  # type: ignore[assignment]
        return Step(operation=operation, path=path, wanted=wanted)
    if wanted.kind == "d":  # the mode of a folder is given once: later it may belong to somebody else
        return None if there.held else Step(operation="adopt", path=path, wanted=wanted)
    if wanted.kind == "l":
        if there.digest != link_digest(wanted.target):
            return Step(operation="link", path=path, wanted=wanted)
        return None if there.held else Step(operation="adopt", path=path, wanted=wanted)
    if there.size != wanted.size:
        return Step(operation="put", path=path, wanted=wanted)
    if there.held and wanted.stamp and there.stamp == wanted.stamp:
        return None if there.mode == wanted.mode else Step(operation="mode", path=path, wanted=wanted)
    return Step(operation="check", path=path, wanted=wanted)
