"""Session records in the runtime folder: written atomically, validated when read."""

from __future__ import annotations

import contextlib
import json
import os
import time

from dkdbg.agent import contract
from dkdbg.agent.state import announced, procfs, runtime_dir

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Collection, Dict, List, Optional, Set, Tuple

#: Finished sessions to keep for `sessions`.
MAX_FINISHED = 20
#: Seconds without a change after which a session of another machine, or from before a reboot, counts as ended.
_LEFT_AFTER_S = 30 * 24 * 3600.0


def write_json(path: str, value: object) -> None:
    """Write a file of mode 0600 atomically: a reader sees the old or the new content, never a part. Raises OSError."""
    temporary = "%s.%d.tmp" % (path, os.getpid())
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w") as out:
        out.write(json.dumps(value))  # faster than `dump`, which does not use the C encoder
    os.replace(temporary, path)


def first_record(
    *, session_id: str, name: str, host: str, port: int, debugpy: str, argv: List[str], run: str = ""
) -> contract.Record:
    """Return the initial record of a session that this process has just opened."""
    import platform
    import sys

    from dkdbg.agent.state import batch, deadlines, mapping

    now = time.time()
    return {
        "version": contract.RECORD_VERSION,
        "id": session_id,
        "name": name,
        "pid": os.getpid(),
        "pid_start": procfs.start_ticks(os.getpid()),
        "pid_namespace": procfs.pid_namespace(),
        "boot": procfs.boot_id(),
        "host": host,
        "port": port,
        "adapter_up": False,
        "state": "starting",
        "client": False,
        "child": None,
        "python": "%s (%s)" % (platform.python_version(), sys.executable),
        "debugpy": debugpy,
        "argv": argv,
        "cwd": os.getcwd(),
        "started": now,
        "updated": now,
        "expires": None,
        "exit_code": None,
        "runs": 0,
        "last_exit_code": None,
        "detail": "",
        "jobs": batch.jobs(os.environ),
        "run": run,
        "deadlines": deadlines.of_environment(os.environ),
        "mappings": mapping.of_this_machine(),
        "processes": [],
    }


#: Fields that a record must have, and their types.
_FORM: Dict[str, Tuple[type, ...]] = {
    "id": (str,), "state": (str,), "pid_namespace": (str,), "pid": (int,), "started": (int, float),
    "pid_start": (int, type(None)),
}  # fmt: skip


def read_record(session_dir: str) -> Optional[contract.Record]:
    """Return the record in a session's folder; None when it is missing or unreadable."""
    try:
        with open(os.path.join(session_dir, contract.RECORD_NAME)) as source:
            record = json.load(source)
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(record, dict) or record.get("version") != contract.RECORD_VERSION:
        return None
    if not all(isinstance(record.get(name), kinds) for name, kinds in _FORM.items()):
        return None  # a damaged record must not hide the others
    known: contract.Record = record  # type: ignore[assignment]  # our own file, version checked
    return known


def list_records(folder: Optional[str] = None) -> List[contract.Record]:
    """Return all records in a runtime folder, or in all runtime folders of this user here, oldest session first.

    Args:
        folder: one runtime folder; if it is missing or another user's, the result is empty.
    """
    found = []
    for base in runtime_dir.folders() if folder is None else [folder]:
        try:
            owner = os.stat(base).st_uid
            names = os.listdir(base)
        except OSError:
            continue
        if owner in (os.getuid(), os.geteuid()) or os.getuid() == 0:
            found += [read_record(os.path.join(base, name)) for name in names]
    return sorted((record for record in found if record is not None), key=lambda record: record["started"])


def folder_of(record: contract.Record) -> str:
    """Return the folder of a session that `list_records` has listed."""
    found = [os.path.join(base, record["id"]) for base in runtime_dir.folders()]
    existing = [each for each in found if os.path.exists(os.path.join(each, contract.RECORD_NAME))]
    return (existing or [os.path.join(runtime_dir.default_runtime_dir(), record["id"])])[0]


