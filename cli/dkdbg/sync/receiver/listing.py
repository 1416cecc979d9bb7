"""Reports the state of the target's disk: entries of the ledger at the start, STAT, VERIFY, and LIST and GET for pull.

It only reads, except that `settle_intents` removes stray temporary files.
"""

from __future__ import annotations

import os

from dkdbg.sync.receiver import content, ledger, paths, tree, wire
from dkdbg.sync.receiver.problems import Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

    from dkdbg.sync.receiver.ledger import Ledger
    from dkdbg.sync.receiver.tree import Tree
    from dkdbg.sync.receiver.wire import Entry

_OWN = paths.OWN.encode()
_PIECE = wire.MAX_BODY
#: Maximum digests to remember from STAT to ADOPT.
_MAX_SEEN = 100_000


def settle_intents(root: Tree, book: Ledger, *, clean: bool) -> None:
    """Find out which renames of `Ledger.intents` took place, and record them.

    Args:
        clean: remove stray temporary files; False for read-only use, as another receiver may be writing.
    """
    above = None  # the folder that was cleaned last: intents of one folder are consecutive
    for path, intent in list(book.intents.items()):
        folder, name = _open_parent(root, path)
        if folder < 0:
            continue
        try:
            if clean and path.rpartition("/")[0] != above:
                for stray in tree.names(folder):
                    if stray.startswith(paths.STRAY):
                        tree.remove(folder, stray)
                above = path.rpartition("/")[0]
            info = tree.lstat_at(folder, name)
        except OSError:  # unreadable: the ledger keeps its previous entry
            os.close(folder)
            continue
        try:
            if info is None or tree.kind_of(info) != intent[ledger.KIND]:
                continue
            if content.digest_at(folder, name, intent[ledger.KIND]) == intent[ledger.DIGEST]:
                book.hold(intent, info)
        finally:
            os.close(folder)
    book.intents.clear()


def survey(root: Tree, book: Ledger, *, fresh: bool = False) -> Iterator[Entry]:
    """Yield all entries of the ledger as they are on disk now; drop missing ones from the ledger.

    An entry in an inaccessible folder does not count as missing. It is listed as recorded, but without a stamp: the
    host then tries an operation on it, and gets the error to report.

    Args:
        book: the ledger; up to date after the last entry was yielded.
        fresh: read every file, even if its stat is unchanged.
    """
    by_folder: Dict[str, List[Entry]] = {}
    for path, entry in book.held.items():
        by_folder.setdefault(path.rpartition("/")[0], []).append(entry)
    for above, entries in by_folder.items():
        start = len(above) + 1 if above else 0
        try:
            folder = root.open_folder(paths.encode(above).split(b"/") if above else [])
        except OSError as error:
            for entry in entries:
                yield from _unseen(book, entry, error, fresh)
            continue
        try:
            for entry in entries:
                name = entry[ledger.PATH][start:].encode("utf-8", "surrogateescape")
                try:
                    real = _really(book, folder, name, entry, fresh)
                except PermissionError as error:
                    yield from _unseen(book, entry, error, fresh)
                    continue
                if real is None:
                    book.forget(entry[ledger.PATH])
                else:
                    yield real
        finally:
            os.close(folder)


def _unseen(book: Ledger, entry: Entry, error: OSError, fresh: bool) -> Iterator[Entry]:
    """Handle an entry that cannot be read: forget it if it is missing, yield it if it is inaccessible."""
    if tree.is_absent(error):
        book.forget(entry[ledger.PATH])
    else:
        yield [*entry[:4], "" if fresh else entry[ledger.DIGEST], ""]


def _really(book: Ledger, folder: int, name: bytes, entry: Entry, fresh: bool) -> Optional[Entry]:
    path, kind = entry[ledger.PATH], entry[ledger.KIND]
    info = tree.lstat_at(folder, name)
    if info is None:
        return None
    actual_kind = tree.kind_of(info)
    if kind == actual_kind == "d":
        mode = info.st_mode & 0o777
        if mode == entry[ledger.MODE] | tree.OWNER_RIGHTS:
            return entry[:6]
        return [path, kind, mode, 0, "", entry[ledger.STAMP]]
    if not fresh and kind == actual_kind and ledger.is_same(entry, info):
        return entry[:6]
    real = describe(folder, name, path, info)
    if real is None:
        return None
    if real[ledger.KIND] == kind and real[ledger.DIGEST] == entry[ledger.DIGEST]:
        real[ledger.STAMP] = entry[ledger.STAMP]
        if not ledger.is_same(entry, info):
            book.hold(real, info)
    return real


def describe(folder: int, name: bytes, path: str, info: os.stat_result) -> Optional[Entry]:
    """Return the entry of a name in an open folder, with its digest; None for pipes, sockets and devices."""
    kind = tree.kind_of(info)
    if not kind:
        return None
    size = 0 if kind == "d" else info.st_size
    mode = 0o777 if kind == "l" else info.st_mode & 0o777
    return [path, kind, mode, size, content.digest_at(folder, name, kind), ""]


