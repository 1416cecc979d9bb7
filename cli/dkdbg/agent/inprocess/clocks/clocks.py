"""Clocks that stop with the program: a process at a breakpoint must not make others of its job time out.

Many parents wait for a child with a time limit (`DataLoader(timeout=20)`, gunicorn's arbiter, an engine's
heartbeat), by Python's clocks. While an editor is attached two things change in each process of the session,
stopped or not:

- `time.monotonic`, `perf_counter` and `time`, from the first stop on, do not count stopped time (slow_clocks.py).
    Loops that wait until a moment (`queue`, `subprocess`, `asyncio`, `multiprocessing.connection.wait`) wait longer by it.
- A wait that is one call (`Condition.wait`, `Thread.join`, `select`, reading from a socket with a timeout, `ray.get`,
    a store of torch) is repeated for the remaining time by these clocks: waits.py.

The debugger, what an editor evaluates, dkdbg itself and threads that only beat (beats.py) keep the true clocks. Timers
that end a process are stopped meanwhile (timers.py).
"""

from __future__ import annotations

import _thread

from .. import importing, session
from . import beats, held_time, timers
from .slow_clocks import State, behind, replace, restore, true_monotonic
from .untraced import Suppress
from .waits import WAITS


def follow(directory: str) -> None:
    """Update this process: lengthen waits while an editor is attached, replace the clocks after a first stop."""
    with Suppress(Exception):  # an error here must not end the program
        _follow(directory)


def _follow(directory: str) -> None:
    State.directory = directory
    attached = session.editor_is_attached(directory)
    if attached:
        # Forget the cached answer, which may be some ms old.
        State.reader, State.right_until = held_time.reader(directory), 0.0
        if not State.lengthened:
            State.lengthened = True
            for changes in (WAITS, timers.CHANGES, beats.CHANGES):
                for name, change in changes.items():
                    importing.after(name, change)
    if behind() > 0.0:
        replace()
        timers.watch()
    elif not attached:
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
        State.resumed_at = true_monotonic()
        with Suppress(Exception):  # an error in pydevd's resume would end the program's thread
            timers.start()
