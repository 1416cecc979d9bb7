"""Runs of drivers under this user's agents on this machine: their secrets and joinable workers."""

from __future__ import annotations

import json
import os

from dkdbg.agent.state import records

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, List

#: Written by inprocess/ray/driver.py.
_NAME = "ray.json"


class Run:
    """One driver's run.

    Attributes:
        id: public. secret: opens its workers. main: path of its script, on its machine.
        source: folder that Ray has packed as its `working_dir`; empty if unknown.
        workers: their names by Ray's ids. unpacked: where Ray has unpacked a `working_dir` for them, if any.
    """

    def __init__(self, said: Dict[str, object]) -> None:
        workers = said.get("workers")
        self.id = str(said["run"])
        self.secret = bytes.fromhex(str(said["secret"]))
        main = said.get("main")
        self.main = main if isinstance(main, str) else ""
        source = said.get("source")
        self.source = source if isinstance(source, str) else ""
        self.workers: Dict[str, str] = {}
        self.unpacked: Dict[str, str] = {}
        if isinstance(workers, dict):
            for key, value in workers.items():
                if isinstance(value, str):
                    self.workers[key], _, self.unpacked[key] = value.partition("\n")


def here() -> List[Run]:
    """Return the runs of live drivers."""
    found = []
    for record in records.list_records():
        if records.is_live(record):
            try:
                with open(os.path.join(records.folder_of(record), _NAME)) as source:
                    found.append(Run(json.load(source)))
            except (OSError, ValueError, KeyError, TypeError, AttributeError):
                continue  # not a driver of Ray
    return found


def workers() -> Dict[str, str]:
    """Return the names of all joinable workers, by Ray's ids."""
    return {worker: name for run in here() for worker, name in run.workers.items()}
