"""inotify, one watch per folder, through watchdog's InotifyFD.

watchdog's Observer is not used. It either watches recursively, including ignored folders, or needs a thread per folder.
And it delays each moved file by 0.5 s to pair it with its new name, which sync does not need.
"""

from __future__ import annotations

import errno
import itertools
import logging
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from watchdog.observers.inotify_c import (
    CallbackId,
    InotifyConstants,
    InotifyFD,
    Mask,
    WatchCallback,
    WatchDescriptor,
)

from dkdbg.sync.watch import limits
from dkdbg.sync.watch.inbox import Source

if TYPE_CHECKING:
    from collections.abc import Iterable

    from watchdog.observers.inotify_c import InotifyEvent

    from dkdbg.sync.watch.inbox import Inbox

#: watchdog logs a warning for a queue overflow, which is reported as an event already; without a handler Python would
#: print it.
logging.getLogger("watchdog").addHandler(logging.NullHandler())

_C = InotifyConstants
_SETTLED = _C.IN_CLOSE_WRITE | _C.IN_MOVED_TO | _C.IN_ATTRIB
_UNSETTLED = _C.IN_MODIFY | _C.IN_CREATE | _C.IN_DELETE | _C.IN_MOVED_FROM
_SELF = _C.IN_DELETE_SELF | _C.IN_MOVE_SELF | _C.IN_UNMOUNT
#: Events of a hard-linked file: any write through any of its names.
_CONTENT = Mask(_C.IN_MODIFY | _C.IN_CLOSE_WRITE | _C.IN_ATTRIB | _C.IN_DONT_FOLLOW)
#: Maximum hard-linked files to watch; each costs one inotify watch (`max_user_watches`).
_MAX_LINKED = 5000
_MASK = Mask(
    _SETTLED | _UNSETTLED | _C.IN_DELETE_SELF | _C.IN_MOVE_SELF
    | _C.IN_ONLYDIR | _C.IN_DONT_FOLLOW | _C.IN_EXCL_UNLINK
)  # fmt: skip