def is_live(record: contract.Record) -> bool:
    """Tell whether the agent that wrote the record still runs.

    Several PID namespaces or machines may share a runtime folder. A record of another one counts as not live: its pid
    means nothing here.
    """
    if record["state"] == "exited":
        return False
    boot = procfs.boot_id()
    if record["pid_namespace"] != procfs.pid_namespace() or record.get("boot", boot) != boot:
        return False
    if not procfs.alive(record["pid"]):
        return False
    return record["pid_start"] is None or procfs.start_ticks(record["pid"]) == record["pid_start"]


def live_records(names: Collection[str] = ()) -> List[contract.Record]:
    """Return this user's live sessions here, oldest first; with `names` only those whose name or id is among them."""
    live = [record for record in list_records() if is_live(record)]
    return [record for record in live if not names or {record["name"], record["id"]} & set(names)]


def newest(name: Optional[str]) -> Optional[contract.Record]:
    """Return the newest live session, or the newest with this name or id; None if there is no such session."""
    found = live_records([] if name is None else [name])
    return found[-1] if found else None


def trouble(folder: Optional[str] = None) -> str:
    """Return in one line why no debugger can attach to the newest live session now; empty when one can.

    For health checks: it reads records and /proc, and opens no connection.
    """
    found = list_records(folder)
    if not found:
        return "no session in %s" % (folder or runtime_dir.default_runtime_dir())
    live = [record for record in found if is_live(record)]
    last = (live or found)[-1]
    if last["state"] == "exited":
        end = ": %s" % last["detail"] if last["exit_code"] is None else " with code %d" % last["exit_code"]
        return "the last session, %s, has ended%s" % (last["id"], end)
    if not live:
        return "the agent of session %s (pid %d) is gone" % (last["id"], last["pid"])
    return _trouble_of(last, procfs.listening_ports())


def _trouble_of(record: contract.Record, listening: Optional[Set[int]]) -> str:
    if record["state"] not in contract.ATTACHABLE:
        return "session %s is %s" % (record["id"], record["state"])
    if listening is not None and record["port"] not in listening:
        return "port %d is not listening" % record["port"]
    return "" if record["adapter_up"] else "debugpy's adapter is gone"


def prune(folder: str) -> None:
    """Remove the folders of finished sessions, except for the newest MAX_FINISHED. Ignores errors.

    In the folders that stay, remove what a killed agent has left, such as its sockets and its token.
    """
    import shutil

    namespace, boot = procfs.pid_namespace(), procfs.boot_id()
    # A session of another machine that is not recorded as exited may still run there.
    finished = [
        r
        for r in list_records(folder)
        if r["pid_namespace"] == namespace
        and (
            r["state"] == "exited"
            or (not is_live(r) and (r.get("boot") == boot or _is_old(os.path.join(folder, r["id"]))))
        )
    ]
    for record in finished[:-MAX_FINISHED]:
        shutil.rmtree(os.path.join(folder, record["id"]), ignore_errors=True)
    for record in finished[-MAX_FINISHED:]:
        if record["state"] != "exited":
            _clear(os.path.join(folder, record["id"]), contract.LOCK_NAME)


def _is_old(directory: str) -> bool:
    """Tell whether a session's record has not changed for so long that no agent elsewhere can still have it."""
    try:
        changed = os.stat(os.path.join(directory, contract.RECORD_NAME)).st_mtime
    except OSError:
        return False
    return changed < time.time() - _LEFT_AFTER_S


def _clear(directory: str, last: str) -> None:
    """Remove the files that only a running agent needs from a session's folder; `last` is removed last."""
    import shutil

    shutil.rmtree(os.path.join(directory, contract.USERS_NAME), ignore_errors=True)
    for name in (contract.JOIN_NAME, contract.RANKS_NAME, contract.HELD_NAME):
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(directory, name))
    processes = os.path.join(directory, contract.PROCESSES_NAME)
    shutil.rmtree(os.path.realpath(processes), ignore_errors=True)
    if os.path.islink(processes):
        os.unlink(processes)
    with contextlib.suppress(OSError):
        os.unlink(os.path.join(directory, last))


