"""Watches source files by polling their modification times, and compiles them before the program does.

inotify does not work on a bind mount of Docker Desktop or on a network file system. Polling is cheap enough: a folder
is listed again only when its modification time has changed, so a poll costs one stat(2) per folder and source file.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Dict, Iterable, List, Optional, Tuple

    #: Modification time in nanoseconds, size, inode: a rename over a file changes at least the inode.
    Stamp = Tuple[int, int, int]

#: Minimum seconds between two polls; the pause grows so that polling takes at most a tenth of the time.
INTERVAL_S = 0.25
#: Seconds of quiet before a change counts: editors save in several steps, git writes many files.
QUIET_S = 0.1
#: Seconds of quiet before a change to an empty file counts: it is probably still being written.
QUIET_EMPTY_S = 0.5
#: Maximum seconds to wait for quiet: a program may keep writing a source file.
MAX_CHANGING_S = 5.0
#: Maximum folders to watch; a larger tree probably holds a data set.
MAX_FOLDERS = 20000
_IGNORED = {"__pycache__", "node_modules", "site-packages", "dist-packages", "venv", "env"}
_ENVIRONMENT_FILES = ("pyvenv.cfg", "conda-meta")


class Watcher:
    """Polls the files below some folders in its own thread.

    Args:
        folders: absolute paths; hidden folders, caches, environments and links to folders below them are skipped.
        suffixes: suffixes of watched files.
        without: further folders to skip.
        on_change: called in the watcher's thread with the changed, new and removed files.
        log: takes one line for the user.
    """

    def __init__(
        self,
        folders: Iterable[str],
        suffixes: Tuple[str, ...],
        *,
        without: Iterable[str] = (),
        on_change: Callable[[List[str]], None],
        log: Callable[[str], None],
    ) -> None:
        self._roots = list(folders)
        self._suffixes = suffixes
        self._without = [os.path.abspath(folder) for folder in without]
        self._on_change = on_change
        self._log = log
        self._stop = threading.Event()
        #: By folder: its modification time when it was listed, its subfolders and its files.
        self._listed: Dict[str, Tuple[int, List[str], List[str]]] = {}
        self._said_full = False

    def start(self) -> None:
        """Start watching for changes from the present state."""
        threading.Thread(target=self._watch, name="dkdbg reload", daemon=True).start()

    def stop(self) -> None:
        """Stop watching."""
        self._stop.set()

    def scan(self) -> Dict[str, Stamp]:
        """Return every watched file with its stamp."""
        found: Dict[str, Stamp] = {}
        seen = {(info.st_dev, info.st_ino) for info in map(_stat, self._without) if info is not None}
        listed: Dict[str, Tuple[int, List[str], List[str]]] = {}
        pending = list(reversed(self._roots))
        while pending:
            folder = pending.pop()
            info = _stat(folder)
            if info is None or (info.st_dev, info.st_ino) in seen:
                continue
            seen.add((info.st_dev, info.st_ino))
            if len(seen) > MAX_FOLDERS:
                self._say_full(folder)
                break
            entry = self._listed.get(folder)
            # The mtime may be coarse, and would not show a change right after the listing: list a young folder again.
            if entry is None or entry[0] != info.st_mtime_ns or time.time_ns() - info.st_mtime_ns < 2 * 10**9:
                entry = (info.st_mtime_ns, *self._list(folder, top=folder in self._roots))
            listed[folder] = entry
            pending.extend(entry[1])
            for path in entry[2]:
                info = _stat(path)
                if info is not None:
                    found[path] = info.st_mtime_ns, info.st_size, info.st_ino
        self._listed = listed
        return found

    def _watch(self) -> None:
        known = self.scan()
        while not self._stop.is_set():
            begin = time.monotonic()
            now = self.scan()
            took = time.monotonic() - begin
            if now != known:
                now = self._settled(known, now)
                changed = _difference(known, now)
                known = now
                if changed and not self._stop.is_set():
                    with contextlib.suppress(
                        Exception
                    ):  # watching continues whatever the program's files hold
                        self._on_change(changed)
            self._stop.wait(max(INTERVAL_S, 9 * took))

    def _settled(self, before: Dict[str, Stamp], now: Dict[str, Stamp]) -> Dict[str, Stamp]:
        """Return the files and stamps once they have stopped changing, or after MAX_CHANGING_S."""
        end = time.monotonic() + MAX_CHANGING_S
        while not self._stop.is_set() and time.monotonic() < end:
            empty = any(path in now and now[path][1] == 0 for path in _difference(before, now))
            self._stop.wait(QUIET_EMPTY_S if empty else QUIET_S)
            later = self.scan()
            if later == now:
                break
            now = later
        return now

    def _list(self, folder: str, *, top: bool) -> Tuple[List[str], List[str]]:
        folders: List[str] = []
        files: List[str] = []
        with contextlib.suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                if entry.name in _ENVIRONMENT_FILES and not top:
                    return [], []
                if entry.name.endswith(self._suffixes):
                    files.append(entry.path)
                elif entry.name.startswith(".") or entry.name in _IGNORED:
                    continue
                elif entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
        return sorted(folders), files

    def _say_full(self, folder: str) -> None:
        if not self._said_full:
            self._said_full = True
            self._log("more than %d folders: those from %s on are not watched" % (MAX_FOLDERS, folder))


def _stat(path: str) -> Optional[os.stat_result]:
    try:
        return os.stat(path)
    except OSError:
        return None


def _difference(before: Dict[str, Stamp], now: Dict[str, Stamp]) -> List[str]:
    return sorted(path for path in {*before, *now} if before.get(path) != now.get(path))


def syntax_error(path: str, other_python: str = "") -> str:
    """Return why a Python file cannot be compiled, as `FILE:LINE: reason`; empty when it can, or is gone.

    Args:
        path: the file.
        other_python: the program's interpreter, tried if the agent's own fails: it may be a newer version.
    """
    import warnings

    try:
        with open(path, "rb") as source:
            text = source.read()
    except OSError:
        return ""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(text, path, "exec", dont_inherit=True)
    except SyntaxError as error:
        if other_python and _compiles(path, other_python):
            return ""
        return "%s:%d: %s: %s" % (path, error.lineno or 0, type(error).__name__, error.msg)
    except ValueError as error:  # null bytes, before Python 3.12
        return "%s:1: %s" % (path, error)
    except (RecursionError, MemoryError):
        pass
    return ""


def _compiles(path: str, python: str) -> bool:
    import subprocess

    code = "import sys; compile(open(sys.argv[1], 'rb').read(), sys.argv[1], 'exec'); print('ok')"
    try:
        done = subprocess.run(
            [python, "-I", "-S", "-c", code, path],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return False
    # The exit code is unreliable: an agent that is a container's process 1 reaps all children, perhaps this one too.
    return done.stdout == b"ok\n"
