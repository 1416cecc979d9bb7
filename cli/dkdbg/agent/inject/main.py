"""`enter PID[,PID...]`: opens a session around running Python processes, which it neither starts nor ends.

It enters a Python 3.14 through `sys.remote_exec` (PEP 768), an older one by ptrace (injection.py). Both make the
process's main thread announce itself to the session (inprocess/entered.py) before its next bytecode. From then on it is
like any process below the agent. For the host, the agent reports each result as a line of JSON on standard output, and
ends when its standard input ends.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import threading
import time

from dkdbg.agent import contract
from dkdbg.agent.inject import injection
from dkdbg.agent.inprocess import entered
from dkdbg.agent.state import procfs
from dkdbg.agent.supervisor import child, hook_folder, options, program_env, session
from dkdbg.launchers import registry
from dkdbg.launchers.words import whole_number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, List, Optional, Set, Tuple


#: Seconds after which a process is reported whose main thread has not returned to Python code.
TIMEOUT_S = 5.0
#: Seconds for a call of `sys.remote_exec`.
_REMOTE_EXEC_TIMEOUT_S = 20.0
_PEP_768 = (3, 14)
#: Maximum ranks of a job, from 0 on, to check for ranks that are not attached to.
_MAX_RANKS = 64
_NAME = re.compile(r"(?:lib)?python(\d+)\.(\d+)")


class RefusedError(Exception):
    """A process cannot be attached to; the text explains why."""


def processes(text: str) -> List[int]:
    """Parse the pids in `7,8`. Raises ValueError: a part of the text is not a pid."""
    found = [pid for each in text.split(",") if (pid := whole_number(each, 999_999_999))]
    if len(found) != len(text.split(",")):
        raise ValueError("enter: expected PIDs such as 7 or 7,8, not %r" % text)
    return found


def main(argv: List[str], usage: str) -> int:
    """Attach to the processes, and stay while one lives and the host is connected; return the exit code.

    Args:
        argv: the pids, then options as for `launch`.

    Raises:
        ValueError: the arguments are invalid.
    """
    pids = processes(argv[0] if argv else "")
    with contextlib.suppress(OSError):
        os.chdir("/proc/%d/cwd" % pids[0])
    command = procfs.command_line(pids[0]) or ["python3"]
    asked = options.parse([*argv[1:], "--", *command], supervised=False, usage=usage)
    asked.restart, asked.linger = contract.RESTART_NEVER, 0.0
    asked.wait = program_env.prepare(os.environ, 0.0, asked.then)
    try:
        ways = _ways(pids)
    except RefusedError as error:
        _tell("refused", str(error))
        return contract.EXIT_AGENT
    return session.run(asked, lambda shared: _Attached(shared, pids, ways).run(), is_running=True)


class _Attached:
    """The session around processes that the agent did not start."""

    def __init__(self, shared: session.Session, pids: List[int], ways: Dict[int, str]) -> None:
        self._session = shared
        self._ways = ways
        self._started = {pid: procfs.start_ticks(pid) for pid in pids}
        self._pending: Set[int] = set()
        self._in: Set[int] = set()
        self._reported: Set[int] = set()
        self._reasons: List[str] = []
        self._host_is_gone = False
        shared.other_ranks = lambda: _other_ranks(pids)

    def run(self) -> Tuple[int, str]:
        """Run the session; return the exit code and a line about its end."""
        shared = self._session
        shared.restarts.started()
        shared.restarts.ended("dkdbg did not start this program and does not end it")
        shared.restarts.over()
        _tell("folder", os.getcwd())
        script = self._write_script()
        for pid in self._started:
            self._open(pid, script)
        self._adopt(next(iter(self._started)))
        threading.Thread(target=self._listen_to_host, name="dkdbg host", daemon=True).start()
        since = time.monotonic()
        while self._pending or self._in:
            arrival = shared.inbox.next(0.05 if self._pending else 0.5)
            if self._host_is_gone or (arrival is not None and arrival.number in child.ENDING):
                return 0, "detached; the program keeps running"
            if shared.ended_by_editor.is_set():
                shared.ended_by_editor.clear()
                shared.tell("the program keeps running: dkdbg did not start it", "important")
            shared.restarts.take()
            self._poll(late=time.monotonic() - since > TIMEOUT_S)
        if self._reasons:
            return contract.EXIT_AGENT, self._reasons[0]
        return 0, "the program has ended"

    def _adopt(self, pid: int) -> None:
        """Make this process the session's program, in the record and for the broker."""
        shared = self._session
        shared._service.program_started(pid)
        shared._since = time.monotonic()
        shared.show("running", child=pid, runs=1, detail="")

    def _write_script(self) -> str:
        folder = os.path.dirname(hook_folder.install(self._session._runtime))
        path = os.path.join(self._session.store.directory, "enter.py")
        with open(path, "w") as file:
            file.write(
                entered.SCRIPT % (os.path.abspath(entered.__file__), folder, self._session.store.directory)
            )
        return path

    def _open(self, pid: int, script: str) -> None:
        try:
            if not self._is_same(pid):
                raise RefusedError("process %d has ended" % pid)
            if self._ways[pid] == "remote":
                _by_remote_exec(pid, script)
            else:
                injection.run(pid, _line(script))
        except (RefusedError, injection.InjectionError, TimeoutError, OSError) as error:
            self._refused(pid, str(error))
        else:
            self._pending.add(pid)

    def _poll(self, *, late: bool) -> None:
        """Check which processes have answered and which have ended; with `late`, report those that do neither."""
        for pid in sorted(self._pending):
            path = os.path.join(self._session.store.processes_dir, "%d%s" % (pid, entered.ANSWER))
            with contextlib.suppress(OSError):
                with open(path, encoding="utf-8", errors="replace") as source:
                    answer = source.read(1000)
                os.unlink(path)
                self._pending.discard(pid)
                if answer == entered.ENTERED:
                    self._in.add(pid)
                    _tell("entered", "", pid)
                elif answer == entered.SERVES:
                    _tell("skipped", answer, pid)
                else:
                    self._refused(pid, answer)
        if late and self._pending - self._reported:
            for pid in sorted(self._pending - self._reported):
                self._reported.add(pid)
                _tell(
                    "late",
                    "its main thread is in native code or a blocking call; attaching when it returns to Python",
                    pid,
                )
        for pid in sorted(self._pending | self._in):
            if not self._is_same(pid):
                if pid in self._pending:
                    _tell("skipped", "it has ended", pid)
                self._pending.discard(pid)
                self._in.discard(pid)

    def _is_same(self, pid: int) -> bool:
        return procfs.alive(pid) and procfs.start_ticks(pid) == self._started[pid]

    def _refused(self, pid: int, reason: str) -> None:
        self._reasons.append(reason)
        _tell("refused", reason, pid)

    def _listen_to_host(self) -> None:
        with contextlib.suppress(OSError):
            while os.read(0, 1 << 12):
                pass
        self._host_is_gone = True
        self._session.inbox.wake()


