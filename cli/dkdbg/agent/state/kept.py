"""Keeps the single file that the host has brought to a target in the runtime folder, until its last user has ended.

The file's name has its digest. Each process that uses the file holds a shared lock on it; the process that releases the
last lock removes the file. `receive` holds one while the host is connected; the agent that runs from the file holds
another. The host sends this module to the target as source code (dkdbg.delivery.bring).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import stat
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterator, Optional

#: Environment variable with an ID of the host's run, by which `_signal` finds the processes that the host has started.
ENV_RUN = "DKDBG_RUN"
_NAME = re.compile(r"agent-[0-9a-f]{32}\.pyz")
_MAX_BYTES = 1 << 26


def name_of(digest: str) -> str:
    """Return the file's name in the runtime folder; `digest` is its sha256 in hexadecimal."""
    return "agent-%s.pyz" % digest[:32]


def is_kept(path: str) -> bool:
    """Tell whether a single file was brought here by digest, as opposed to written by `init`."""
    return _NAME.match(os.path.basename(path)) is not None


def hold_own() -> Optional[Hold]:
    """Return a lock on the kept file that this process runs from, so that no process removes the file.

    None if this process runs from another file, or the file is gone or cannot be opened.
    """
    with contextlib.suppress(OSError):
        if is_kept(sys.argv[0]):
            return Hold(sys.argv[0])
    return None


