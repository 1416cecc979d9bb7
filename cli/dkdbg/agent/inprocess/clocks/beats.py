"""Heartbeat threads, which run on by the true clocks while the debugger holds the job.

A parent, a broker or a lease that is not under dkdbg counts the beats, and its clock cannot be stopped. pydevd neither
stops nor traces a thread with its mark, so a breakpoint in it does not stop.
"""

# Threads are the program's, of any class.
# ruff: noqa: ANN401

from __future__ import annotations

import fnmatch
import functools
import os
import re

from .slow_clocks import BEATS
from .untraced import Suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Pattern

#: The same as in settings.py, which is not beside the hook.
ENV_BEATS = "DKDBG_BEATS"
#: Patterns of known heartbeat threads: uvicorn's answer to its parent, the lease of torchelastic's rendezvous.
_KNOWN = ("always_pong", "RendezvousKeepAliveTimer_*")
#: pydevd's mark.
_MARK = "pydev_do_not_trace"


def _threading(module: Any) -> None:
    """Mark heartbeat threads, now and when they start: by name, target or class."""
    patterns = [*_KNOWN, *filter(None, map(str.strip, os.environ.get(ENV_BEATS, "").split(",")))]
    beating = re.compile("|".join(map(fnmatch.translate, patterns)))
    true = module.Thread.start

    @functools.wraps(true)
    def start(self):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        with Suppress(Exception):  # an error here must not end the program
            _mark(self, beating)
        return true(self)

    module.Thread.start = start
    for thread in module.enumerate():
        _mark(thread, beating)


def _mark(thread: Any, beating: Pattern[str]) -> None:
    target = getattr(thread, "_target", None)
    names = (thread.name, getattr(target, "__name__", ""), type(thread).__name__)
    if any(map(beating.match, map(str, names))):
        setattr(thread, _MARK, True)
        setattr(thread, BEATS, True)


#: Changes to modules, by name.
CHANGES: Dict[str, Callable[[Any], None]] = {"threading": _threading}