def _other_ranks(pids: List[int]) -> Tuple[List[int], List[int]]:
    """Return the ranks of the job that are not among these processes, and the pids of those below the same parent."""
    known = {
        pid: registry.ranks(procfs.environment(pid) or {})
        for pid in procfs.below([procfs.parent(pids[0])], procfs.parents())
    }
    size = known.get(pids[0], (None, None, None))[2] or 1
    entered = {known[pid][0] for pid in pids if pid in known}
    beside = {
        rank: pid for pid, (rank, _, _) in sorted(known.items(), reverse=True) if rank not in (None, *entered)
    }
    others = [rank for rank in range(min(size, _MAX_RANKS)) if rank not in entered]
    return others, [beside[rank] for rank in others if rank in beside]


def _ways(pids: List[int]) -> Dict[int, str]:
    """Return how to attach to each process: `remote` or `ptrace`. Raises RefusedError: none can be attached to."""
    found, reasons = {}, []
    for pid in pids:
        try:
            found[pid] = _way(pid)
        except RefusedError as error:  # noqa: PERF203 - a few
            reasons.append(str(error))
            if len(pids) > 1:
                _tell("refused", str(error), pid)
    if not found:
        raise RefusedError(reasons[0])
    for pid in [each for each in pids if each not in found]:
        pids.remove(pid)
    return found


