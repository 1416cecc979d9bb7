"""Changes below the local root, as they happen: batches of paths to check again.

The scanner names each folder to watch just before it lists it, so that no change is missed between the two
and no ignored folder costs a watch.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, NamedTuple, Protocol

from dkdbg.sync.watch.inbox import Inbox

if TYPE_CHECKING:
    from collections.abc import Iterable


class Batch(NamedTuple):
    """Paths to check again.

    Attributes:
        paths: relative to the root; a folder means everything below it; an absolute path is a rule file
            elsewhere.
            Pass them to `Scanner.rescan`.
        lost: why events were lost, as a sentence, or empty. Everything has to be scanned again.
    """

    paths: frozenset[str]
    lost: str = ""


class Source(Protocol):
    """Source of events: inotify on Linux, FSEvents on a Mac."""

    def watch(self, folder: str) -> bool:
        """Watch the folder; return False when that is impossible and it has to be polled."""

    def watch_file(self, path: str) -> bool:
        """Report changes of the file at this absolute path, which may not exist; return whether this is new."""

    def watch_leaving(self, paths: Iterable[str]) -> None:
        """Report when one of these paths, relative to the root, is deleted, as far as that can be watched."""

    def watch_linked(self, path: str) -> None:
        """Report writes to this file through any of its names, as far as that can be watched."""

    def forget(self) -> None:
        """Drop all watches of folders."""

    def close(self) -> None:
        """End the source."""


class Watcher:
    """Watches the given folders.

    Args:
        root: the local root, absolute, resolved.
        poll: seconds between two polls of folders that cannot be watched; more when a poll takes long.

    Attributes:
        limited: why some folders are polled and the command against it, as a sentence; empty when none is.
    """

    def __init__(self, root: str, *, poll: float = 2.0) -> None:
        self._inbox = Inbox()
        self._poll, self._next_poll, self._polled_at = poll, 0.0, 0.0
        self._polled: set[str] = set()
        self._source = _source(root, self._inbox)

    @property
    def limited(self) -> str:
        """Return the text described above."""
        count = len(self._polled)
        what = "1 folder is" if count == 1 else f"{count:,} folders are"
        return f"{what} polled every {self._poll:g} s: {self._inbox.limited}" if count else ""

    def watch(self, folder: str) -> None:
        """Watch the folder, relative to the root; repeating it is harmless. Made for `Scanner(enter=...)`."""
        if self._source.watch(folder):
            self._polled.discard(folder)
        else:
            self._polled.add(folder)

    def watch_file(self, path: str) -> bool:
        """Report changes of one file elsewhere, by absolute path: those of `Rules.files`.

        Return True when it was not watched before: it may have changed after it was read, and has to be
        checked once more.
        """
        return self._source.watch_file(path)

    def watch_leaving(self, paths: Iterable[str]) -> None:
        """Report when one of these paths is deleted.

        Relative, in folders that are not watched, as they take no part.
        """
        self._source.watch_leaving(paths)

    def watch_linked(self, path: str) -> None:
        """Report writes to a hard-linked file, also through a name elsewhere. Made for `Scanner(linked=...)`."""
        self._source.watch_linked(path)

    def batch(self, timeout: float | None = None) -> Batch | None:
        """Wait for changes and return them; None after `timeout` seconds without any, or after `wake`.

        After a batch with `lost` all watches of folders are gone: `Scanner.scan` sets them again.
        """
        inbox = self._inbox
        end = None if timeout is None else inbox.clock() + timeout
        self._pace_polls(inbox.clock())
        with inbox.changed:
            while True:
                now = inbox.clock()
                if inbox.lost:
                    break
                if (paths := inbox.pending.take(now) | self._due_polls(now)) or inbox.woken:
                    inbox.woken = False
                    return Batch(paths) if paths else None
                if end is not None and now >= end:
                    return None
                times = (inbox.pending.due(), end, self._next_poll if self._polled else None)
                wait = min((at for at in times if at is not None), default=None)
                inbox.changed.wait(None if wait is None else max(wait - now, 0.0))
            lost, inbox.lost = inbox.lost, ""
        self._source.forget()
        self._polled.clear()
        return Batch(frozenset(), lost)

    def wake(self) -> None:
        """Make `batch` return, from another thread."""
        with self._inbox.changed:
            self._inbox.woken = True
            self._inbox.changed.notify()

    def close(self) -> None:
        """End all watches and threads."""
        self._source.close()

    def _pace_polls(self, now: float) -> None:
        """Rest ten times as long as the caller took to check the polled folders."""
        if self._polled_at:
            self._next_poll = now + max(self._poll, 10 * (now - self._polled_at))
            self._polled_at = 0.0

    def _due_polls(self, now: float) -> frozenset[str]:
        if not self._polled or now < self._next_poll:
            return frozenset()
        self._polled_at = now
        return frozenset(
            folder for folder in self._polled if folder.rpartition("/")[0] not in self._polled or not folder
        )


def _source(root: str, inbox: Inbox) -> Source:
    if sys.platform == "linux":
        from dkdbg.sync.watch.inotify import InotifySource

        return InotifySource(root, inbox)
    from dkdbg.sync.watch.fsevents import ObserverSource

    return ObserverSource(root, inbox)
