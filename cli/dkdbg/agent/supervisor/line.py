"""`dkdbg.agent line`: prints as JSON what the sessions' processes know about one line of a file, for `dkdbg why`.

Each process answers in the hook's thread (`inprocess/line.py`); this module adds what the files themselves show.
"""

from __future__ import annotations

import contextlib
import json
import os
import pkgutil
import socket

from dkdbg.agent.dap import sources
from dkdbg.agent.inprocess import entered
from dkdbg.agent.state import announced, mapping, naming, processes, procfs, records
from dkdbg.agent.supervisor import hook_check, where

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Set

    from dkdbg.agent import contract

#: Seconds for the answers: a process compiles the file for its answer, and its C code may hold the GIL meanwhile.
TIMEOUT_S = 10.0
#: Maximum bytes of a path in a query, and maximum Pythons without the hook to report.
_MAX_PATH_BYTES, _MAX_UNHOOKED = 4096, 50
_FIELDS = ("pid", "ppid", "name", "rank", "joined", "stopped", "started")
_RECORD_FIELDS = ("id", "name", "state", "host", "port", "client", "mappings")


def main(argv: List[str]) -> int:
    """Query all processes of all live sessions of this user, or of the named one, and print the answers."""
    import argparse

    parser = argparse.ArgumentParser(prog="dkdbg.agent line")
    parser.add_argument("--name", help="a session's name or id; all that are live by default")
    parser.add_argument("--also", action="append", default=[], help="another file here to describe")
    parser.add_argument("path", help="absolute, according to the editor's path mapping")
    parser.add_argument("line", type=int)
    given = parser.parse_args(argv)
    found = records.live_records([] if given.name is None else [given.name])
    points = mapping.read_mount_points()
    facts = {
        "version": 1,
        "host": socket.gethostname(),
        "files": [_file(path, points) for path in [given.path, *given.also]],
        "sessions": [_session(each, given.path, given.line, points) for each in found],
    }
    print(json.dumps(facts))
    return 0


def _session(record: contract.Record, path: str, line: int, points: Any) -> Dict[str, Any]:  # noqa: ANN401
    folders = announced.of_session(records.folder_of(record))
    there = [each for each in where.announced_processes(folders, record) if not _is_replaced(folders, each)]
    query = "line %d %s" % (line, path)
    asked = there if len(os.fsencode(path)) <= _MAX_PATH_BYTES else []
    answers = processes.ask_all(processes.sockets_in(folders, asked), query, TIMEOUT_S)
    facts: Dict[str, Any] = {key: record.get(key) for key in _RECORD_FIELDS}
    facts["processes"] = [_process(each, answers.get(each["pid"], ""), points) for each in there]
    silent = {each["pid"] for each in facts["processes"] if each["answer"] is None}
    shut_out = set(filter(folders.why_no_access, silent))
    facts["unhooked"] = _unhooked(record, folders, {each["pid"] for each in there} - shut_out)
    return facts


def _is_replaced(folders: announced.Folders, process: contract.Process) -> bool:
    """Tell whether a process has exec'ed a program without the hook: nothing listens on its socket any more."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        try:
            sock.connect(processes.sockets_in(folders, [process])[process["pid"]])
        except ConnectionRefusedError:
            return True
        except OSError:
            pass
    return False


def _process(process: contract.Process, answer: str, points: Any) -> Dict[str, Any]:  # noqa: ANN401
    facts: Dict[str, Any] = {key: process.get(key) for key in _FIELDS}
    facts["cpu"] = procfs.cpu_seconds(process["pid"])
    facts["answer"] = None
    with contextlib.suppress(ValueError, KeyError, TypeError, RecursionError):
        data = json.loads(answer)
        for each in data["files"]:
            if each["path"]:
                each.update(_file(each["path"], points))
        facts["answer"] = data
    facts["ended"] = procfs.is_ending(process["pid"])
    facts["frozen"] = procfs.state(process["pid"]) == "T"
    return facts


def _file(path: str, points: Any) -> Dict[str, Any]:  # noqa: ANN401
    """Return facts about the file here: its existence, real path and digest, and whether a mount covers it."""
    real = os.path.realpath(path)
    kind = mapping.kind_of(real, points)
    return {
        "path": path,
        "real": real,
        "exists": os.path.exists(path),
        "kind": kind,
        "inode": _inode(path),
        **sources.describe(path),
    }


def _inode(path: str) -> str:
    """Return `DEVICE:INODE` of a file, which is the same for all its paths; empty if it is missing."""
    with contextlib.suppress(OSError, ValueError):
        found = os.stat(path)
        return "%d:%d" % (found.st_dev, found.st_ino)
    return ""


def _unhooked(record: contract.Record, folders: announced.Folders, hooked: Set[int]) -> List[Dict[str, Any]]:
    """Return the Python processes of the program that have not loaded the hook, or not fully, with the reason."""
    program = record["child"]
    if not program:
        return []
    hook = pkgutil.get_data("dkdbg.agent.inprocess", "hook/sitecustomize.py") or b""  # perhaps in a zip
    leaves_out = entered.functions_of(hook, "sitecustomize.py")._is_housekeeping
    parents, now = procfs.parents(), procfs.uptime() * os.sysconf("SC_CLK_TCK")
    oldest = now - hook_check.ANNOUNCE_TIMEOUT_S * os.sysconf("SC_CLK_TCK")
    below = procfs.below([program], parents)
    found = []
    for pid, argv in hook_check.unhooked(below, parents, hooked, folders, leaves_out).items():
        if (procfs.start_ticks(pid) or now) < oldest:
            reason = folders.why_no_access(pid) or hook_check.why(pid, argv, _hook_of(pid))
            found.append({"name": "%s (pid %d)" % (naming.program(argv), pid), "why": reason})
    return found[:_MAX_UNHOOKED]


def _hook_of(pid: int) -> str:
    """Return the hook's folder on the PYTHONPATH of a process; if missing, `hook`, which no PYTHONPATH contains."""
    for entry in (procfs.environment(pid) or {}).get("PYTHONPATH", "").split(os.pathsep):
        if os.path.basename(entry) == "hook" and os.path.exists(os.path.join(entry, "sitecustomize.py")):
            return entry
    return "hook"