class InotifySource(WatchCallback, Source):
    """Watches of single folders; events go to `inbox`."""

    def __init__(self, root: str, inbox: Inbox) -> None:
        self._root, self._inbox = root, inbox
        self._lock = threading.RLock()
        self._folder_of: dict[int, str] = {}
        self._wd_of: dict[str, int] = {}
        self._files: dict[int, set[str]] = {}
        self._leaving: dict[int, dict[str, str]] = {}
        self._linked: dict[int, set[str]] = {}
        self._ids: dict[int, CallbackId] = {}
        self._next_id = itertools.count(1)
        self._fd: InotifyFD | None = None
        try:
            self._fd = InotifyFD()
        except OSError as error:
            inbox.limited = _limited(error)
        else:
            self._fd.start()

    def watch(self, folder: str) -> bool:
        """Watch the folder, relative to the root; return False when it has to be polled."""
        with self._lock:
            if folder in self._wd_of:
                return True
            wd = self._add(os.path.join(self._root, folder) if folder else self._root)
            if wd is None:
                return False
            if wd > 0:
                before = self._folder_of.get(wd)
                if before is not None and self._wd_of.get(before) == wd:
                    del self._wd_of[before]
                self._folder_of[wd], self._wd_of[folder] = folder, wd
            return True

    def watch_file(self, path: str) -> bool:
        """Report changes of the file at this absolute path by watching its folder. Return True if the watch is new."""
        with self._lock:
            if any(path in paths for paths in self._files.values()):
                return False
            wd = self._add(os.path.dirname(path))
            if wd is not None and wd > 0:
                self._files.setdefault(wd, set()).add(path)
                return True
            return False

    def watch_leaving(self, paths: Iterable[str]) -> None:
        """Report when one of these paths, relative to the root, is deleted. Its folder need not be watched."""
        folders: dict[str, list[str]] = {}
        for path in paths:
            folders.setdefault(os.path.dirname(path), []).append(path)
        with self._lock:
            for folder, leaving in folders.items():
                wd = self._add(os.path.join(self._root, folder))
                if wd:
                    self._leaving.setdefault(wd, {}).update(
                        {os.path.basename(path): path for path in leaving}
                    )

    def watch_linked(self, path: str) -> None:
        """Report writes to the file at `path`, relative to the root, through any of its hard links."""
        with self._lock:
            if len(self._linked) >= _MAX_LINKED:
                return
            wd = self._add(os.path.join(self._root, path), _CONTENT)
            if wd:
                self._linked.setdefault(wd, set()).add(path)

    def forget(self) -> None:
        """Drop all watches of folders of the tree."""
        with self._lock:
            self._drop(list(self._wd_of))

    def close(self) -> None:
        """End the thread."""
        if self._fd is not None:
            self._fd.stop()
            if self._fd.is_alive():
                self._fd.join(5.0)

    def on_event(self, event: InotifyEvent) -> None:
        """Handle an event, on watchdog's thread."""
        with self._lock:
            name = os.fsdecode(event.name)
            for path in self._files.get(event.wd, ()):
                if name == os.path.basename(path) and event.mask & (
                    _C.IN_CLOSE_WRITE | _C.IN_MOVED_TO | _C.IN_DELETE
                ):
                    self._inbox.settled(path)
            for path in self._linked.get(event.wd, ()):
                if event.mask & (_C.IN_CLOSE_WRITE | _C.IN_ATTRIB):
                    self._inbox.settled(path)
                elif event.mask & _C.IN_MODIFY:
                    self._inbox.unsettled(path)
            if event.mask & (_C.IN_DELETE | _C.IN_MOVED_FROM) and name in self._leaving.get(event.wd, ()):
                self._inbox.unsettled(self._leaving[event.wd][name])
            folder = self._folder_of.get(event.wd)
            if folder is None:
                return
            if event.mask & _SELF:
                if not folder:
                    self._inbox.lose("the local root was moved, deleted or unmounted")
                return
            path = f"{folder}/{name}" if folder else name
            if event.mask & _C.IN_ISDIR:
                self._on_folder(event, path)
            elif event.mask & _SETTLED:
                self._inbox.settled(path)
            else:
                self._inbox.unsettled(path)

    def on_watch_deleted(self, wd: WatchDescriptor) -> None:
        """Remove a watch that the kernel has dropped, on watchdog's thread."""
        with self._lock:
            for watched in (self._files, self._leaving, self._linked, self._ids):
                watched.pop(wd, None)
            folder = self._folder_of.pop(wd, None)
            if folder is not None and self._wd_of.get(folder) == wd:
                del self._wd_of[folder]

    def on_queue_overflow(self) -> None:
        """Report that the kernel has dropped events, on watchdog's thread."""
        limit = _value("fs.inotify.max_queued_events")
        self._inbox.lose(f"more than {limit} changes at once (fs.inotify.max_queued_events)")

    def _on_folder(self, event: InotifyEvent, path: str) -> None:
        """Drop the watches of a moved folder, which have its old name; the scanner sets new ones.

        Do the same for a folder that was deleted while a process has it open. The kernel drops its watch only when the
        last process closes it, perhaps after a new folder of that name was scanned.
        """
        if event.mask & (_C.IN_MOVED_FROM | _C.IN_MOVED_TO | _C.IN_DELETE):
            start = path + "/"
            self._drop([folder for folder in self._wd_of if folder == path or folder.startswith(start)])
        if event.mask & (_C.IN_DELETE | _C.IN_MOVED_FROM):
            self._inbox.unsettled(path)
        else:
            self._inbox.settled(path)

    def _drop(self, folders: list[str]) -> None:
        gone = []
        for folder in folders:
            wd = self._wd_of.pop(folder)
            self._folder_of.pop(wd, None)
            self._leaving.pop(wd, None)
            if wd not in self._files:
                gone.append(wd)
        if self._fd is not None and gone:
            self._fd.remove_callbacks(
                [(WatchDescriptor(wd), self._ids.pop(wd)) for wd in gone if wd in self._ids]
            )

    def _add(self, path: str, mask: Mask = _MASK) -> int | None:
        """Return the watch descriptor; None if a limit was hit, 0 if the folder is gone or unreadable."""
        if self._fd is None:
            return None
        identity = CallbackId(next(self._next_id))
        try:
            wd = self._fd.add_callback(os.fsencode(path), mask, self, identity)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.ENOMEM):
                self._inbox.limited = _limited(error)
                return None
            return 0
        if wd < 0:  # watchdog ignores EACCES
            self._fd.remove_callbacks([(wd, identity)])
            return 0
        # the kernel knows folders, not names: a moved folder comes back with its existing watch
        before, self._ids[wd] = self._ids.get(wd), identity
        if before is not None:
            self._fd.remove_callbacks([(wd, before)])
        return wd


def _limited(error: OSError) -> str:
    """Describe the limit that was hit, the machine's or the user namespace's, and the command to raise it."""
    what = "instances" if error.errno == errno.EMFILE else "watches"
    found = ((value, name) for name in limits.names(what) if (value := _value(name)) is not None)
    value, name = min(found, default=(0, limits.names(what)[0]))
    return f"{name} is {value}, all in use; to raise it: {limits.more(what, name, value)}"


def _value(name: str) -> int | None:
    try:
        return int(Path("/proc/sys", *name.split(".")).read_text())
    except (OSError, ValueError):
        return None
