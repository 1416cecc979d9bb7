"""A remote program whose relay runs on this machine, in place of a host behind ssh."""

import contextlib
import json
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from dkdbg import agent, signals
from dkdbg.relay.relay import Relay

RUNS = """
import pathlib, signal, sys, time
from dkdbg import agent
from dkdbg.core.target import Local
from dkdbg.errors import DkdbgError
from dkdbg.relay import remote_program

class Target:
    def again(self, *, silent, limit):
        if sys.argv[1] != "unreachable":
            return Local()
        while signal.getsignal(signal.SIGHUP) == signal.SIG_DFL:
            time.sleep(0.01)
        print("connecting", flush=True)
        raise DkdbgError("it does not answer")

words = (sys.executable, "-I", "-S", "-B", str(pathlib.Path(agent.__file__).with_name("__main__.py")))
try:
    sys.exit(remote_program.run(Target(), words, sys.argv[1:], label="there", tty=False, hint=""))
except DkdbgError as error:
    print(error.message)
    sys.exit(error.exit_code)
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


@pytest.mark.parametrize("number", signals.ENDING)
def test_a_signal_before_the_first_connection_ends_the_start(number):
    """A first connection may take 90 s: the program was told as running on, and was not there."""
    words = [sys.executable, "-c", RUNS, "unreachable"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    with subprocess.Popen(words, **pipes) as running:
        assert running.stdout.readline() == "connecting\n"
        running.send_signal(number)
        said = running.communicate(timeout=60)[0].replace("connecting\n", "")
    assert (running.returncode, said) == (130, "interrupted while connecting to there; nothing was started\n")


def test_a_program_that_was_withdrawn_is_not_started_by_a_later_connection(tmp_path):
    begins, ended = threading.Event(), threading.Event()

    class Observer:
        def exited(self, _code):
            ended.set()

        lost = ended.set

    def command(word, _silent, _limit):
        begins.wait(60)
        return (
            sys.executable,
            "-I",
            "-S",
            "-B",
            str(Path(agent.__file__).with_name("__main__.py")),
            "relay",
            word,
        )

    def start(name):
        order = json.dumps({"argv": ["touch", str(tmp_path / name)], "terminal": None, "environment": {}})
        stdio, stderr = socket.socketpair()[0], socket.socketpair()[0]
        relay.start(order.encode(), stdio, stderr)

    with contextlib.closing(Relay(command, Observer())) as relay:
        start("withdrawn")
        assert relay.withdraw()
        start("started")
        begins.set()
        assert ended.wait(60)
        assert not relay.withdraw()
    assert [each.name for each in tmp_path.iterdir()] == ["started"]
