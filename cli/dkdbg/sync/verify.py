"""Compares both sides: digests of every file, and remote-only entries. Changes nothing."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from dkdbg.errors import DkdbgError
from dkdbg.sync.beneath import Beneath
from dkdbg.sync.plan import RemoteEntry, link_digest
from dkdbg.sync.receiver import wire
from dkdbg.sync.remote.answers import Amount, entries
from dkdbg.sync.remote.contact import IS_IT_RUNNING, Contact
from dkdbg.sync.remote.replica import existing, listing, stale, stat
from dkdbg.sync.remote.stream import Stream, StreamEndedError, expect
from dkdbg.sync.tree import reading
from dkdbg.sync.tree.scan import Scanner

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dkdbg.core.target import Executor
    from dkdbg.sync.roots import Roots
    from dkdbg.sync.tree.entries import Entry, Index

#: Seconds until different entries are compared again: a running sync may be about to send them.
_RETRY_AFTER_S = 0.5
#: Value of `Amount(known=...)` that accepts up to a million unsynced remote entries: the limit is twice this plus
#: MAX_ENTRIES.
_OTHERS = 400_000
_ANSWER_TIMEOUT_S = 300.0
_OTHER_LINK = "is a symlink to another path on the target"


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The result of a comparison.

    Attributes:
        equal: number of files, links and folders that are the same on both sides.
        differences: path -> difference, for local entries and for those that sync has written to the target.
        only_remote: paths that exist only on the target, and are not in sync's ledger.
    """

    equal: int
    differences: Mapping[str, str]
    only_remote: tuple[str, ...]


def compare(
    local: Mapping[str, Entry], digests: Mapping[str, str], remote: Mapping[str, RemoteEntry]
) -> tuple[int, dict[str, str]]:
    """Return the number of equal entries, and the differences by path. Pure.

    Args:
        local: entries of the index. digests: present digests of its files.
        remote: the target's entries, with fresh digests: those in the ledger, and others at paths of `local`.
    """
    equal, different = 0, {}
    for path, entry in local.items():
        problem = _difference(entry, digests.get(path, ""), remote.get(path))
        if problem:
            different[path] = problem
        else:
            equal += 1
    for path, found in remote.items():
        if found.held and path not in local:
            different[path] = "was put on the target by sync and no longer exists locally"
    return equal, different


def of_one_folder(found: Comparison) -> Comparison:
    """Adapt a comparison to a folder that both sides share: drop remote-only paths, and explain absolute links."""
    link = "is a symlink to an absolute local path, which is a different path on the target"
    return Comparison(
        equal=found.equal, only_remote=(),
        differences={path: link if what == _OTHER_LINK else what for path, what in found.differences.items()},
    )  # fmt: skip


def _difference(entry: Entry, digest: str, remote_entry: RemoteEntry | None) -> str:
    if remote_entry is None:
        return "is missing on the target"
    if remote_entry.kind != entry.kind:
        names = {"f": "file", "d": "folder", "l": "symlink"}
        return f"is a {names[entry.kind]} locally and a {names[remote_entry.kind]} on the target"
    if entry.kind == "d":
        return ""
    if entry.kind == "l":
        return "" if remote_entry.digest == link_digest(entry.target) else _OTHER_LINK
    if remote_entry.digest != digest:
        sizes = (
            f" ({entry.size:,} bytes locally, {remote_entry.size:,} there)"
            if entry.size != remote_entry.size
            else ""
        )
        return f"has different content on the target{sizes}"
    return (
        ""
        if remote_entry.mode == entry.mode
        else f"has mode {entry.mode:o} locally and {remote_entry.mode:o} on the target"
    )


def verify(roots: Roots, executor: Executor) -> Comparison:
    """Compare both sides. Raises DkdbgError: the target cannot be reached, or a local file cannot be read."""
    contact = Contact(roots.remote, roots.local, pythons=roots.pythons, look_only=True)
    try:
        contact.start(executor)
        scanner = Scanner(roots.local, rules=roots.rules)
        index = scanner.scan()
        stream, _ = contact.ready()
    except StreamEndedError as error:
        raise DkdbgError(f"cannot verify {contact.label}: {error}", hint=IS_IT_RUNNING) from None
    finally:
        contact.stop()
    try:
        listing(stream, wire.LISTING, known=len(index.entries))
        stream.send(wire.VERIFY)
        stream.flush()
        digests = _digests(scanner.root, index)
        remote = listing(stream, wire.LISTING, known=len(index.entries))
        others = _others(stream)
        remote.update(stat(stream, [path for path in index.entries if path in others]))
        alone = existing(scanner.root, [path for path in remote if path not in index.entries])
        found = {path: entry for path, entry in remote.items() if path not in alone}
        equal, different = compare(index.entries, digests, found)
        if different:
            time.sleep(_RETRY_AFTER_S)
            equal, different = _once_more(stream, scanner, found, different)
        different.update(
            (path, stale(index.skipped[path].reason)[0])
            for path in alone
            if path in index.skipped and not index.skipped[path].unknown and remote[path].held
        )
        only_remote = tuple(sorted(path for path in others if path not in index.entries))
        return Comparison(equal=equal, differences=different, only_remote=only_remote)
    except StreamEndedError as error:
        raise DkdbgError(
            f"{contact.label} disconnected during the comparison: {error}", hint="try again"
        ) from None
    finally:
        stream.close()


def _others(stream: Stream) -> set[str]:
    """Return the paths of unsynced remote entries, such as data sets in a workspace.

    Raises:
        StreamEndedError, DkdbgError: as `expect`; or there are more than a million.
    """
    amount = Amount(known=_OTHERS, hint="name a smaller folder on the target with --to PATH")
    take = partial(expect, stream, frozenset({wire.REMOTE}), _ANSWER_TIMEOUT_S)
    return {entry[0] for entry in entries(take, amount)}


def _once_more(
    stream: Stream, scanner: Scanner, remote: dict[str, RemoteEntry], different: dict[str, str]
) -> tuple[int, dict[str, str]]:
    """Compare the differing entries again, with fresh state of both sides; return as `compare`.

    They may have differed only because a program was writing or another sync was running.
    """
    index = scanner.scan()
    fresh = stat(stream, list(different))
    now = {
        path: found._replace(held=remote[path].held if path in remote else False)
        for path, found in fresh.items()
    }
    chosen = {path: entry for path, entry in index.entries.items() if path in different}
    _, still = compare(chosen, _digests(scanner.root, index, chosen), now)
    return len(index.entries) - len(still.keys() & index.entries.keys()), still


def _digests(root: str, index: Index, chosen: Mapping[str, Entry] | None = None) -> dict[str, str]:
    found = {}
    files = Beneath(root)
    for path, entry in (index.entries if chosen is None else chosen).items():
        if entry.kind != "f":
            continue
        try:
            found[path] = reading.read(files, path, keep_bytes=0).digest
        except (reading.FileChangedError, OSError):
            found[path] = "cannot be read here"
    return found
