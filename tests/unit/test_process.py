"""What is said of programs that cannot be started, and how a signal ends a wait for one."""

import signal
import subprocess
import sys

import pytest

from dkdbg import process
from dkdbg.errors import DkdbgError


def test_a_program_that_may_not_be_executed_is_shown_where_it_was_found(tmp_path, monkeypatch):
    (tmp_path / "interpreter").touch(0o644)
    program = tmp_path / "docker"
    program.write_text(f"#!{tmp_path / 'interpreter'}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DkdbgError, match="'docker' is not executable") as caught:
        process.converse(["docker", "exec", "x"])
    assert f"ls -l {program}" in caught.value.hint


CALLER = """
import signal, sys
from dkdbg import process, signals

signals.handle_promptly()
for number in signals.ENDING:
    signal.signal(number, signals.interrupt_once)
words = [sys.executable, "-c", "import os, signal, time\\n" + sys.argv[2]]
eval(sys.argv[1])
"""
END = f"os.kill(os.getppid(), {int(signal.SIGTERM)})"
#: Ends its caller once that has the first line.
STREAM = "process.stream(words, report=lambda line: signal.raise_signal(signal.SIGTERM))"
STUBBORN = "signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); time.sleep(1); print('x' * (1 << 20))"


@pytest.mark.parametrize(
    ("call", "child"),
    [
        ("process.read(words, max_bytes=1, timeout=300)", f"time.sleep(1); {END}; time.sleep(600)"),
        (STREAM, "print(1, flush=True); time.sleep(600)"),
        (STREAM, STUBBORN),
    ],
    ids=["read", "stream", "stream-stubborn"],
)
def test_a_signal_ends_a_wait_for_a_program_and_the_program(call, child):
    caller = subprocess.run(
        [sys.executable, "-c", CALLER, call, child], check=False, stderr=subprocess.PIPE, timeout=60
    )
    assert caller.stderr.endswith(b"KeyboardInterrupt\n")


@pytest.mark.parametrize("tty", [False, True])
def test_a_signal_in_the_moment_in_which_a_program_starts_reaches_it(monkeypatch, *, tty):
    number = signal.SIGINT if tty else signal.SIGTERM

    class Signalled(subprocess.Popen):
        def __init__(self, *words, **more):
            super().__init__(*words, **more)
            signal.raise_signal(number)

    monkeypatch.setattr(subprocess, "Popen", Signalled)
    former = signal.signal(number, lambda *_: None)  # for a version that sets its own too late
    try:
        assert process.attached(["sleep", "9"], tty=tty) == 128 + number
    finally:
        signal.signal(number, former)