class Hold:
    """A shared lock that keeps every process from removing the file, or the folder unpacked from it.

    Raises:
        FileNotFoundError: the file is missing, or was removed while this waited for the lock.
        OSError: it cannot be opened.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        self._locked = False
        try:
            fcntl.flock(self.file, fcntl.LOCK_SH)
            self._locked = True
        except OSError:
            pass  # a file system without locks: then the file is never removed
        if not self._is_current():
            os.close(self.file)
            raise FileNotFoundError(path)

    def release(self) -> None:
        """Release the lock, and remove the file and its unpacked folder if no other process holds it."""
        with contextlib.suppress(OSError):
            if self._locked:
                fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if self._is_current():
                    _remove(self.path)
        os.close(self.file)

    def _is_current(self) -> bool:
        try:
            return os.path.samestat(os.lstat(self.path), os.fstat(self.file))
        except OSError:
            return False


def _remove(path: str) -> None:
    """Remove the file and the folder unpacked from it.

    The folder is renamed first, so that a process that brings the file anew never unpacks into the old one.
    """
    folder = path[: -len(".pyz")] if path.endswith(".pyz") else path
    aside = "%s.%d.old" % (folder, os.getpid())
    with contextlib.suppress(OSError):
        os.rename(folder, aside)
    if folder != path:
        os.unlink(path)
        with contextlib.suppress(OSError):
            os.unlink(_python_of(path))
    shutil.rmtree(aside, ignore_errors=True)


def _python_of(path: str) -> str:
    """Return the name of the link to the Python that received the file, which agent.sh tries first."""
    return path[: -len(".pyz")] + ".python"


def _link_python(path: str) -> None:
    """Link to this Python, for `attach`, `ps` and the relay to run the file later: PATH may have no Python then."""
    link = _python_of(path)
    new = "%s.%d.new" % (link, os.getpid())
    with contextlib.suppress(OSError):
        os.symlink(sys.executable, new)
        os.rename(new, link)


def receive(nonce: str, runtime: str) -> int:
    """Serve the host on standard streams: take the file unless it is present, and hold it until the host leaves.

    Output lines are `NONCE WORD JSON`. The host sends `DIGEST SIZE`, then the file if the answer is `want`, and may
    later send `signal NUMBER RUN`. Returns the exit code.

    Args:
        nonce: first word of each output line, so that the host recognises them among a login shell's output.
        runtime: the runtime folder, already created and checked.
    """
    fields = sys.stdin.buffer.readline(200).split()
    if len(fields) != 2 or not re.match(rb"[0-9a-f]{64}$", fields[0]) or not 0 < int(fields[1]) < _MAX_BYTES:
        return 1
    digest, size = fields[0].decode(), int(fields[1])
    path = os.path.join(runtime, name_of(digest))
    try:
        hold = _present(path, digest)
        while hold is None:
            say(nonce, "want")
            if not _take(path, digest, size):
                say(nonce, "refused", "the file was corrupted in transfer")
                return 1
            hold = _present(path, digest)
    except OSError as error:
        say(nonce, "refused", "%s: %s" % (error.filename or runtime, error.strerror))
        return 1
    _link_python(path)
    say(nonce, "kept", path)
    try:
        for line in iter(lambda: sys.stdin.buffer.readline(200), b""):
            fields = line.split()
            if len(fields) == 3 and fields[0] == b"signal" and fields[1].isdigit():
                _signal(int(fields[1]), path, fields[2])
    finally:
        hold.release()
    return 0


def say(nonce: str, word: str, value: object = None) -> None:
    """Write one line to the host."""
    import json

    sys.stdout.write("%s %s %s\n" % (nonce, word, json.dumps(value)))
    sys.stdout.flush()


def _present(path: str, digest: str) -> Optional[Hold]:
    """Hold the file if it is present, complete and private to this user; else return None."""
    try:
        hold = Hold(path)
    except OSError:
        return None
    info = os.fstat(hold.file)
    private = stat.S_ISREG(info.st_mode) and info.st_uid == os.geteuid() and not info.st_mode & 0o022
    if private and _digest_of(hold.file) == digest:
        return hold
    os.close(hold.file)
    os.unlink(path)
    return None


def _digest_of(file: int) -> str:
    import hashlib

    digest, offset = hashlib.sha256(), 0
    while True:
        data = os.pread(file, 1 << 20, offset)
        if not data:
            return digest.hexdigest()
        digest.update(data)
        offset += len(data)


def _take(path: str, digest: str, size: int) -> bool:
    """Read the file from standard input and put it in place; return False if its size or digest is not as announced.

    Do not replace a file that another process has put there meanwhile: that process's lock would not cover ours.
    """
    import hashlib

    data = sys.stdin.buffer.read(size)
    if len(data) != size or hashlib.sha256(data).hexdigest() != digest:
        return False
    new = "%s.%d.new" % (path, os.getpid())
    file = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(file, "wb") as out:
            out.write(data)
        _place(new, path)
    except OSError:
        os.unlink(new)
        raise
    return True


def _place(new: str, path: str) -> None:
    try:
        os.link(new, path)
    except OSError:  # the file exists already, or the file system has no hard links
        if not _is_file(path):
            os.rename(new, path)
            return
    os.unlink(new)


def _is_file(path: str) -> bool:
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False


def _signal(number: int, path: str, run: bytes) -> None:
    """Send a signal to the agent that runs from `path` with `run` in its environment."""
    for pid in _started_by(path, run) if os.path.exists("/proc/self") else _recorded(path, run):
        with contextlib.suppress(OSError):
            os.kill(pid, number)


def _started_by(path: str, run: bytes) -> Iterator[int]:
    argument, variable = os.fsencode(path), ENV_RUN.encode() + b"=" + run
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            with open("/proc/%s/cmdline" % pid, "rb") as source:
                if argument not in source.read().split(b"\0"):
                    continue
            with open("/proc/%s/environ" % pid, "rb") as source:
                if variable in source.read().split(b"\0"):
                    yield int(pid)


def _recorded(path: str, run: bytes) -> Iterator[int]:
    """Yield the pids of agents with `run` from the session records, for macOS, which has no /proc."""
    import json

    runtime = os.path.dirname(path)
    for name in os.listdir(runtime):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            with open(os.path.join(runtime, name, "session.json")) as source:
                record = json.load(source)
            if record["run"] == run.decode() and record["exit_code"] is None:
                yield record["pid"]
