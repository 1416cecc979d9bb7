"""Clocks of C code that go on while the program is held, as far as this process's modules and stacks show them.

clocks.py cannot stop these. They are reported at a stop (supervisor/held_deadlines.py).
"""

from __future__ import annotations

import linecache
import os
import re
import sys

from .. import stacks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import List, Optional

#: Modules with timers in C.
_MODULES = {"uvloop": "timeouts of uvloop", "gevent": "timeouts of gevent"}
#: A call with an argument, in the source line at which a thread waits in C.
_CALL = re.compile(r"\.(acquire|poll)\([^)\s]")
#: Packages whose calls have a deadline in C, or count their tries, by name.
_DEADLINES = {
    "grpc": "the deadline of gRPC",
    "tenacity": "the number of tries of tenacity",
    "backoff": "the number of tries of backoff",
}
#: The head of a loop that may count its rounds, and a line that ends one early.
_COUNTED = re.compile(
    r"\s*(?:for\b.*\bin\s+range\(|while\b(?!.*(?:time|monotonic|clock|counter|now)\().*[<>])"
)
_ENDS_EARLY = re.compile(r"\s*(?:if\b.*:\s*)?(?:break|return)\b")
_NAP = re.compile(r"\bsleep\(")
#: A call that may wait for the lock of a database; with sqlite3, up to the `timeout` of its connection.
_STATEMENT = re.compile(r"\.(execute|executemany|executescript|commit)\(")
#: Methods of `datetime` that tell the time.
_READS = {"now", "utcnow", "today"}
#: Maximum clocks to report.
MAX_CLOCKS = 10


def found() -> List[str]:
    """Return descriptions, such as `datetime.now() at train.py:7`, each once."""
    told = [text for name, text in _MODULES.items() if name in sys.modules]
    for frame in sys._current_frames().values():
        each: Optional[FrameType] = frame
        text = _wait_of(frame)
        while each is not None:
            if stacks.is_own(each.f_code.co_filename):
                names = each.f_code.co_names
                if "datetime" in names and not _READS.isdisjoint(names):
                    text = "datetime.now()"
                if text:
                    where = "%s:%d" % (os.path.basename(each.f_code.co_filename), each.f_lineno or 0)
                    told.append("%s at %s" % (text, where))
                    text = ""
            each = each.f_back
    return list(dict.fromkeys(told))[:MAX_CLOCKS]


def _wait_of(frame: FrameType) -> str:
    """Return the limit of the call in C in which a thread waits, by its innermost frame; empty for none."""
    deadline = _DEADLINES.get(str(frame.f_globals.get("__name__")).partition(".")[0])
    if deadline is not None:
        return deadline
    is_own, has_sqlite = stacks.is_own(frame.f_code.co_filename), "sqlite3" in sys.modules
    if is_own and _counts_naps(frame):
        return "a loop that counts its sleeps"
    if is_own or has_sqlite:
        line = linecache.getline(frame.f_code.co_filename, frame.f_lineno or 0)
        call = _CALL.search(line) if is_own else None
        if call is not None:
            return "the timeout of %s" % call[1]
        if has_sqlite and _STATEMENT.search(line):
            return "the timeout of sqlite3"
    return ""


def _counts_naps(frame: FrameType) -> bool:
    """Return whether a frame sleeps in a polling loop that ends after a number of rounds."""
    lines, at = linecache.getlines(frame.f_code.co_filename), (frame.f_lineno or 0) - 1
    if not (0 <= at < len(lines) and _NAP.search(lines[at])):
        return False
    depth = _depth(lines[at])
    for above in range(at - 1, frame.f_code.co_firstlineno - 2, -1):
        if lines[above].strip() and _depth(lines[above]) < depth:
            depth = _depth(lines[above])
            if _COUNTED.match(lines[above]):
                break
    else:
        return False
    for line in lines[above + 1 :]:
        if line.strip() and _depth(line) <= depth:
            break
        if _ENDS_EARLY.match(line):
            return True
    return False


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip())
