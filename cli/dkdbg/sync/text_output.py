"""Output of a sync: a progress line, then a status line; or one JSON object per line."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from dkdbg import console
from dkdbg.errors import EXIT_ERROR
from dkdbg.sync.report import as_line, event, printable, progress, share, size, status

if TYPE_CHECKING:
    from collections.abc import Callable

    from dkdbg.sync.pull import Pulled
    from dkdbg.sync.report import Event
    from dkdbg.sync.verify import Comparison

#: Seconds between progress lines when the output is not a terminal.
_PROGRESS_INTERVAL_S = 5.0
#: Maximum events of one kind to print within so many seconds.
_MAX_LISTED, _LISTED_WITHIN_S = 20, 10.0


class Reporter:
    """Prints events as they come.

    Args:
        as_json: one object a line instead of text.
        clock: returns seconds.
    """

    def __init__(self, *, as_json: bool, clock: Callable[[], float] = time.monotonic) -> None:
        self._json = as_json
        self._status = console.Status()
        self._clock = clock
        self._next = clock() + _PROGRESS_INTERVAL_S
        self._reported: dict[
            str, tuple[float, int]
        ] = {}  # kind of line -> start of the current list, and its length

    def line(self, text: str) -> None:
        """Print a line above the status line; nothing with JSON output."""
        if not self._json:
            self._status.say(printable(text))

    def begins(self, local: str, remote: str, why: str) -> None:
        """Print the local and the remote folder, and `why` they were chosen, unless by --to."""
        self.line(f"syncing {local} -> {remote}" + ("" if why == "--to" else f" ({why})"))

    def event(self, happened: Event) -> None:
        """Show one event."""
        if self._json:
            console.emit_line(happened.as_json())
        elif happened.name == "progress":
            text = progress(happened.facts)
            if self._status.live:
                self._status.show(text, share(happened.facts))
            elif self._clock() >= self._next:
                self._next = self._clock() + _PROGRESS_INTERVAL_S
                console.say(text)
        elif happened.name == "changed":
            facts = happened.facts
            text = status(facts["files"], facts["last"], facts["seconds"], failed=facts["failed"])
            if self._status.live:
                self._status.show(text)
            else:
                console.say(f"{printable(facts['last'])}: {facts['did']}, {facts['seconds'] * 1000:.0f} ms")
        elif happened.name in {"skipped", "failed", "kept", "differs", "only_there"}:
            self._few(happened)
        else:
            self._status.say(as_line(happened))
            if happened.name == "in_sync":
                self._status.show(status(happened.facts["files"], "", None, failed=happened.facts["failed"]))

    def verified(self, found: Comparison) -> int:
        """Show a comparison; return the exit code."""
        if self._json:
            facts = {"equal": found.equal, "differences": found.differences, "only_there": found.only_remote}
            self.event(event("verified", **facts))
            return EXIT_ERROR if found.differences else 0
        for path, what in sorted(found.differences.items()):
            self.event(event("differs", path=path, what=what))
        for path in found.only_remote:
            self.event(event("only_there", path=path))
        count, also = len(found.differences), len(found.only_remote)
        verdict = f"{count:,} differ" if count else "no difference"
        self._status.say(f"{found.equal:,} equal, {verdict}" + (f"; {also:,} remote only" if also else ""))
        return EXIT_ERROR if found.differences else 0

    def pulled(self, done: Pulled, folder: str) -> int:
        """Show the copied files; return the exit code."""
        if self._json:
            facts = {"files": done.files, "equal": done.equal, "bytes": done.bytes, "left_out": done.left_out}
            self.event(event("pulled", folder=folder, **facts))
            return 0 if done.complete else EXIT_ERROR
        for path, reason in sorted(done.left_out.items()):
            self.event(event("skipped", path=path, reason=reason))
        self._status.say(
            f"{done.files:,} copied ({size(done.bytes)}), {done.equal:,} unchanged, in {printable(folder)}"
        )
        return 0 if done.complete else EXIT_ERROR

    def stopped(self, files: int) -> None:
        """Report that a signal has ended the sync."""
        if self._json:
            self.event(event("stopped", files=files))
        else:
            self._status.say(f"stopped; {files:,} files were in sync")

    def close(self) -> None:
        """Restore the terminal."""
        self._status.clear()

    def _few(self, happened: Event) -> None:
        """Print the first events of one kind, then once that there are more; restart after `_LISTED_WITHIN_S`."""
        now = self._clock()
        began, count = self._reported.get(happened.name, (now, 0))
        if now - began > _LISTED_WITHIN_S:
            began, count = now, 0
        self._reported[happened.name] = began, count + 1
        if count < _MAX_LISTED:
            self._status.say(as_line(happened))
        elif count == _MAX_LISTED:
            self._status.say("... and more of these; --json lists all of them")
