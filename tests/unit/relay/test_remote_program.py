"""A remote program whose relay runs on this machine, in place of a host behind ssh."""

import signal
import subprocess
import sys

import pytest

RUNS = """
import pathlib, sys
from dkdbg import agent, process
from dkdbg.core.local_commands import Local
from dkdbg.relay import remote_program

class Target:
    def again(self, *, silent, limit):
        return Local(python=sys.executable)

words = (sys.executable, "-I", "-S", "-B", str(pathlib.Path(agent.__file__).with_name("__main__.py")))
sys.exit(remote_program.run(Target(), words, sys.argv[1:], label="there", tty=False, hint=""))
"""


#: Ends at a hangup with 9, or with the end of its input.
HANGS_UP = """
import signal, sys
signal.signal(signal.SIGHUP, lambda *_: sys.exit(9))
print("up", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize(("shell", "code"), [("", 9), ("trap '' HUP; ", 0)])
def test_a_closed_terminal_ends_no_program_that_was_started_with_nohup(shell, code):
    words = [
        "sh",
        "-c",
        shell + 'exec "$@"',
        "sh",
        sys.executable,
        "-c",
        RUNS,
        sys.executable,
        "-c",
        HANGS_UP,
    ]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout.readline() == "up\n"
        running.send_signal(signal.SIGHUP)
        if code == 0:
            running.stdin.close()
        assert running.wait(60) == code
