"""A signal that nothing interrupts is acted upon all the same."""

import os
import signal
import subprocess
import sys

import pytest

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


HANDLES = """
import signal
from dkdbg import process, signals

def show():
    print(*(each.name for each in signals.ENDING if signal.getsignal(each) is signals.interrupt_once))

signals.handle(signals.interrupt_once)
show()
with signals.delayed(), signals.ignored():
    pass
show()
signals.ignore()
signals.handle(signals.interrupt_once)
show()
print(process.attached(["sh", "-c", "kill -HUP $PPID"], tty=False, on_signal=print))
"""


@pytest.mark.parametrize(("shell", "hangs_up"), [("", True), ("trap '' HUP; ", False)])
def test_a_signal_that_was_ignored_at_the_start_stays_ignored(shell, hangs_up):
    """As with nohup: a closed terminal does not end what it started."""
    words = ["sh", "-c", shell + 'exec "$@"', "sh", sys.executable, "-c", HANDLES]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True)
    handled = "SIGINT SIGTERM" + " SIGHUP" * hangs_up
    assert done.stdout.split("\n")[:-1] == [*[handled] * 3, *["1"] * hangs_up, "0"]


DELAYS = """
import os, signal, sys
from dkdbg import signals

with signals.delayed():
    os.kill(os.getpid(), int(sys.argv[1]))
    print("all of the section")
    sys.stdout.flush()
print("and more")
"""


def test_a_delayed_signal_is_not_lost_when_the_section_fails():
    failing = DELAYS.replace("    sys.stdout.flush()", "    raise SystemExit(3)")
    child = subprocess.run([sys.executable, "-c", failing, str(int(signal.SIGTERM))], check=False)
    assert child.returncode == -signal.SIGTERM


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("former", [signal.SIG_DFL, signal.SIG_IGN])
def test_a_delayed_signal_ends_the_process_after_the_section_unless_it_was_ignored(number, former):
    child = subprocess.run(
        [sys.executable, "-c", DELAYS, str(int(number))],
        preexec_fn=lambda: signal.signal(number, former),
        capture_output=True,
        text=True,
        check=False,
    )
    ignored = former == signal.SIG_IGN
    assert child.stdout == "all of the section\n" + "and more\n" * ignored
    assert child.returncode == (0 if ignored else -number)
