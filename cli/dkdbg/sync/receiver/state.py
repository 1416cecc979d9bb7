"""Sync's own folder in the root, `.dkdbg-sync/`: private, used by one receiver at a time, removed if unused."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import stat
import time

from dkdbg.sync.receiver import paths, tree
from dkdbg.sync.receiver.problems import Fatal, unwritable, user_name

_OWN = paths.OWN.encode()
TEMPORARY = b"tmp"
KEPT = b"kept"
#: Prefix of incomplete large files.
PART = b"part-"
_LOCK, _PROBE = b"lock", "probe-"
_SOURCE, _MAX_SOURCE_BYTES = b"source", 4096
_LOCK_TIMEOUT_S = 5.0
_MAX_PART_AGE_S = 24 * 3600


class State:
    """The opened folder `.dkdbg-sync/`.

    Attributes:
        folder: descriptor of `.dkdbg-sync`; -1 if it is missing in read-only use.
        temporary: descriptor of `.dkdbg-sync/tmp`; -1 in read-only use.
        made: whether this receiver has created the folder.
        probe: path of the probe (`make_probe`) relative to the root, or empty.
        case_sensitive: whether `a` and `A` are two files in the root.
    """

    def __init__(self, root: tree.Tree, name: str, *, write: bool, by: str = "") -> None:
        """Open or create the folder.

        Args:
            root: the tree.
            name: the root as the user named it, for messages.
            write: False for read-only use: nothing is made or locked.
            by: description of the host's process, shown to another sync that cannot get the lock.

        Raises:
            Fatal: the folder cannot be created, belongs to another user, or another receiver holds its lock.
        """
        self.tree = root
        self.made = False
        self.probe = ""
        self.case_sensitive = True
        self.temporary = self.folder = self._lock = -1
        try:
            self._open_own(name, write)
            if write:
                is_alone = self._take_lock(by)
                self.temporary = self._subfolder(TEMPORARY)
                self._write_once(b".gitignore", b"*\n")
                self._clean()
                if is_alone:
                    self._remove_probes()
                self.case_sensitive = self._probe_case()
        except OSError as error:
            raise unwritable(name, os.fstat(root.root), error) from error

    def _open_own(self, name: str, write: bool) -> None:
        if write:
            try:
                self.tree.make_folder(self.tree.root, _OWN, 0o700)
                self.made = True
            except FileExistsError:
                pass
        try:
            self.folder = tree.open_below(self.tree.root, _OWN)
        except OSError as error:
            if error.errno == errno.ENOENT and not write:
                return
            if error.errno in (errno.ENOTDIR, errno.ELOOP):
                raise Fatal(
                    "%s in %s is a symlink or a file, not a folder for sync's ledger" % (paths.OWN, name),
                    "remove it",
                ) from None
            if error.errno == errno.EACCES:
                info = os.stat(_OWN, dir_fd=self.tree.root, follow_symlinks=False)
                raise _other_owner(name, info) from None
            raise
        info = os.fstat(self.folder)
        if info.st_uid not in (os.geteuid(), os.fstat(self.tree.root).st_uid):
            raise _other_owner(name, info)
        if write and info.st_mode & 0o777 != 0o700:
            os.fchmod(self.folder, 0o700 | (info.st_mode & stat.S_ISGID))

    def _subfolder(self, name: bytes) -> int:
        with contextlib.suppress(FileExistsError):
            self.tree.make_folder(self.folder, name, 0o700)
        return tree.open_below(self.folder, name)

    def _write_once(self, name: bytes, data: bytes) -> None:
        try:
            descriptor = tree.create_file(self.folder, name)
        except FileExistsError:
            return
        self.tree.own(descriptor)
        os.write(descriptor, data)
        os.close(descriptor)

    def take_source(self, source: str) -> str:
        """Record the host's folder (`ID NUL PATH`); return the path of another folder recorded before, or "".

        The ledger of another folder is deleted, so that entries from there are neither deleted nor overwritten
        without a copy. A record of an earlier version has no ID and counts as different: another
        machine may have the same path.
        """
        recorded = source.encode("utf-8", "surrogateescape")[:_MAX_SOURCE_BYTES]  # a path need not be UTF-8
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(_SOURCE, flags, 0o600, dir_fd=self.folder)
        try:
            former = os.read(descriptor, _MAX_SOURCE_BYTES)
            if former == recorded:
                return ""
            if former:
                tree.remove(self.folder, b"ledger")
            self.tree.own(descriptor)
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, recorded, 0)
        finally:
            os.close(descriptor)
        return former.rpartition(b"\0")[2].decode("utf-8", "replace")

    def _take_lock(self, by: str) -> bool:
        """Lock the folder until this process ends. Return False on a file system without locks."""
        import fcntl

        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        self._lock = os.open(_LOCK, flags, 0o600, dir_fd=self.folder)
        info = os.fstat(self._lock)
        if not stat.S_ISREG(info.st_mode) or info.st_nlink > 1:
            raise Fatal("%s/lock is not a regular file, or has other hard links" % paths.OWN, "remove it")
        end = time.monotonic() + _LOCK_TIMEOUT_S
        while True:
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= end:
                    raise Fatal(
                        "another sync is writing to this folder on the target: %s"
                        % _holder(os.pread(self._lock, 4096, 0)),
                        "stop that sync, or wait for it to end; after a lost connection that takes up to 5 minutes",
                    ) from None
                time.sleep(0.02)
            except OSError:
                return False
        if os.fstat(self._lock).st_nlink == 0:
            raise Fatal("another sync has just removed .dkdbg-sync/ on the target", "start sync again")
        self.tree.own(self._lock)
        os.ftruncate(self._lock, 0)
        os.pwrite(self._lock, json.dumps(dict(_myself(), by=by)).encode("ascii"), 0)
        return True

    def _clean(self) -> None:
        """Remove an earlier receiver's files from tmp/, except parts of large files, which can be resumed."""
        now = time.time()
        for name in os.listdir(self.temporary):
            encoded = os.fsencode(name)
            info = tree.lstat_at(self.temporary, encoded)
            if info is None:
                continue
            young = encoded.startswith(PART) and now - info.st_mtime < _MAX_PART_AGE_S
            if not (young and stat.S_ISREG(info.st_mode)):
                with contextlib.suppress(OSError):
                    os.unlink(encoded, dir_fd=self.temporary)

    def _remove_probes(self) -> None:
        """Remove the probes of killed receivers; none of them can be running, because this one has the lock."""
        for name in os.listdir(self.folder):
            if name.startswith(_PROBE):
                with contextlib.suppress(OSError):
                    tree.remove(self.folder, os.fsencode(name))

    def _probe_case(self) -> bool:
        name = b"case-%s" % os.urandom(6).hex().encode()
        os.close(tree.create_file(self.temporary, name))
        try:
            return tree.lstat_at(self.temporary, name.upper()) is None
        finally:
            tree.remove(self.temporary, name)

    def make_probe(self) -> None:
        """Create a file with a random name: the host looks for it in its own folder, to detect a shared folder."""
        name = _PROBE + os.urandom(16).hex()
        os.close(tree.create_file(self.folder, name.encode()))
        self.probe = "%s/%s" % (paths.OWN, name)

    def remove_probe(self) -> None:
        """Remove the probe, if any."""
        if self.probe:
            tree.remove(self.folder, self.probe.rpartition("/")[2].encode())
            self.probe = ""

    def remove_if_unused(self) -> None:
        """Remove the folder if this receiver made it and put nothing into it."""
        tree.remove(self.folder, b"ledger")
        tree.remove(self.folder, b".gitignore")
        tree.remove(self.folder, _SOURCE)
        try:
            os.rmdir(TEMPORARY, dir_fd=self.folder)
            tree.remove(self.folder, _LOCK)
            os.rmdir(_OWN, dir_fd=self.tree.root)
        except OSError:
            pass


def _myself() -> dict[str, object]:
    return {
        "pid": os.getpid(),
        "user": user_name(os.geteuid()),
        "host": os.uname().nodename,
        "since": time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime()),
    }


def _holder(data: bytes) -> str:
    """Describe the writer of the lock, as far as possible."""
    try:
        who = json.loads(data)
        by = "%.100s, through " % who["by"] if who.get("by") else ""
        return by + "pid %d of %.60s on %.60s, since %.40s" % (
            who["pid"],
            who["user"],
            who["host"],
            who["since"],
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return "its process is unknown"


def _other_owner(name: str, info: os.stat_result) -> Fatal:
    return Fatal(
        "%s in %s belongs to %s, and sync runs as %s on the target"
        % (paths.OWN, name, user_name(info.st_uid), user_name(os.geteuid())),
        "run sync as that user, or remove the folder",
    )
