"""Searches for targets again as soon as their backend reports a change."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from dkdbg.errors import DkdbgError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dkdbg.attach.upstream import Upstream
    from dkdbg.core.target import Changes

#: Seconds until an ended event stream, such as that of a stopped engine, is opened again.
RETRY_PAUSE_S = 3.0


class ChangeWatch:
    """A thread for each event stream of the targets.

    Args:
        report: takes one line if a stream fails; not repeated until it changes.
    """

    def __init__(self, upstreams: Sequence[Upstream], report: Callable[[str], None]) -> None:
        self._report = report
        self._stopped = threading.Event()
        self._sources: dict[Changes, list[Upstream]] = {}
        for upstream in upstreams:
            changes = upstream.target.changes()
            if changes is not None:
                self._sources.setdefault(changes, []).append(upstream)

    def start(self) -> None:
        """Start listening."""
        for source, told in self._sources.items():
            threading.Thread(
                target=self._listen, args=(source, told), name="dkdbg changes", daemon=True
            ).start()

    def stop(self) -> None:
        """Stop listening."""
        self._stopped.set()
        for source in self._sources:
            source.close()

    def _listen(self, source: Changes, told: Sequence[Upstream]) -> None:
        def changed() -> None:
            for upstream in told:
                upstream.poke()

        reported = ""
        while not self._stopped.is_set():
            try:
                source.listen(changed)
                reported = ""
            except DkdbgError as error:
                if error.message != reported:
                    reported = error.message
                    self._report(reported)
            changed()  # changes since its end were not reported
            self._stopped.wait(RETRY_PAUSE_S)