def _way(pid: int) -> str:
    try:
        owner = os.stat("/proc/%d" % pid).st_uid
    except OSError as error:
        raise RefusedError("there is no process %d" % pid) from error
    if owner != os.geteuid():  # the helper that attaches is the process's own executable
        raise RefusedError("process %d belongs to user %d, and this is user %d" % (pid, owner, os.geteuid()))
    version = _version(pid)
    if version is None:
        raise RefusedError("process %d is not a CPython, or its files cannot be read" % pid)
    if version < (3, 8):
        raise RefusedError(
            "process %d runs Python %d.%d: the debugger needs 3.8 or newer" % ((pid, *version))
        )
    if version < _PEP_768:
        return "ptrace"
    environment = procfs.environment(pid) or {}
    is_disabled = any(each.replace("_", "-") == "disable-remote-debug" for each in _options(pid))
    if is_disabled or environment.get("PYTHON_DISABLE_REMOTE_DEBUG"):
        raise RefusedError(
            "process %d was started with remote debugging disabled (PYTHON_DISABLE_REMOTE_DEBUG or -X)" % pid
        )
    return "remote"


def _options(pid: int) -> List[str]:
    """Return the values of -X in a process's command line."""
    argv, found = procfs.command_line(pid), []
    for word, following in zip(argv[1:], [*argv[2:], ""]):
        if word == "-X":
            found.append(following)
        elif word.startswith("-X"):
            found.append(word[2:])
        elif word == "-c":
            break
    return found


def _version(pid: int) -> Optional[Tuple[int, int]]:
    """Return the version of a process's interpreter, from the name of its executable or library."""
    names = []
    with contextlib.suppress(OSError):
        names.append(os.path.basename(os.readlink("/proc/%d/exe" % pid)))
        with open("/proc/%d/maps" % pid) as source:
            names += [os.path.basename(line.split(None, 5)[-1]) for line in source if "libpython3" in line]
    for name in names:
        match = _NAME.match(name)
        if match:
            return int(match[1]), int(match[2])
    return None


def _by_remote_exec(pid: int, script: str) -> None:
    """Call `sys.remote_exec` (PEP 768) with the process's own executable, because both sides need the same version.

    Raises:
        RefusedError: it failed, with the reason.
    """
    program = os.readlink("/proc/%d/exe" % pid)
    code = "import sys; sys.remote_exec(int(sys.argv[1]), sys.argv[2])"
    argv = [program, "-I", "-S", "-B", "-c", code, str(pid), script]
    try:
        done = subprocess.run(  # safe to execute: `_way` has checked that the process has our uid
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=_REMOTE_EXEC_TIMEOUT_S, check=False
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RefusedError("%s cannot open it: %s" % (program, error)) from error
    if done.returncode:
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines() or [
            "exit code %d" % done.returncode
        ]
        raise RefusedError("this system forbids attaching to it (%s)" % lines[-1][:200])


def _line(script: str) -> str:
    """Return source to run in the program's __main__ that executes a file, and leaves no name behind.

    It relies on no name of the program, and raises nothing: a SystemExit would end the program.
    """
    return (
        "def _dkdbg():\n import builtins\n with builtins.open(%r, 'rb') as source:\n"
        "  builtins.exec(builtins.compile(source.read(), %r, 'exec'), {})\n"
        "try: _dkdbg()\nexcept: pass\ndel _dkdbg\n" % (script, script)
    )


def _tell(word: str, text: str, pid: int = 0) -> None:
    with contextlib.suppress(OSError, ValueError):  # the host is gone
        sys.stdout.write(json.dumps({"word": word, "pid": pid, "text": text}) + "\n")
        sys.stdout.flush()