def _own_folder(path: str) -> Tuple[str, int]:
    """Create the folder PATH-PID, and return it with the descriptor of its lock.

    A folder left by an earlier agent with the same pid is emptied and used again. If an agent in another PID namespace
    or on another machine holds its lock, the folder is PATH.2-PID. Where locks do not work (the file system has none,
    or does not share them between machines), this agent takes the folder away from the other one.
    """
    import shutil

    number = 1
    while True:
        directory = "%s%s-%d" % (path, ".%d" % number if number > 1 else "", os.getpid())
        with contextlib.suppress(FileExistsError):
            os.mkdir(directory, mode=0o700)
        lock = _lock(os.path.join(directory, contract.LOCK_NAME))
        if lock is not None:
            os.chmod(directory, 0o700)  # see `open_for_users`
            _clear(directory, contract.RECORD_NAME)
            for entry in list(os.scandir(directory)):
                if entry.is_dir(follow_symlinks=False):
                    shutil.rmtree(entry.path, ignore_errors=True)
                elif entry.name != contract.LOCK_NAME:
                    os.unlink(entry.path)
            return directory, lock
        number += 1


def _lock(path: str) -> Optional[int]:
    """Return the descriptor of a locked file, None where another agent has it. Raises OSError."""
    try:  # NFS locks only files that are open for writing
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except FileNotFoundError:  # the folder was removed meanwhile
        return None
    try:
        is_locked = runtime_dir.lock(lock)
    except OSError:  # a file system without locks
        is_locked = True
    if is_locked and os.fstat(lock).st_nlink:  # 0: its former agent has removed the file meanwhile
        return lock
    os.close(lock)
    return None


