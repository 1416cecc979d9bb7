"""`dkdbg.agent where`: prints the stacks of all Python processes of the sessions here as one JSON object.

The processes are queried in parallel over their own sockets, and answer in the hook's thread. Access to the
session's private folder is enough. A process that does not answer in time is inspected from outside: by its kernel
state and, where installed and permitted, with py-spy, which shows native frames, and the stack of a process that does
not release the GIL.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading

from dkdbg.agent.state import announced, processes, procfs, records

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional, Tuple

    from dkdbg.agent import contract

#: Seconds for the answers: C code may hold the GIL for a while, and dozens of processes may compete for the cores.
TIMEOUT_S = 1.5
#: Maximum processes to report.
_MAX_PROCESSES = 4096
#: Fields of a process in the session record that are reported beside its stacks.
_FIELDS = (
    "pid", "ppid", "name", "rank", "local_rank", "world_size", "origin", "started", "joined", "state", "detail", "stopped",
)  # fmt: skip
#: Seconds for one run of py-spy, and the maximum number of runs in parallel.
_PY_SPY_TIMEOUT_S = 10.0
_MAX_PARALLEL = 8
_HOOK = "/inprocess/hook/sitecustomize.py"
_INSTALLED = ("/site-packages/", "/dist-packages/", "/lib/python")
_STATES = {
    "R": "it runs C code that holds the GIL, or gets no CPU time",
    "S": "it sleeps, most likely in C code that holds the GIL",
    "D": "it waits in the kernel and cannot be interrupted",
    "T": "it is stopped by a signal (SIGCONT continues it)",
    "t": "another debugger has stopped it",
}


def main(argv: List[str]) -> int:
    """Query all processes of all live sessions of this user, or of the named ones, and print the answers."""
    import argparse

    parser = argparse.ArgumentParser(prog="dkdbg.agent where")
    parser.add_argument(
        "--name", action="append", help="a session's name or id; all that are live by default"
    )
    parser.add_argument(
        "--native", action="store_true", help="with native frames, where py-spy is installed and may run"
    )
    given = parser.parse_args(argv)
    sessions = [_session(record, native=given.native) for record in records.live_records(given.name or ())]
    print(json.dumps({"version": 1, "host": socket.gethostname(), "sessions": sessions}))
    return 0


def _session(record: contract.Record, *, native: bool) -> Dict[str, Any]:
    folders = announced.of_session(records.folder_of(record))
    live = announced_processes(folders, record)
    answers = processes.ask_all(processes.sockets_in(folders, live), "stacks", TIMEOUT_S)
    rows = [_process(each, answers.get(each["pid"], "")) for each in live]
    _fill_in(rows, folders, native=native)
    return {
        "id": record["id"],
        "name": record["name"],
        "state": record["state"],
        "deadlines": record.get("deadlines", []),  # agents up to 0.1 write none
        "processes": rows,
    }


def announced_processes(folders: announced.Folders, record: contract.Record) -> List[contract.Process]:
    """Return the announced processes that still run, from the record or, as that may be 0.5 s old, from their files."""
    listed = {each["pid"]: each for each in record["processes"]}
    found = []
    for pid in filter(procfs.alive, folders.pids()):
        itself = processes.read(folders, pid)
        known = listed.get(pid)
        if known is not None and (itself is None or known["started"] == itself["started"]):
            found.append(known)
        elif itself is not None:
            found.append(itself)
    return found[:_MAX_PROCESSES]


def _process(process: contract.Process, answer: str) -> Dict[str, Any]:
    row: Dict[str, Any] = {key: process.get(key) for key in _FIELDS}
    row["os"] = procfs.state(process["pid"])
    stacks, _, collectives = answer.partition("\n")
    row["threads"], row["left_out"], row["collectives"] = None, 0, None  # None: unknown
    with contextlib.suppress(ValueError, KeyError, TypeError, RecursionError):
        found = json.loads(stacks)
        row["threads"], row["left_out"] = found["threads"], found["left_out"]
        row["collectives"] = json.loads(collectives) if collectives else None
    return row


def _fill_in(rows: List[Dict[str, Any]], folders: announced.Folders, *, native: bool) -> None:
    """Add kernel state and py-spy's stacks to processes that did not answer; with `native`, py-spy's stacks to all."""
    silent = [each for each in rows if each["threads"] is None]
    for each in silent:
        state = _STATES.get(each["os"], "it has ended, or is about to")
        each["why"] = "it does not answer: %s" % (folders.why_no_access(each["pid"]) or state)
        waits = procfs.waits_in(each["pid"])
        if waits:
            each["why"] += " (%s)" % waits
    program = _py_spy()
    wanted = rows if native else silent
    if program is None:
        for each in wanted if native else ():
            each["note"] = "no native frames: py-spy is not on PATH there"
        return
    running = threading.BoundedSemaphore(_MAX_PARALLEL)

    def dump(process: Dict[str, Any]) -> None:
        with running:
            _run_py_spy(program, process, native=native)

    threads = [threading.Thread(target=dump, args=(each,), daemon=True) for each in wanted]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(_PY_SPY_TIMEOUT_S + 1)


def _py_spy() -> Optional[str]:
    """Return the path of py-spy: from absolute folders on PATH, or beside this Python."""
    folders = [each for each in os.environ.get("PATH", "").split(os.pathsep) if each.startswith(os.sep)]
    for folder in [*folders, os.path.dirname(sys.executable)]:
        path = os.path.join(folder, "py-spy")
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return None


def _run_py_spy(program: str, process: Dict[str, Any], *, native: bool) -> None:
    # Without --nonblocking py-spy pauses the process for some milliseconds, which native frames require.
    how = "--native" if native else "--nonblocking"
    argv = [program, "dump", "--json", how, "--pid", str(process["pid"])]
    try:
        done = subprocess.run(argv, capture_output=True, timeout=_PY_SPY_TIMEOUT_S, check=False)
        answer = json.loads(done.stdout) if done.returncode == 0 else None
    except (OSError, subprocess.SubprocessError, ValueError, RecursionError) as error:
        process["note"] = "py-spy: %s" % str(error)[:200]
        return
    if not isinstance(answer, list):
        process["note"] = "py-spy: %s" % complaint(done.stderr.decode("utf-8", "replace"))
        return
    process["threads"] = read_py_spy(answer, process["pid"])
    process["by"] = "py-spy"


def complaint(text: str) -> str:
    """Return the main line of py-spy's error output, without the causes and the backtrace that may follow."""
    lines = [line.strip() for line in text.splitlines() if line.strip()] or ["no output"]
    first = next((line for line in lines if line.startswith("Error: ")), lines[-1])
    return first.replace("Error: ", "", 1)[:200]


def read_py_spy(answer: List[Any], pid: int) -> List[Dict[str, Any]]:
    """Return the threads from `py-spy dump --json` (0.4) in the format of inprocess/stacks.py, the main one first."""
    found = []
    for each in answer:
        frames = [_py_spy_frame(frame) for frame in each.get("frames", ())]
        name = str(each.get("thread_name") or "")
        if name != "dkdbg hook" and not any(_HOOK in frame[0] for frame in frames):
            number = int(each.get("os_thread_id") or 0)
            found.append(
                {"name": name, "id": number, "main": int(number == pid), "more": 0, "frames": frames[:100]}
            )
    return sorted(found, key=lambda each: -each["main"])


def _py_spy_frame(frame: Dict[str, Any]) -> Tuple[str, int, str, int]:
    path = str(frame.get("filename") or frame.get("module") or "")
    is_own = path.endswith(".py") and not any(folder in path for folder in _INSTALLED)
    return path, int(frame.get("line") or 0), str(frame.get("name")), int(is_own)
