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
_MODULES = {"uvloop": "timeouts of uvloop"}
#: A call with an argument, in the source line at which a thread waits in C.
_CALL = re.compile(r"\.(acquire|poll)\([^)\s]")
#: Methods of `datetime` that tell the time.
_READS = {"now", "utcnow", "today"}
#: Maximum clocks to report.
MAX_CLOCKS = 10


def found() -> List[str]:
    """Return descriptions, such as `datetime.now() at train.py:7`, each once."""
    told = [text for name, text in _MODULES.items() if name in sys.modules]
    for frame in sys._current_frames().values():
        each: Optional[FrameType] = frame
        while each is not None:
            text = (
                _clock_of(each, is_innermost=each is frame) if stacks.is_own(each.f_code.co_filename) else ""
            )
            if text:
                where = "%s:%d" % (os.path.basename(each.f_code.co_filename), each.f_lineno or 0)
                told.append("%s at %s" % (text, where))
            each = each.f_back
    return list(dict.fromkeys(told))[:MAX_CLOCKS]


def _clock_of(frame: FrameType, *, is_innermost: bool) -> str:
    names = frame.f_code.co_names
    if "datetime" in names and not _READS.isdisjoint(names):
        return "datetime.now()"
    if is_innermost:
        call = _CALL.search(linecache.getline(frame.f_code.co_filename, frame.f_lineno or 0))
        return "the timeout of %s" % call[1] if call else ""
    return ""
