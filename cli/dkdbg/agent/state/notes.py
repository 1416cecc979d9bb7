"""What the processes below the agent wait for, as they say it in `PID.note`; see on_demand.py, which writes them."""

from __future__ import annotations

import json
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Dict, List, Optional, Set, TextIO, Tuple

    from dkdbg.agent import contract

POST_MORTEM = "post-mortem"


def opened(path: str) -> TextIO:
    """Open what a process has written; it may be another user's, and no regular file.

    Raises:
        OSError: it is a link, or not there. A pipe is empty.
    """
    return os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC))


def read(path: str) -> Tuple[str, str, Optional[float]]:
    """Return what a process's note says: state (`breakpoint`, `post-mortem`, empty for none), detail, and the end of the wait in epoch seconds."""
    try:
        with opened(path) as source:
            raw = json.load(source)
        expires = raw["expires"]
        return str(raw["state"]), str(raw["detail"]), None if expires is None else float(expires)
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return "", "", None


class Holds:
    """Says once in the log when a process is held after a crash.

    Args:
        log: takes one line for the user.
        endpoint: where an editor attaches, `host:port`.
    """

    def __init__(self, log: Callable[[str], None], endpoint: Callable[[], str]) -> None:
        self._log = log
        self._endpoint = endpoint
        self._said: Set[int] = set()
        self.held = ""

    def fields(self, processes: List[contract.Process]) -> Dict[str, str]:
        """Take note of the processes; return what it means for the record: its `detail`, when that has changed."""
        before, self.held = self.held, ""
        for process in processes:
            if process["state"] == POST_MORTEM:
                self.held = self.held or "post-mortem: " + process["detail"]
                if process["pid"] not in self._said:
                    self._said.add(process["pid"])
                    line = "%s (pid %d) has crashed: %s; it is held for a debugger on %s"
                    name = process["name"] or "a process"
                    self._log(line % (name, process["pid"], process["detail"], self._endpoint()))
        return {} if self.held == before else {"detail": self.held}
