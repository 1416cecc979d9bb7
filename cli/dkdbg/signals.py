"""Handle signals at once, even one that arrives just before the main thread blocks.

Python runs a signal's handler between two steps of the main thread. A signal that arrives after the last step
before a blocking system call, or in another thread, does not interrupt that call: Ctrl-C at a question was lost
until the next key (1 of 40 on one busy core). The interpreter writes a byte for each signal to a pipe
(`signal.set_wakeup_fd`). A thread reads it and interrupts the main thread a moment later, which then runs the
handler.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import FrameType

#: Seconds before each of several interruptions: on a busy machine the main thread may enter its blocking call only
#: after the first one.
PAUSES_S = (0.05, 0.5, 2.0)
_heard: list[int] = []
#: Signals that end a verb.
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
#: Signals that were ignored when this process started: nohup does so with SIGHUP, a script with SIGINT for `COMMAND &`.
_INHERITED = frozenset(each for each in ENDING if signal.getsignal(each) == signal.SIG_IGN)
#: Seconds between two turns of a verb's waiting loop: Ctrl-C is noticed within this time.
SIGNAL_INTERVAL = 0.3


def handle_promptly() -> None:
    """Start the thread that interrupts the main thread when a signal arrives.

    Call it once, in the main thread. It does nothing on a platform without `pthread_kill`.
    """
    if _heard or not hasattr(signal, "pthread_kill"):
        return
    read, write = os.pipe()
    os.set_blocking(write, False)
    _heard.append(read)
    # The main thread is interrupted by SIGURG: it is ignored by default, so children and programs that replace us are
    # unaffected.
    signal.signal(signal.SIGURG, lambda *_: None)
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    threading.Thread(target=_interrupt, args=(read,), name="dkdbg signals", daemon=True).start()


def _interrupt(read: int) -> None:
    main = threading.main_thread().ident
    while main is not None and (received := os.read(read, 64)):
        if set(received) <= {signal.SIGURG}:
            continue
        for pause in PAUSES_S:
            time.sleep(pause)
            signal.pthread_kill(main, signal.SIGURG)


def handle(
    handler: Callable[[int, FrameType | None], object] | signal.Handlers,
    numbers: Iterable[signal.Signals] = ENDING,
) -> dict[signal.Signals, Any]:
    """Set the handler of signals that end a verb, and return the former handlers.

    Signals that were ignored when this process started stay ignored.
    """
    return {each: signal.signal(each, handler) for each in numbers if each not in _INHERITED}


def interrupt_once(*_: object) -> NoReturn:
    """Raise KeyboardInterrupt to end the verb, and ignore further signals while the verb closes."""
    ignore()
    raise KeyboardInterrupt


def ignore() -> None:
    """Ignore the signals that end a verb from now on: a user who pressed Ctrl-C twice may press it again."""
    for number in ENDING:
        signal.signal(number, signal.SIG_IGN)


@contextlib.contextmanager
def delayed() -> Iterator[None]:
    """Delay signals that end a verb until the end of the with statement, so that its body can record what it creates.

    At the end, the first delayed signal is raised again; without a handler it ends the process. Ignored signals stay
    ignored.
    """
    received: list[int] = []
    found = {number: signal.getsignal(number) for number in ENDING}
    former = {number: handler for number, handler in found.items() if handler not in {None, signal.SIG_IGN}}
    for each in former:
        signal.signal(each, lambda number, _frame: received.append(number))
    try:
        yield
    finally:
        for each, handler in former.items():
            signal.signal(each, handler)
        for number in received[:1]:
            signal.raise_signal(number)


@contextlib.contextmanager
def handled(
    handler: Callable[[int, FrameType | None], object] | signal.Handlers,
    numbers: Iterable[signal.Signals] = ENDING,
) -> Iterator[None]:
    """Set the handler of signals that end a verb until the with statement's end; see `handle`."""
    former = handle(handler, numbers)
    try:
        yield
    finally:
        for number, before in former.items():
            signal.signal(number, before)


@contextlib.contextmanager
def ignored() -> Iterator[None]:
    """Ignore the signals that end a verb, also in child processes started meanwhile, so that a removal completes."""
    with handled(signal.SIG_IGN):
        yield
