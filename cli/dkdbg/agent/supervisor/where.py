"""`dkdbg.agent where`: the stacks of all Python processes of the sessions here, as one JSON object on standard output.

The processes are asked in parallel over their own sockets, and answer in the hook's thread. Access to the
session's private folder is enough. A process that does not answer in time is inspected from outside
(`outside.py`).
"""

from __future__ import annotations

import contextlib
import json
import socket

from dkdbg.agent.state import announced, processes, procfs, records
from dkdbg.agent.supervisor import outside

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List

    from dkdbg.agent import contract

#: Seconds for the answers: C code may hold the GIL for a while, and 64 busy processes share the cores with
#: us.
TIMEOUT_S = 1.5
#: Maximum processes to report.
_MAX_PROCESSES = 4096
#: Fields of the session record to report for a process besides its stacks.
_FIELDS = (
    "pid", "ppid", "name", "rank", "local_rank", "world_size", "origin", "started", "joined", "state", "detail", "stopped",
)  # fmt: skip


def main(words: List[str]) -> int:
    """Query all processes of all live sessions of this user, or of the named ones, and print the answers."""
    import argparse

    parser = argparse.ArgumentParser(prog="dkdbg.agent where")
    parser.add_argument(
        "--name", action="append", help="a session's name or id; all that are live by default"
    )
    parser.add_argument(
        "--native", action="store_true", help="with native frames, where py-spy is installed and may run"
    )
    given = parser.parse_args(words)
    told = [_session(record, native=given.native) for record in records.live_records(given.name or ())]
    print(json.dumps({"version": 1, "host": socket.gethostname(), "sessions": told}))
    return 0


def _session(record: contract.Record, *, native: bool) -> Dict[str, Any]:
    folders = announced.of_session(records.folder_of(record))
    there = announced_processes(folders, record)
    answers = processes.ask_all(processes.sockets_in(folders, there), "stacks", TIMEOUT_S)
    told = [_process(each, answers.get(each["pid"], "")) for each in there]
    outside.fill_in(told, native=native)
    return {
        "id": record["id"],
        "name": record["name"],
        "state": record["state"],
        "deadlines": record.get("deadlines", []),  # agents up to 0.1 write none
        "processes": told,
    }


def announced_processes(folders: announced.Folders, record: contract.Record) -> List[contract.Process]:
    """Return the announced processes that still run; the record may be half a second old."""
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
    told: Dict[str, Any] = {key: process.get(key) for key in _FIELDS}
    told["os"] = procfs.state(process["pid"])
    stacks, _, collectives = answer.partition("\n")
    told["threads"], told["left_out"], told["collectives"] = None, 0, []
    with contextlib.suppress(ValueError, KeyError, TypeError, RecursionError):
        found = json.loads(stacks)
        told["threads"], told["left_out"] = found["threads"], found["left_out"]
        told["collectives"] = json.loads(collectives) if collectives else []
    return told