def stat_paths(
    root: Tree, asked: List[Any], seen: Dict[str, Tuple[Tuple[int, ...], str]]
) -> Tuple[List[Entry], List[Tuple[str, Refused]]]:
    """Return entries of the existing paths, and the errors of the others; digests go into `seen`."""
    found: List[Entry] = []
    wrong: List[Tuple[str, Refused]] = []
    if len(seen) > _MAX_SEEN:
        seen.clear()
    above, folder = None, -1
    try:
        for path in asked:
            try:
                parts = paths.components(path)
            except Refused as error:
                wrong.append((path, error))
                continue
            if parts[:-1] != above:
                if folder >= 0:
                    os.close(folder)
                above, folder = parts[:-1], _open_parts(root, parts[:-1])
            try:
                info = tree.lstat_at(folder, parts[-1]) if folder >= 0 else None
            except PermissionError:  # count as missing: the host's next operation on it gets the error
                info = None
            entry = describe(folder, parts[-1], path, info) if info is not None else None
            if info is not None and entry is not None:
                found.append(entry)
                if not ledger.is_racy(info):
                    seen[path] = (tree.signature(info), entry[ledger.DIGEST])
    finally:
        if folder >= 0:
            os.close(folder)
    return found, wrong


def others(root: Tree, book: Ledger) -> List[Entry]:
    """Return entries of everything present that is not in the ledger, without digests."""
    found = []
    for _folder, path, _name, info in _walk(root, "", readable=True):
        if path not in book.held and tree.kind_of(info):
            size = 0 if tree.kind_of(info) == "d" else info.st_size
            found.append([path, tree.kind_of(info), info.st_mode & 0o777, size, "", ""])
    return found


def list_below(root: Tree, path: str) -> List[Entry]:
    """Return entries of everything below a folder, for pull: a file's stamp is its mtime_ns. Raises Refused."""
    if path:
        info = root.lstat(paths.components(path))
        if info is None or tree.kind_of(info) != "d":
            raise Refused(
                "there is no such folder on the target"
                if info is None
                else "it is not a folder on the target"
            )
    found = []
    for folder, one, name, info in _walk(root, path):
        size = 0 if tree.kind_of(info) == "d" else info.st_size
        entry = [one, tree.kind_of(info), info.st_mode & 0o777, size, "", str(info.st_mtime_ns)]
        if entry[1] == "l":
            entry[4] = content.digest_at(folder, name, "l")
        if entry[1]:
            found.append(entry)
    return found


def send_file(root: Tree, path: str, send: Callable[[bytes], None], *, max_bytes: Optional[int]) -> None:
    """Send a file of at most `max_bytes` bytes: FILE, DATA ..., END.

    Raises OSError or Refused before FILE, only OSError later.
    """
    import hashlib

    parts = paths.components(path)
    folder = root.open_folder(parts[:-1])
    try:
        descriptor = tree.open_file(folder, parts[-1])
    finally:
        os.close(folder)
    try:
        info = os.fstat(descriptor)
        if max_bytes is not None and info.st_size > max_bytes:
            raise Refused("it has grown a lot since it was listed; pull it again")
        head = {
            "path": path,
            "size": info.st_size,
            "mode": info.st_mode & 0o777,
            "mtime_ns": wire.time_of(info.st_mtime_ns),
        }
        send(wire.encode(wire.FILE, head))
        hasher = hashlib.sha256()
        left = info.st_size  # stop at this size: a log may grow faster than it is sent
        while left:
            piece = os.read(descriptor, min(_PIECE, left))
            if not piece:
                break
            left -= len(piece)
            hasher.update(piece)
            send(wire.encode(wire.DATA, {}, piece))
        send(wire.encode(wire.END, {"digest": hasher.hexdigest()}))
    finally:
        os.close(descriptor)


def _walk(
    root: Tree, top: str, *, readable: bool = False
) -> Iterator[Tuple[int, str, bytes, os.stat_result]]:
    """Yield (open folder, path, name, lstat) of everything below a folder, without sync's own folder.

    Args:
        readable: skip unreadable folders.

    Raises:
        PermissionError: a folder is unreadable, unless `readable`.
    """
    waiting = [top]
    while waiting:
        above = waiting.pop()
        folder = _open_path(root, above)
        if folder < 0:
            continue
        try:
            try:
                names = [name for name in tree.names(folder) if not name.startswith(_OWN)]
                seen = [(name, tree.lstat_at(folder, name)) for name in names]
            except PermissionError:
                if readable:
                    continue
                raise
            for name, info in seen:
                if info is None:
                    continue
                path = above + "/" + paths.decode(name) if above else paths.decode(name)
                if tree.kind_of(info) == "d":
                    waiting.append(path)
                yield folder, path, name, info
        finally:
            os.close(folder)


def _open_parent(root: Tree, path: str) -> Tuple[int, bytes]:
    above, _, name = path.rpartition("/")
    return _open_path(root, above), paths.encode(name)


def _open_path(root: Tree, path: str) -> int:
    return _open_parts(root, paths.encode(path).split(b"/") if path else [])


def _open_parts(root: Tree, parts: List[bytes]) -> int:
    """Return a descriptor of a folder, -1 when it is missing or cannot be entered."""
    try:
        return root.open_folder(parts)
    except OSError:
        return -1
