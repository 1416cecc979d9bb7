"""A digest for each folder of what sync holds right in it: where both sides say the same, nothing has to be listed. Pure.

Both sides make it, each of what it sees. A file counts with mode, size and stamp, a link with the digest of its target, a
folder as being there: what has to be the same so that there is nothing to do.
"""

from __future__ import annotations

import hashlib
import itertools

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterable, Iterator, List, Sequence

    from dkdbg.sync.receiver.wire import Entry


def line(name: str, entry: Sequence[Any]) -> str:
    """Return what counts of an entry. A name holds no `/`, so that no two entries make the lines of other ones."""
    _, kind, mode, size, content, stamp = entry
    if kind == "f":
        return "%s/f%d/%d/%s" % (name, mode, size, stamp)
    return "%s/%s" % (name, kind if kind == "d" else "l" + content)


def digest(lines: List[str]) -> str:
    """Return the digest of a folder from the lines of what is in it, in any order; it sorts them."""
    lines.sort()
    return hashlib.sha256("\n".join(lines).encode("utf-8", "surrogatepass")).hexdigest()


def folders(entries: Iterable[Entry]) -> Iterator[List[str]]:
    """Yield path and digest of each folder that the entries lie in, empty for the root; those of one folder come together."""
    for folder, inside in itertools.groupby(entries, _folder):
        start = len(folder) + 1 if folder else 0
        yield [folder, digest([line(entry[0][start:], entry) for entry in inside])]


def _folder(entry: Entry) -> str:
    path: str = entry[0]
    return path.rpartition("/")[0]
