"""Signals are acted upon at once, also one that comes just before the main thread begins to wait.

Python runs a signal's handler between two steps of the main thread. When the signal comes after the last step before a
system call that waits, or in another thread, nothing interrupts that call: a Ctrl-C at a question was lost until the
next key (1 of 40 on one busy core). The interpreter tells of each signal by a byte in a pipe (`signal.set_wakeup_fd`);
a thread that reads it interrupts the main thread a moment later, which then finds the signal.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import NoReturn

#: Seconds from one interruption to the next: a machine that is busy may take a while to begin to wait.
PAUSES = (0.05, 0.5, 2.0)
_heard: list[int] = []
#: Signals that end a verb.
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
#: Seconds until Ctrl-C is noticed at the latest.
SIGNAL_INTERVAL = 0.3


def hear_at_once() -> None:
    """Begin, once in a process and in its main thread; nothing where the platform has no such signals."""
    if _heard or not hasattr(signal, "pthread_kill"):
        return
    read, write = os.pipe()
    os.set_blocking(write, False)
    _heard.append(read)
    # By default it is ignored, so that children and programs that take our place are not changed by it.
    signal.signal(signal.SIGURG, lambda *_: None)
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    threading.Thread(target=_interrupt, args=(read,), name="dkdbg signals", daemon=True).start()


def _interrupt(read: int) -> None:
    main = threading.main_thread().ident
    while main is not None and (told := os.read(read, 64)):
        if set(told) <= {signal.SIGURG}:
            continue
        for pause in PAUSES:
            time.sleep(pause)
            signal.pthread_kill(main, signal.SIGURG)


def interrupt_once(*_: object) -> NoReturn:
    """Begin to end; a second signal does not disturb what is being closed, which takes two seconds at most."""
    for number in ENDING:
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt
