"""A signal that nothing interrupts is acted upon all the same."""

import os
import signal
import subprocess
import sys

WAITS = """
import os, signal, threading
from dkdbg import signals

threading.Thread(target=threading.Event().wait, daemon=True).start()  # the kernel gives the signal to this thread
signals.handle_promptly()
signals.handle_promptly()
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
try:
    print("up", flush=True)
    os.read(0, 1)
except KeyboardInterrupt:
    print("interrupted")
"""


def test_a_signal_that_another_thread_takes_interrupts_what_the_main_thread_waits_for():
    """Nothing is ever written to what it reads: without `handle_promptly` it waits for ever."""
    ours, theirs = os.pipe()
    with subprocess.Popen(
        [sys.executable, "-c", WAITS], stdin=ours, stdout=subprocess.PIPE, text=True
    ) as child:
        os.close(ours)
        assert child.stdout.readline() == "up\n"
        child.send_signal(signal.SIGINT)
        assert child.stdout.readline() == "interrupted\n"
        os.close(theirs)
    assert child.returncode == 0