class SessionStore:
    """Owner of one session's folder; the only writer of its record.

    The folder holds `session.json`, `lock`, `p/` (a file and a socket for each Python process) and, only while an
    editor is attached, `join.json`.

    Attributes:
        lets_join: whether `join.json` exists.
        users: by uid, the folders in which processes of other users announce themselves; see `let_in`.
        folders: all folders in which processes announce themselves.
    """

    def __init__(self, folder: str, name: str) -> None:
        import threading

        safe = "".join(c if c.isalnum() or c in "-_." else "-" for c in name)[:24].strip(".-") or "session"
        self.lets_join = False
        self.users: Dict[int, str] = {}
        self.directory, self._held = _own_folder(os.path.join(folder, safe))
        self.id = os.path.basename(self.directory)
        # A Unix socket's path has at most 107 bytes, and a pid up to 7 digits: if the session's path is too long, the
        # sockets get a folder with a short path in its place.
        self.processes_dir = os.path.join(self.directory, contract.PROCESSES_NAME)
        os.mkdir(self.processes_dir, mode=0o700)
        if len(os.fsencode(self.processes_dir)) > 90:
            import tempfile

            short = tempfile.mkdtemp(prefix="dkdbg-", dir="/tmp")
            os.rmdir(self.processes_dir)
            os.symlink(short, self.processes_dir)
            self.processes_dir = short
        self.folders = announced.Folders(self.processes_dir, self.users)
        self._join_info: Optional[contract.JoinInfo] = None
        self._lock = threading.Lock()
        self._record: Optional[contract.Record] = None
        self._ready = ""

    def create(self, record: contract.Record) -> None:
        """Write the initial record."""
        with self._lock:
            self._record = record
            self._save()

    def update(self, **fields: object) -> None:
        """Change fields of the record and write it if anything has changed.

        Ignores write errors: a full or removed disk must not stop the user's program.
        """
        with self._lock:
            record = self._record
            if record is None or all(record.get(key) == value for key, value in fields.items()):
                return
            record.update(fields)  # type: ignore[typeddict-item]  # keys are checked by the tests of the record
            with contextlib.suppress(OSError):
                self._save()

    def snapshot(self) -> contract.Record:
        """Return a copy of the record as last written."""
        with self._lock:
            if self._record is None:
                raise RuntimeError("create() comes first")
            return self._record.copy()

    def open_for_joining(self, info: contract.JoinInfo) -> None:
        """Tell every Python process that starts from now on to join."""
        write_json(os.path.join(self.directory, contract.JOIN_NAME), info)
        self.lets_join, self._join_info = True, info
        for uid in list(self.users):
            self._let_join(uid, info)

    def close_for_joining(self) -> None:
        """Make new Python processes start without the debugger again."""
        self.lets_join, self._join_info = False, None
        for directory in (self.directory, *map(self._folder_of, self.users)):
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(directory, contract.JOIN_NAME))

    def open_for_users(self) -> None:
        """Let other users pass through the session's folder to their own folders, but not read it. Raises OSError."""
        users = os.path.join(self.directory, contract.USERS_NAME)
        os.mkdir(users)
        for folder in (users, self.directory, os.path.dirname(self.directory)):
            os.chmod(folder, 0o711)  # noqa: S103 - to be passed through, not to be read

    def close_for_users(self) -> None:
        """Remove the other users' folders."""
        import shutil

        self.users.clear()
        shutil.rmtree(os.path.join(self.directory, contract.USERS_NAME), ignore_errors=True)

    def let_in(self, uid: int, gid: int) -> None:
        """Accept processes of another user, which only root can. The caller has checked that they run below the agent.

        Raises:
            OSError: a folder cannot be created or handed over.
        """
        folder = self._folder_of(uid)
        processes = os.path.join(folder, contract.PROCESSES_NAME)
        os.mkdir(folder)
        os.chmod(folder, 0o711)  # noqa: S103 - not writable for that user, who could replace our files by links
        self.users[uid] = processes
        if self._join_info is not None:
            self._let_join(uid, self._join_info)
        os.mkdir(processes, 0o700)
        os.utime(processes, (0, 0))  # an announcement changes this mtime (hook_check.py)
        os.chown(processes, uid, gid)  # must be last: a process of that user waits for it

    def _folder_of(self, uid: int) -> str:
        return os.path.join(self.directory, contract.USERS_NAME, str(uid))

    def _let_join(self, uid: int, info: contract.JoinInfo) -> None:
        folder = self._folder_of(uid)
        adapter = os.path.join(folder, contract.ADAPTER_NAME)
        with contextlib.suppress(OSError):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(adapter)
            # A hard link to the same socket: only the users who may pass through its folders can reach it.
            os.chmod(info["adapter"], 0o666)  # noqa: S103
            os.link(info["adapter"], adapter)
            with contextlib.suppress(OSError):
                clocks = os.path.join(self.directory, contract.HELD_NAME)
                os.chmod(clocks, 0o644)
                os.link(clocks, os.path.join(folder, contract.HELD_NAME))
            scratch = os.path.join(folder, "new")
            write_json(scratch, dict(info, adapter=adapter))
            os.chown(scratch, uid, -1)
            os.rename(scratch, os.path.join(folder, contract.JOIN_NAME))

    def finish(self) -> None:
        """Remove everything but the record."""
        _clear(self.directory, contract.LOCK_NAME)
        os.close(self._held)

    def _save(self) -> None:
        if self._record is not None:
            self._record["updated"] = time.time()
            write_json(os.path.join(self.directory, contract.RECORD_NAME), self._record)
            self._save_ready(self._record)

    def _save_ready(self, record: contract.Record) -> None:
        path = os.path.join(os.path.dirname(self.directory), contract.READY_NAME)
        is_ready = record.get("state") in contract.ATTACHABLE and record.get("adapter_up")
        if not is_ready and not self._ready:
            with contextlib.suppress(OSError):
                os.unlink(path)  # left by an earlier session
            return
        agent = "%d %04X" % (record["pid"], record["port"]) if is_ready else contract.NOT_READY
        if self._ready.startswith(agent):
            return
        self._ready = "%s %d\n" % (agent, procfs.uptime() * 100)
        temporary = "%s.%d.tmp" % (path, os.getpid())
        with open(temporary, "w") as out:
            out.write(self._ready)
        os.replace(temporary, path)
