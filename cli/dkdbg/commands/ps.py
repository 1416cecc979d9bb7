"""`dkdbg ps`: every session that can be reached from here."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from dkdbg import console, engine
from dkdbg.agent.record import records
from dkdbg.errors import DkdbgError
from dkdbg.targets import sessions

if TYPE_CHECKING:
    from dkdbg.targets.sessions import SeenSession


def ps(*, everything: bool, as_json: bool) -> int:
    """Print the sessions in containers and on this machine; the exit code.

    Args:
        everything: those that have ended too.
        as_json: one JSON object instead of a table.
    """
    now = time.time()
    seen, missing = find()
    shown = [each for each in seen if everything or not each.is_ended]
    if as_json:
        console.emit({"sessions": [each.as_json(now) for each in shown], "engine": missing or None})
        return 0
    if missing:
        console.warn(f"dkdbg: this machine only: {missing}")
    if not shown:
        ended = len(seen)
        console.say("no session is running" + (f" ({ended} ended: dkdbg ps --all)" if ended else ""))
        return 0
    for line in sessions.table(shown, now):
        console.say(line)
    return 0


def find() -> tuple[list[SeenSession], str]:
    """All sessions, oldest first on each target, and why containers could not be asked; empty when they could."""
    seen = [
        sessions.of_record(record, live=records.is_live(record))
        for folder in _local_folders()
        for record in records.list_records(str(folder))
    ]
    try:
        containers = engine.labelled_containers()
    except DkdbgError as error:
        return seen, error.message.splitlines()[0]
    for container in containers:
        found = engine.sessions_in(container) if container.running else []
        seen += found or [sessions.without_record(container)]
    return seen, ""


def _local_folders() -> list[Path]:
    """The runtime folders that agents of ours may have used here, see `agent/record/records.py`."""
    base = Path(records.default_runtime_dir())
    others = Path(tempfile.gettempdir()).glob(f"dkdbg-{os.getuid()}-*")
    return [base, *sorted(folder for folder in others if folder != base and folder.is_dir())]
