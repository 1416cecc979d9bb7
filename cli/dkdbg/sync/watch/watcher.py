"""Changes below the local root, as they happen: batches of paths to check again.

The scanner calls `Watcher.watch` for each folder just before it lists the folder: no change in between is missed, and
ignored folders cost no watch.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, NamedTuple

from dkdbg.sync.watch.inbox import Inbox

if TYPE_CHECKING:
    from dkdbg.sync.watch.inbox import Source

#: Seconds between two polls of folders that cannot be watched; more when a poll takes long.
_POLL_S = 2.0


class Batch(NamedTuple):
    """Paths to check again, for `Scanner.rescan`.

    Attributes:
        paths: paths relative to the root. A folder means everything below it. An absolute path is a rule file outside
            the root.
        lost: why events were lost, as a sentence: everything has to be scanned again. Empty otherwise.
    """

    paths: frozenset[str]
    lost: str = ""


class Watcher:
    """Watches the given folders.

    Args:
        root: the local root, absolute, resolved.

    Attributes:
        source: reports changes in the folders that it can watch; the watcher polls the others.
        limited: why some folders are polled, and the command that changes it, as a sentence; empty if none is polled.
    """

    def __init__(self, root: str) -> None:
        self._inbox = Inbox()
        self._next_poll = self._polled_at = 0.0
        self._polled: set[str] = set()
        self.source = _source(root, self._inbox)

    @property
    def limited(self) -> str:
        """Return why some folders are polled; see `Watcher`."""
        count = len(self._polled)
        what = "1 folder is" if count == 1 else f"{count:,} folders are"
        return f"{what} polled every {_POLL_S:g} s: {self._inbox.limited}" if count else ""

    def watch(self, folder: str) -> None:
        """Watch the folder, relative to the root; repeating it is harmless. Made for `Scanner(enter=...)`."""
        if self.source.watch(folder):
            self._polled.discard(folder)
        else:
            self._polled.add(folder)

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
        self.source.forget()
        self._polled.clear()
        return Batch(frozenset(), lost)

    def wake(self) -> None:
        """Make `batch` return, from another thread."""
        with self._inbox.changed:
            self._inbox.woken = True
            self._inbox.changed.notify()

    def close(self) -> None:
        """End all watches and threads."""
        self.source.close()

    def _pace_polls(self, now: float) -> None:
        """Schedule the next poll: after ten times the duration of the last one, at least _POLL_S."""
        if self._polled_at:
            self._next_poll = now + max(_POLL_S, 10 * (now - self._polled_at))
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
