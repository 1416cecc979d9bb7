"""watchdog's Observer, for systems without inotify: FSEvents on a Mac, one recursive watch.

Never tested on a Mac. The observer reports ignored folders too, and the scanner's rules drop them.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from watchdog.events import FileSystemEvent, FileSystemEventHandler
from watchdog.observers import Observer

from dkdbg.sync.watch.inbox import Source

if TYPE_CHECKING:
    from dkdbg.sync.watch.inbox import Inbox


class ObserverSource(FileSystemEventHandler, Source):
    """One recursive watch of the root; events go to `inbox`.

    Events name the path that was used: a write through a hard link outside the root is noticed at the next start.
    """

    def __init__(self, root: str, inbox: Inbox) -> None:
        self._root, self._inbox = root, inbox
        self._files: set[str] = set()
        self._observer = Observer()
        self._observer.schedule(self, root, recursive=True)
        self._observer.start()

    def watch_file(self, path: str) -> bool:
        """Report changes of this file when it is below the root."""
        new = path not in self._files
        self._files.add(path)
        return new

    def close(self) -> None:
        """End watchdog's threads."""
        self._observer.stop()
        self._observer.join(5.0)

    def on_any_event(self, event: FileSystemEvent) -> None:
        """Handle an event, on watchdog's thread."""
        if event.event_type in {"opened", "closed_no_write"}:
            return
        for text in {os.fsdecode(event.src_path), os.fsdecode(event.dest_path)} - {""}:
            if text in self._files:
                self._inbox.settled(text)
            if text == self._root:
                if event.event_type in {"deleted", "moved"}:
                    self._inbox.lose("the local root was moved or deleted")
                continue
            path = os.path.relpath(text, self._root)
            if path.startswith(".." + os.sep) or (event.is_directory and event.event_type == "modified"):
                continue
            if event.event_type in {"modified", "created", "deleted"} and not event.is_directory:
                self._inbox.unsettled(path)
            else:
                self._inbox.settled(path)
