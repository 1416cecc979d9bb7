"""The remote entries as the host knows them during one stream: reads them, and makes them equal to the local ones."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

from dkdbg.sync import plan
from dkdbg.sync.beneath import Beneath, folders_above, is_within
from dkdbg.sync.plan import RemoteEntry
from dkdbg.sync.receiver import wire
from dkdbg.sync.receiver.tree import is_absent
from dkdbg.sync.remote.answers import MAX_ENTRIES, Amount, entries, not_our_receiver
from dkdbg.sync.remote.flight import Counts
from dkdbg.sync.remote.sender import Sender
from dkdbg.sync.remote.stream import expect
from dkdbg.sync.report import event

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from dkdbg.sync.plan import Step
    from dkdbg.sync.receiver.wire import Frame
    from dkdbg.sync.remote.contact import Ready
    from dkdbg.sync.remote.stream import Stream
    from dkdbg.sync.report import Event
    from dkdbg.sync.tree.entries import Entry, Index

_ANSWER_TIMEOUT_S = 300.0
_MAX_STAT_PATHS, _MAX_STAT_BYTES = 2000, wire.MAX_HEAD - 100
_PROGRESS_INTERVAL_S = 0.2
_ENDLESS = "name a smaller folder on the target with --to PATH, or remove .dkdbg-sync/ in it"


class Replica:
    """One remote root behind one stream.

    Args:
        local: the local root, absolute.

    Attributes:
        view: remote entries by path.
        sender: carries out steps.
        staying: called with paths that sync has sent, and that still exist locally but no longer take part in sync.
            When one of them is deleted locally, the caller has to pass it to `steps`.
    """

    def __init__(
        self, stream: Stream, ready: Ready, local: str, *, report: Callable[[Event], None],
    ) -> None:  # fmt: skip
        self.stream = stream
        self.ready = ready
        self.view: dict[str, RemoteEntry] = {}
        self.sender = Sender(stream, local, self.view, report=report)
        self.staying: Callable[[Collection[str]], None] = lambda _: None
        self._local = local
        self._report = report

    def learn(self, local: Mapping[str, Entry]) -> None:
        """Read the ledger's content, and query which other paths of the index `local` exist.

        Raises:
            StreamEndedError, DkdbgError: as `expect`.
        """
        self.view.update(listing(self.stream, wire.LISTING, known=len(local)))
        asked = [] if self.ready.empty else [path for path in local if path not in self.view]
        self.view.update(stat(self.stream, asked))

    def converge(self, index: Index) -> Counts:
        """Make the remote side equal to the local side; return the numbers of changes."""
        local, remote = index.entries, self.view
        alone = self._alone(
            [path for path, entry in remote.items() if entry.held and path not in index.entries]
        )
        if alone:
            remote = {path: entry for path, entry in remote.items() if path not in alone}
        self._forgive(index, list(self.sender.failed))
        self._say_stale(index, index.skipped)
        return self.perform(plan.plan(local, remote), quiet=False)

    def steps(self, index: Index, paths: Iterable[str], scanned: Collection[str] = ()) -> list[Step]:
        """Return the steps for `paths`, and for remote entries at or below `scanned` that are gone locally.

        For `scanned` see `Changes`.
        """
        chosen = {*paths, *self._left_over(index, scanned)}
        local = {path: entry for path in chosen if (entry := index.entries.get(path)) is not None}
        remote = {path: remote_entry for path in chosen if (remote_entry := self.view.get(path)) is not None}
        for path in self._alone([path for path in remote if path not in local]):
            del remote[path]
            if path not in index.skipped:
                self.sender.failed.pop(path, None)
        self._forgive(index, chosen)
        self._say_stale(index, chosen)
        return plan.plan(local, remote)

    def _alone(self, paths: Collection[str]) -> Collection[str]:
        """Return the `paths` that still exist locally, outside the index; their remote entries stay unchanged."""
        alone = existing(self._local, paths)
        if not alone:
            return alone
        self.staying([path for path in alone if self.view[path].held])
        return existing(self._local, alone)  # again: one may be deleted before it is watched

    def _left_over(self, index: Index, scanned: Collection[str]) -> list[str]:
        """Return remote entries at or below `scanned` that sync has sent and that have left the index.

        The event for their deletion may have been missed.
        """
        folders = {
            place
            for place in scanned
            if not place
            or any(one and one.kind == "d" for one in (index.entries.get(place), self.view.get(place)))
        }
        if not folders:
            return []
        local = index.entries
        return [
            path
            for path, entry in self.view.items()
            if entry.held and path not in local and is_within(path, folders)
        ]

    def _forgive(self, index: Index, paths: Iterable[str]) -> None:
        """Drop failures of paths that exist on neither side any more."""
        for path in paths:
            if path not in index.entries and path not in self.view:
                self.sender.failed.pop(path, None)

    def _say_stale(self, index: Index, paths: Iterable[str]) -> None:
        """Report files that stay outdated: sent before, but now too large, or a link that leads out of the root."""
        for path in paths:
            skip, entry = index.skipped.get(path), self.view.get(path)
            if skip and not skip.unknown and entry and entry.held:
                self.sender.fail(path, *stale(skip.reason))

    def perform(self, steps: list[Step], *, quiet: bool = True) -> Counts:
        """Carry out `steps`, and return the results; report progress unless `quiet`."""
        self.sender.counts = Counts()
        self.sender.progress = (lambda _files, _bytes: None) if quiet else Progress(steps, self._report)
        self.sender.perform(steps)
        return self.sender.counts


def stale(reason: str) -> tuple[str, str]:
    """Return reason and hint for a file that was sent before, and cannot be sent now for `reason`."""
    return (
        f"{reason}; the previously sent version is still on the target",
        "remove it on the target and start sync again, or change what leaves it out ([sync] in dkdbg.toml)",
    )


class Progress:
    """Counts files and bytes that have arrived, and reports them at intervals."""

    def __init__(self, steps: Iterable[Step], report: Callable[[Event], None]) -> None:
        sizes = [step.wanted.size for step in steps if step.wanted and step.operation in {"put", "check"}]
        self._facts: dict[str, Any] = {
            "files": 0,
            "files_total": len(sizes),
            "bytes": 0,
            "bytes_total": sum(sizes),
        }
        self._report = report
        self._next = 0.0

    def __call__(self, files: int, size: int) -> None:
        """Add `files` arrived files with `size` bytes in total."""
        self._facts["files"] += files
        self._facts["bytes"] += size
        now = time.monotonic()
        if now >= self._next and self._facts["files_total"]:
            self._next = now + _PROGRESS_INTERVAL_S
            self._report(event("progress", **self._facts))


def listing(stream: Stream, kind: int, *, known: int, held: bool = True) -> dict[str, RemoteEntry]:
    """Return the entries of one answer, which may come in several frames of `kind`.

    Args:
        known: number of local entries, which limits the number to accept.

    Raises:
        StreamEndedError, DkdbgError: as `expect`; or the answer is endless.
    """
    refused = 0

    def take() -> Frame:
        nonlocal refused
        while (frame := expect(stream, frozenset({kind, wire.FAILED}), _ANSWER_TIMEOUT_S))[0] != kind:
            refused += 1  # a refused name: sending the file will fail for the same reason
            if refused > MAX_ENTRIES + known:
                raise not_our_receiver("it refused more paths than were requested")
        return frame

    amount = Amount(known=known, hint=_ENDLESS)
    return {
        path: RemoteEntry(its_kind, mode, size, digest, stamp, held)
        for path, its_kind, mode, size, digest, stamp in entries(take, amount)
    }


def stat(stream: Stream, paths: list[str]) -> dict[str, RemoteEntry]:
    """Return the entries of the `paths` that exist on the target, with digests.

    `held` is False: STAT does not report it.

    Raises:
        StreamEndedError, DkdbgError: as `expect`.
    """
    found: dict[str, RemoteEntry] = {}
    for chunk in _fitting(paths):
        stream.send(wire.STAT, {"paths": chunk})
        stream.flush()
        answered = listing(stream, wire.STATS, known=len(chunk), held=False)
        found.update({path: answered[path] for path in chunk if path in answered})
    return found


def _fitting(paths: list[str]) -> Iterator[list[str]]:
    """Yield `paths` in lists that each fit into a frame. A character takes at most 12 bytes in ASCII JSON."""
    chunk: list[str] = []
    size = 0
    for path in paths:
        more = 12 * len(path) + 3
        if chunk and (len(chunk) == _MAX_STAT_PATHS or size + more > _MAX_STAT_BYTES):
            yield chunk
            chunk, size = [], 0
        chunk.append(path)
        size += more
    if chunk:
        yield chunk


def existing(root: str, paths: Iterable[str]) -> set[str]:
    """Return the `paths` that exist below the local `root`.

    Names are compared with the folder's listing, so that `a` is missing after a rename to `A` on any file system.
    Nothing outside the root is accessed, because the paths come from the other side.
    """
    beneath = Beneath(root)
    names: dict[str, frozenset[str] | None] = {}
    found = set()
    for path in paths:
        folder, _, name = path.rpartition("/")
        if folder not in names:
            names[folder] = _names(beneath, folder, names)
        listed = names[folder]
        if listed is None or name in listed:
            found.add(path)
    return found


def _names(beneath: Beneath, folder: str, known: dict[str, frozenset[str] | None]) -> frozenset[str] | None:
    """Return the exact names in `folder`; None when it is unreadable. Adds the folders above it to `known`."""
    above = [*reversed([*folders_above(folder)])] if folder else []
    listed: frozenset[str] | None = frozenset()
    for one in ["", *above, folder] if folder else [""]:
        parent, _, name = one.rpartition("/")
        if one and (before := known[parent]) is not None and name not in before:
            known[one] = frozenset()
        elif one not in known:
            known[one] = _listed(beneath, one)
        listed = known[one]
    return listed


def _listed(beneath: Beneath, folder: str) -> frozenset[str] | None:
    try:
        at = beneath.folder(folder)
    except OSError as error:
        return frozenset() if is_absent(error) else None
    try:
        return frozenset(os.listdir(at))
    except OSError:
        return None
    finally:
        os.close(at)
