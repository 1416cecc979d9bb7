"""Clocks that stop with the program: a process at a breakpoint must not make others of its job time out.

Many parents wait for a child with a time limit (`DataLoader(timeout=20)`, gunicorn's arbiter, an engine's
heartbeat), by Python's clocks. While an editor is attached two things change in each process of the session,
stopped or not:

- `time.monotonic`, `perf_counter` and `time`, from the first stop on, do not count stopped time (slow_clocks.py).
    Loops that wait until a moment (`queue`, `subprocess`, `asyncio`, `multiprocessing.connection.wait`) wait longer by
    that time.
- A wait that is one call (`Condition.wait`, `Thread.join`, `select`, reading from a socket with a timeout, `ray.get`,
    a store of torch) is repeated for the remaining time by these clocks: waits.py.

The debugger, what an editor evaluates, dkdbg itself and heartbeat threads keep the true clocks. Timers that end a process
are stopped meanwhile (timers.py).

Heartbeat threads run on while the debugger holds the job. A parent, a broker or a lease that is not under dkdbg counts
the beats, and its clock cannot be stopped. pydevd neither stops nor traces a thread with its mark, so a breakpoint in it
does not stop.
"""

# Threads are the program's, of any class.
# ruff: noqa: ANN401

from __future__ import annotations

import _thread
import fnmatch
import functools
import os
import re

from .. import importing, session
from . import held_time, timers
from .slow_clocks import BEATS, State, behind, replace, restore
from .untraced import Suppress
from .waits import WAITS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Pattern

#: The same as in settings.py, which is not beside the hook.
ENV_BEATS = "DKDBG_BEATS"
#: Patterns of known heartbeat threads: uvicorn's answer to its parent, the lease of torchelastic's rendezvous.
_KNOWN_BEATS = ("always_pong", "RendezvousKeepAliveTimer_*")
#: pydevd's mark.
_UNTRACED = "pydev_do_not_trace"


def follow(directory: str, *, at_start: bool = False) -> None:
    """Update this process: lengthen waits while an editor is attached, replace the clocks after a first stop.

    Args:
        at_start: whether its program has not begun: then its clocks are behind as its parent's are.
    """
    with Suppress(Exception):  # an error here must not end the program
        _follow(directory, at_start=at_start)


def _follow(directory: str, *, at_start: bool) -> None:
    State.directory = directory
    attached = session.editor_is_attached(directory)
    if attached:
        # Forget the cached answer, which may be some ms old.
        State.reader, State.right_until = held_time.reader(directory), 0.0
        if not State.lengthened:
            State.lengthened = True
            for name, change in (*WAITS.items(), *timers.CHANGES.items(), ("threading", _mark_beats)):
                importing.after(name, change)
    if behind() > 0.0:
        replace(at_start=at_start)
        timers.watch()
    if not attached and not (State.stopping and behind() > 0.0):  # else seconds_behind() does, later
        restore()


def on_stop(*, is_first: bool) -> None:
    """Stop the timers when the debugger stops this thread, if no other one of the process is stopped (`is_first`)."""
    State.stopped.add(_thread.get_ident())
    if is_first:
        with Suppress(Exception):
            timers.stop()


def on_resume(*, is_last: bool) -> None:
    """Start timers and clocks when the debugger resumes this thread, if no other one is stopped (`is_last`)."""
    State.stopped.discard(_thread.get_ident())
    if is_last:
        State.resumed_at = session.monotonic()
        with Suppress(Exception):  # an error in pydevd's resume would end the program's thread
            timers.start()


def _mark_beats(module: Any) -> None:
    """Mark heartbeat threads, now and when they start: by name, target or class."""
    patterns = [*_KNOWN_BEATS, *filter(None, map(str.strip, os.environ.get(ENV_BEATS, "").split(",")))]
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
        setattr(thread, _UNTRACED, True)
        setattr(thread, BEATS, True)
