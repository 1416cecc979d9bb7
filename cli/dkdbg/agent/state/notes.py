"""Reads `PID.note`, in which a process records why it waits for an editor; inprocess/on_demand.py writes it."""

from __future__ import annotations

import json
import os
import time

from dkdbg.agent.state import deadlines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Dict, List, Optional, Set, TextIO, Tuple

    from dkdbg.agent import contract

POST_MORTEM = "post-mortem"


def opened(path: str) -> TextIO:
    """Open a file that a process, perhaps of another user, has written, without blocking on a FIFO.

    Raises:
        OSError: it is a link, or missing.
    """
    return os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC))


def read(path: str) -> Tuple[str, str, Optional[float]]:
    """Return a note's state (`breakpoint`, `post-mortem`; empty without a note), detail, and end in epoch seconds."""
    try:
        with opened(path) as source:
            raw = json.load(source)
        expires = raw["expires"]
        return str(raw["state"]), str(raw["detail"]), None if expires is None else float(expires)
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return "", "", None


class Holds:
    """Logs each process that is held after a crash, once.

    Args:
        log: takes one line for the user.
        endpoint: returns the address for an editor, `host:port`.
    """

    def __init__(self, log: Callable[[str], None], endpoint: Callable[[], str]) -> None:
        self._log = log
        self._endpoint = endpoint
        self._reported: Set[int] = set()
        self.held = ""

    def fields(self, processes: List[contract.Process]) -> Dict[str, str]:
        """Log newly held processes; return the record's new `detail`, or an empty dict if that is unchanged."""
        before, self.held = self.held, ""
        for process in processes:
            if process["state"] == POST_MORTEM:
                self.held = self.held or "post-mortem: " + process["detail"]
                if process["pid"] not in self._reported:
                    self._reported.add(process["pid"])
                    line = "%s (pid %d) has crashed: %s; it is held for a debugger on %s%s"
                    name, ends = process["name"] or "a process", process["expires"]
                    limit = "" if ends is None else ", for " + deadlines.span(ends - time.time() + 1.0)
                    self._log(line % (name, process["pid"], process["detail"], self._endpoint(), limit))
        return {} if self.held == before else {"detail": self.held}
