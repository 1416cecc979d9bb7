"""A digest of each folder's direct content: folders with equal digests on both sides need no listing. Pure.

Both sides compute it from their own view. A file counts with mode, size and stamp, a link with the digest of
its target, a folder by its existence: everything that has to be equal so that nothing is left to do.
"""

from __future__ import annotations

import hashlib
import itertools

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterable, Iterator, List, Sequence

    from dkdbg.sync.receiver.wire import Entry


def line(name: str, entry: Sequence[Any]) -> str:
    """Return an entry's line in the summary. A name holds no `/`, so that different entries make different lines."""
    _, kind, mode, size, content, stamp = entry
    if kind == "f":
        return "%s/f%d/%d/%s" % (name, mode, size, stamp)
    return "%s/%s" % (name, kind if kind == "d" else "l" + content)


def digest(lines: List[str]) -> str:
    """Return the digest of a folder from the lines of its entries, in any order; this sorts them."""
    lines.sort()
    return hashlib.sha256("\n".join(lines).encode("utf-8", "surrogatepass")).hexdigest()


def folders(entries: Iterable[Entry]) -> Iterator[List[str]]:
    """Yield path and digest of each folder of the entries, empty for the root. Entries of one folder are adjacent."""
    for folder, inside in itertools.groupby(entries, _folder):
        start = len(folder) + 1 if folder else 0
        yield [folder, digest([line(entry[0][start:], entry) for entry in inside])]


def _folder(entry: Entry) -> str:
    path: str = entry[0]
    return path.rpartition("/")[0]
