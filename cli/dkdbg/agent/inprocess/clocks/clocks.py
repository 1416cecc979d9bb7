"""Clocks that stop with the program: a process at a breakpoint must not make others of its job time out.

Many processes wait for others with a time limit on Python's clocks (`DataLoader(timeout=20)`, gunicorn's arbiter, an
inference engine's heartbeat). While an editor is attached, two things change in each process of the session, stopped or
not:

- `time.monotonic`, `perf_counter` and `time`, from the first stop on, do not count stopped time (slow_clocks.py).
  Loops that wait until a deadline (`queue`, `subprocess`, `asyncio`, `multiprocessing.connection.wait`) wait that
  much longer.
- A wait that is a single call (`Condition.wait`, `Thread.join`, `select`, reading from a socket with a timeout,
  `ray.get`, a store of torch) is repeated for the time that remains on these clocks (waits.py).

The debugger, code that an editor evaluates, dkdbg itself and heartbeat threads keep the true clocks. Timers that
would end a process are stopped while the job is stopped (timers.py).

Heartbeat threads keep running while the debugger holds the job, because something outside of dkdbg (a parent, a message
broker, a lease) counts their beats by a clock that cannot be stopped. Threads that are marked as heartbeat threads are
neither stopped nor traced by pydevd, so a breakpoint in one does not stop.
"""

# The program's threads may be of any class.
# ruff: noqa: ANN401

from __future__ import annotations

import _thread
import fnmatch
import functools
import os
import re

from .. import importing, session
from . import held_time, timers
from .slow_clocks import IS_HEARTBEAT, State, behind, replace, restore
from .untraced import Suppress
from .waits import WAITS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Pattern

#: A copy of the name in settings.py, which this process cannot import.
ENV_BEATS = "DKDBG_BEATS"
#: Patterns of known heartbeat threads: uvicorn's answer to its parent, the lease of torchelastic's rendezvous.
_HEARTBEAT_NAMES = ("always_pong", "RendezvousKeepAliveTimer_*")
#: Attribute of a thread that makes pydevd ignore it.
_UNTRACED = "pydev_do_not_trace"


def follow(directory: str, *, at_start: bool = False) -> None:
    """Make the changes that are due: lengthen waits if an editor is attached, replace the clocks if a stop has begun.

    Args:
        at_start: whether the program has not begun yet: then its clocks start as far behind as its parent's.
    """
    with Suppress(Exception):  # an error here must not end the program
        _follow(directory, at_start=at_start)


def _follow(directory: str, *, at_start: bool) -> None:
    State.directory = directory
    attached = session.editor_is_attached(directory)
    if attached:
        # Reset `right_until`, by which the clocks would count as right for some more milliseconds.
        State.reader, State.right_until = held_time.reader(directory), 0.0
        if not State.lengthened:
            State.lengthened = True
            more = (
                ("threading", _exempt_heartbeats),
                ("torch.distributed.distributed_c10d", _raise_timeouts),
            )
            for name, change in (*WAITS.items(), *timers.CHANGES.items(), *more):
                importing.after(name, change)
    if behind() > 0.0:
        replace(at_start=at_start)
        timers.watch()
    if not attached and not (State.stopping and behind() > 0.0):  # else seconds_behind() restores them later
        restore()


def _raise_timeouts(_: Any) -> None:
    """Raise the timeouts of torch's process groups, once torch is imported: any process may become a rank."""
    from . import timeouts

    timeouts.follow(State.directory)


def on_stop(*, is_first: bool) -> None:
    """Record that the debugger stops this thread; stop the timers if no other thread is stopped (`is_first`)."""
    State.stopped.add(_thread.get_ident())
    if is_first:
        with Suppress(Exception):
            timers.stop()


def on_resume(*, is_last: bool) -> None:
    """Record that this thread continues; start timers and clocks if no other thread is stopped (`is_last`)."""
    State.stopped.discard(_thread.get_ident())
    if is_last:
        State.resumed_at = session.monotonic()
        with Suppress(Exception):  # an error in pydevd's resume would end the program's thread
            timers.start()


def _exempt_heartbeats(module: Any) -> None:
    """Mark threads as heartbeat threads by the name of the thread, its target or its class, now and when they start."""
    patterns = [
        *_HEARTBEAT_NAMES,
        *filter(None, map(str.strip, os.environ.get(ENV_BEATS, "").split(","))),
    ]
    beating = re.compile("|".join(map(fnmatch.translate, patterns)))
    true = module.Thread.start

    @functools.wraps(true)
    def start(self):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        with Suppress(Exception):  # an error here must not end the program
            _exempt_beating(self, beating)
        return true(self)

    module.Thread.start = start
    for thread in module.enumerate():
        _exempt_beating(thread, beating)


def _exempt_beating(thread: Any, beating: Pattern[str]) -> None:
    target = getattr(thread, "_target", None)
    names = (thread.name, getattr(target, "__name__", ""), type(thread).__name__)
    if any(map(beating.match, map(str, names))):
        setattr(thread, _UNTRACED, True)
        setattr(thread, IS_HEARTBEAT, True)
