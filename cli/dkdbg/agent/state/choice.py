"""Selects the ranks to debug: those that the agent was started with, or those that the attached editor asks for."""

from __future__ import annotations

import contextlib
import os

from dkdbg.agent.inprocess import choosing, ranks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List, Optional

#: Seconds that a launcher may need to start the selected ranks, before missing ones are reported.
TIMEOUT_S = 10.0


class Choice:
    """Owner of the file that tells processes which ranks are debugged; without the file all are.

    Args:
        directory: the session's folder, which exists.
        text: the agent's own setting; empty for all.

    Attributes:
        current: the debugged ranks.

    Raises:
        RankSetError: `text` is not a rank set.
    """

    def __init__(self, directory: str, text: str) -> None:
        self._path = os.path.join(directory, choosing.NAME)
        self._first = ranks.parse(text) if text else ranks.EVERYONE
        self.current = ranks.EVERYONE
        self.choose(None)

    def choose(self, wanted: Optional[ranks.RankSet]) -> bool:
        """Debug these ranks from now on, for None those of the agent's start; return whether that is a change."""
        wanted = self._first if wanted is None else wanted
        if wanted == self.current:
            return False
        self.current = wanted
        with contextlib.suppress(OSError):
            if wanted.everyone:
                os.unlink(self._path)
            else:
                with open(self._path + ".tmp", "w") as out:
                    out.write(str(wanted))
                os.rename(self._path + ".tmp", self._path)
        return True


def described(chosen: ranks.RankSet) -> str:
    """Describe the debugged ranks in one line."""
    if not chosen.spans:
        return "ranks that fail, from then on; until then all run free"
    numbers = str(ranks.RankSet(chosen.spans))
    one = numbers.isdigit()
    failing = ", and ranks that fail" if chosen.failing else ""
    return "rank%s %s%s; the others run free" % ("" if one else "s", numbers, failing)


def missing(chosen: ranks.RankSet, present: List[int]) -> str:
    """Return a line about selected ranks that are missing; empty when all are present."""
    absent = chosen.missing(present)
    if not absent:
        return ""
    which = ", ".join(map(str, absent))
    shown = ", ".join(str(a) if a == b else "%d-%d" % (a, b) for a, b in ranks.spans(present))
    existing = "the ranks here are %s" % shown if present else "no process here has a rank"
    return "rank%s %s: not here; %s" % ("s" if len(absent) > 1 else "", which, existing)
