"""How a sync is shown: a progress line, then a quiet one; or one JSON object a line."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from dkdbg import console
from dkdbg.errors import EXIT_ERROR
from dkdbg.sync.report import Event, as_line, printable, progress, size, status

if TYPE_CHECKING:
    from dkdbg.sync.pull import Pulled
    from dkdbg.sync.verify import Comparison

#: Without a terminal, seconds between two lines of progress; names of one sort that are listed one by one.
_EVERY, _LISTED = 5.0, 20


class Reporter:
    """Shows events as they come.

    Args:
        as_json: one object a line instead of text.
    """

    def __init__(self, *, as_json: bool) -> None:
        self._json = as_json
        self._status = console.Status()
        self._next = time.monotonic() + _EVERY
        self._said: dict[str, int] = {}

    def line(self, text: str) -> None:
        """One line that stays."""
        if not self._json:
            self._status.say(printable(text))

    def begins(self, local: str, remote: str, why: str) -> None:
        """Say which folder here goes where: what names it may have come from the target."""
        self.line(f"syncing {local} -> {remote}" + ("" if why == "--to" else f" ({why})"))

    def event(self, happened: Event) -> None:
        """Show one event."""
        if self._json:
            console.emit_line(happened.as_json())
        elif happened.name == "progress":
            self._progress(progress(happened.facts))
        elif happened.name == "changed":
            facts = happened.facts
            text = status(facts["files"], facts["last"], facts["seconds"])
            if self._status.live:
                self._status.show(text)
            else:
                console.say(f"{printable(facts['last'])}: {facts['did']}, {facts['seconds'] * 1000:.0f} ms")
        elif happened.name in {"skipped", "failed", "kept", "differs", "only_there"}:
            self._few(happened)
        else:
            self._status.say(as_line(happened))
            if happened.name == "in_sync":
                self._status.show(status(happened.facts["files"], "", None))

    def verified(self, found: Comparison) -> int:
        """Show a comparison; the exit code."""
        if self._json:
            facts = {"equal": found.equal, "differences": found.differences, "only_there": found.only_there}
            console.emit_line(
                {"event": "verified", **{key: printable(value) for key, value in facts.items()}}
            )
            return EXIT_ERROR if found.differences else 0
        for path, what in sorted(found.differences.items()):
            self.event(Event("differs", {"path": path, "what": what}))
        for path in found.only_there:
            self.event(Event("only_there", {"path": path}))
        count, also = len(found.differences), len(found.only_there)
        verdict = f"{count:,} differ" if count else "no difference"
        self._status.say(f"{found.equal:,} equal, {verdict}" + (f"; {also:,} only there" if also else ""))
        return EXIT_ERROR if found.differences else 0

    def pulled(self, done: Pulled, folder: str) -> int:
        """Show what was copied back; the exit code."""
        if self._json:
            facts = {"files": done.files, "equal": done.equal, "bytes": done.bytes, "left_out": done.left_out}
            console.emit_line(
                {
                    "event": "pulled",
                    "folder": printable(folder),
                    **{k: printable(v) for k, v in facts.items()},
                }
            )
            return 0 if done.complete else EXIT_ERROR
        for path, reason in sorted(done.left_out.items()):
            self.event(Event("skipped", {"path": path, "reason": reason}))
        self._status.say(
            f"{done.files:,} copied ({size(done.bytes)}), {done.equal:,} were here already, in {printable(folder)}"
        )
        return 0 if done.complete else EXIT_ERROR

    def stopped(self, files: int) -> None:
        """Say that it was ended from outside."""
        if self._json:
            console.emit_line({"event": "stopped", "files": files})
        else:
            self._status.say(f"stopped; {files:,} files were in sync")

    def close(self) -> None:
        """Leave the terminal as it was."""
        self._status.clear()

    def _progress(self, text: str) -> None:
        if self._status.live:
            self._status.show(text)
        elif time.monotonic() >= self._next:
            self._next = time.monotonic() + _EVERY
            console.say(text)

    def _few(self, happened: Event) -> None:
        """Each of the first ones; what comes after is counted, and said with `--json` or `--explain`."""
        count = self._said[happened.name] = self._said.get(happened.name, 0) + 1
        if count <= _LISTED:
            self._status.say(as_line(happened))
        elif count == _LISTED + 1:
            self._status.say("... and more of these; --json lists all of them")
