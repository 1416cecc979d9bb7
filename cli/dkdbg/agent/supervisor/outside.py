"""Inspects a process from outside: its kernel state and, where installed and permitted, py-spy.

py-spy is never required. It shows a process that holds the GIL in C for good, and native frames.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading

from dkdbg.agent.state import procfs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional, Tuple

#: Seconds for one process, and the maximum processes to inspect in parallel.
_TIMEOUT_S = 10.0
_MAX_PARALLEL = 8
_HOOK = "/inprocess/hook/sitecustomize.py"
_INSTALLED = ("/site-packages/", "/dist-packages/", "/lib/python")
_STATES = {
    "R": "it runs C code that holds the GIL, or gets no CPU time",
    "S": "it sleeps, mostly in C code that holds the GIL",
    "D": "it waits in the kernel and cannot be interrupted",
    "T": "it is stopped by a signal (SIGCONT continues it)",
    "t": "another debugger has stopped it",
}


def fill_in(told: List[Dict[str, Any]], *, native: bool) -> None:
    """Add the outside view of processes that did not answer; with `native`, of all processes."""
    silent = [each for each in told if each["threads"] is None]
    for each in silent:
        each["why"] = "it does not answer: %s" % _STATES.get(each["os"], "it has ended, or is about to")
        waits = procfs.waits_in(each["pid"])
        if waits:
            each["why"] += " (%s)" % waits
    program = py_spy()
    wanted = told if native else silent
    if program is None:
        for each in wanted if native else ():
            each["note"] = "no native frames: py-spy is not on PATH there"
        return
    running = threading.BoundedSemaphore(_MAX_PARALLEL)

    def look(process: Dict[str, Any]) -> None:
        with running:
            _look(program, process, native=native)

    threads = [threading.Thread(target=look, args=(each,), daemon=True) for each in wanted]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(_TIMEOUT_S + 1)


def py_spy() -> Optional[str]:
    """Return the path of py-spy: from absolute folders on PATH, or beside this Python."""
    folders = [each for each in os.environ.get("PATH", "").split(os.pathsep) if each.startswith(os.sep)]
    for folder in [*folders, os.path.dirname(sys.executable)]:
        path = os.path.join(folder, "py-spy")
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return None


def _look(program: str, process: Dict[str, Any], *, native: bool) -> None:
    # Without --nonblocking py-spy stops the process for some milliseconds; native frames require that.
    how = "--native" if native else "--nonblocking"
    argv = [program, "dump", "--json", how, "--pid", str(process["pid"])]
    try:
        done = subprocess.run(argv, capture_output=True, timeout=_TIMEOUT_S, check=False)
        answer = json.loads(done.stdout) if done.returncode == 0 else None
    except (OSError, subprocess.SubprocessError, ValueError, RecursionError) as error:
        process["note"] = "py-spy: %s" % str(error)[:200]
        return
    if not isinstance(answer, list):
        process["note"] = "py-spy: %s" % complaint(done.stderr.decode("utf-8", "replace"))
        return
    process["threads"] = read(answer, process["pid"])
    process["by"] = "py-spy"


def complaint(text: str) -> str:
    """Return py-spy's error line; its reasons and a backtrace may follow."""
    lines = [line.strip() for line in text.splitlines() if line.strip()] or ["no output"]
    first = next((line for line in lines if line.startswith("Error: ")), lines[-1])
    return first.replace("Error: ", "", 1)[:200]


def read(answer: List[Any], pid: int) -> List[Dict[str, Any]]:
    """Return the threads of `py-spy dump --json` (0.4) in the form of stacks.py, the main one first."""
    found = []
    for each in answer:
        frames = [_frame(frame) for frame in each.get("frames", ())]
        name = str(each.get("thread_name") or "")
        if name != "dkdbg hook" and not any(_HOOK in frame[0] for frame in frames):
            number = int(each.get("os_thread_id") or 0)
            found.append(
                {"name": name, "id": number, "main": int(number == pid), "more": 0, "frames": frames[:100]}
            )
    return sorted(found, key=lambda each: -each["main"])


def _frame(frame: Dict[str, Any]) -> Tuple[str, int, str, int]:
    path = str(frame.get("filename") or frame.get("module") or "")
    is_own = path.endswith(".py") and not any(mark in path for mark in _INSTALLED)
    return path, int(frame.get("line") or 0), str(frame.get("name")), int(is_own)
