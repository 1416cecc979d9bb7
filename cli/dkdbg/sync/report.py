"""Events of a sync: as values, as JSON, and as lines for users. This module does not print."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dkdbg.printable import printable as escape


@dataclass(frozen=True, slots=True)
class Event:
    """One event.

    Attributes:
        name: `connected`, `progress`, `in_sync`, `changed`, `failed`, `kept`, `skipped`, `grows`, `polled`,
            `settings`, `rescan`, `quiet`, `lost`.
        facts: JSON values; paths relative to the local root, sizes in bytes, times in seconds.
    """

    name: str
    facts: dict[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Return the event as one object; bytes of a name that are not UTF-8 are escaped."""
        return {"event": self.name, **{key: printable(value) for key, value in self.facts.items()}}


#: Bytes whose transfer takes as long as creating one file.
_A_FILE = 10_000


def event(name: str, **facts: Any) -> Event:  # noqa: ANN401 - JSON values
    """Return an `Event` with these facts."""
    return Event(name, facts)


def as_line(happened: Event) -> str:
    """Return the event as one line for users; empty for events that only change the status."""
    facts = {key: printable(value) for key, value in happened.facts.items()}
    return _LINES[happened.name](facts) if happened.name in _LINES else ""


def status(files: int, last: str, seconds: float | None, *, failed: int = 0) -> str:
    """Return the status line, such as `in sync: 10,000 files · 2 not synced · last: train.py, 4 ms`."""
    tail = f" · {failed:,} not synced" if failed else ""
    tail += f" · last: {printable(last)}" if last else ""
    if last and seconds is not None:
        tail += f", {seconds * 1000:.0f} ms" if seconds < 1 else f", {seconds:.1f} s"
    return f"in sync: {files:,} {'file' if files == 1 else 'files'}{tail}"


def progress(facts: dict[str, Any]) -> str:
    """Return text such as `copying: 1,200 of 10,000 files, 6.2 of 52 MB`."""
    return (
        f"copying: {facts['files']:,} of {facts['files_total']:,} files, "
        f"{size(facts['bytes'])} of {size(facts['bytes_total'])}"
    )


def share(facts: dict[str, Any]) -> float:
    """Return the finished share of a copy, from 0 to 1; each file counts its bytes plus `_A_FILE`."""
    total = facts["bytes_total"] + _A_FILE * facts["files_total"]
    return (facts["bytes"] + _A_FILE * facts["files"]) / total if total else 1.0


def size(count: int) -> str:
    """Format a number of bytes."""
    for limit, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= limit:
            value = count / limit
            return f"{value:.1f} {unit}" if value < 10 else f"{value:.0f} {unit}"
    return f"{count} B"


def printable(value: Any) -> Any:  # noqa: ANN401 - JSON values
    """Escape what terminals or UTF-8 cannot carry in `value` (undecodable bytes, control characters)."""
    if isinstance(value, str):
        return escape(value)
    if isinstance(value, Mapping):
        return {printable(key): printable(each) for key, each in value.items()}
    return [printable(each) for each in value] if isinstance(value, (list, tuple)) else value


def _connected(facts: dict[str, Any]) -> str:
    first = f"{facts['target']}: {facts['root']} (as {facts['user']}, Python {facts['python']})"
    if not facts["former"]:
        return first
    by = " by another checkout, machine or version of dkdbg" if facts["former"] == facts["local"] else ""
    return f"{first}\nthe target has a copy of {facts['former']}{by}: its files stay unless yours replace them; replaced files are kept in .dkdbg-sync/kept"


def _failed(facts: dict[str, Any]) -> str:
    hint = f"\n  hint: {facts['hint']}" if facts.get("hint") else ""
    return f"not synced: {facts['path']}: {facts['reason']}{hint}"


def _kept(facts: dict[str, Any]) -> str:
    if facts["where"] == facts["path"]:
        return f"kept: the folder {facts['path']} stays on the target, because something in it did not come from sync"
    return f"kept: {facts['path']} on the target did not come from sync; it is now {facts['where']}"


def _grows(facts: dict[str, Any]) -> str:
    return (
        f"grows: {facts['path']} is written constantly; {size(facts['bytes'])} were sent, and it is sent whole "
        "again every few seconds\n  hint: [sync] ignore in dkdbg.toml leaves it out"
    )


def _in_sync(facts: dict[str, Any]) -> str:
    did = f": {facts['did']}" if facts["did"] else ", nothing to do"
    files = f"{facts['files']:,} {'file' if facts['files'] == 1 else 'files'}"
    return f"in sync: {files}, {facts['seconds']:.1f} s{did}" + (
        f"; {facts['failed']:,} not synced" if facts["failed"] else ""
    )


_LINES = {
    "connected": _connected,
    "failed": _failed,
    "kept": _kept,
    "skipped": lambda facts: f"left out: {facts['path'] or '.'}: {facts['reason']}",
    "differs": lambda facts: f"differs: {facts['path']} {facts['what']}",
    "only_there": lambda facts: f"remote only: {facts['path']}",
    "grows": _grows,
    "polled": lambda facts: f"changes may be noticed late: {facts['reason']}",
    "settings": lambda facts: facts["reason"],
    "rescan": lambda facts: f"scanning everything again: {facts['reason']}",
    "quiet": lambda facts: f"no answer for {facts['seconds']:g} s: saved files are sent later",
    "lost": lambda facts: f"connection lost: {facts['reason']}; trying again",
    "in_sync": _in_sync,
    "progress": progress,
}
