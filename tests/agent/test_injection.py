"""A running Python below 3.14 executes a line by ptrace, at any moment of its own, and runs on as before."""

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dkdbg.agent.inject import injection, main
from tests.agent.dap_probe import wait_for
from tests.commands import command
from tests.pythons import need

PROGRAM = """import signal, time
got, entered = 0, False
def count(*_):
    global got
    got += 1
signal.signal(signal.SIGALRM, count)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2])
while True:
    print(got, entered, flush=True)
    time.sleep(0.01)
"""
#: A program whose names are those of built-in functions.
SHADOWING = """from os import *
from re import compile
from time import sleep
exec = BaseException = None
entered, known = False, ()
known = {*globals()}
while True:
    print(entered, *{*globals()} - known, flush=True)
    sleep(0.01)
"""
symbols = injection._symbols
OWN_MASK = 1 << signal.SIGUSR2 - 1


@contextmanager
def running(code: str = PROGRAM, minor: int = 11) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([need(minor), "-c", code], stdout=subprocess.PIPE) as program:
        try:
            program.stdout.readline()
            yield program
        finally:
            program.kill()


def status(pid: int, name: str) -> str:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(line.split()[1] for line in lines if line.startswith(name))


@pytest.fixture
def at_request(monkeypatch):
    """Acts once, before the first ptrace request of a kind."""

    def at(request, act):
        ask = injection._Stopped._ask
        left = [act]

        def acting(stopped, asked, *more):
            if asked == request and left:
                left.pop()()
            ask(stopped, asked, *more)

        monkeypatch.setattr(injection._Stopped, "_ask", acting)

    return at


@pytest.mark.parametrize("number", [signal.SIGALRM, signal.SIGWINCH, signal.SIGSTOP])
@pytest.mark.parametrize("moment", ["_INTERRUPT", "_STEP", "_CONT", "_DETACH"])
def test_a_signal_at_any_moment_is_the_programs(at_request, moment, number):
    with running() as program:

        def send():
            os.kill(program.pid, number)
            if moment == "_INTERRUPT":  # it runs, and is then stopped by the signal
                wait_for(lambda: status(program.pid, "State"), "t".__eq__)

        at_request(getattr(injection, moment), send)
        injection.run(program.pid, "entered = True")
        if number == signal.SIGSTOP:
            wait_for(lambda: status(program.pid, "State"), "T".__eq__)
            os.kill(program.pid, signal.SIGCONT)
        wanted = b"%d True\n" % (number == signal.SIGALRM)
        wait_for(program.stdout.readline, lambda line: line == wanted or not line)
        assert program.stdout.readline() == wanted
        assert int(status(program.pid, "SigBlk"), 16) == OWN_MASK


def test_a_failed_attach_leaves_the_programs_signals_to_it(monkeypatch):
    def fail(*_):
        os.kill(program.pid, signal.SIGALRM)
        raise OSError("no memory")

    monkeypatch.setattr(injection._Stopped, "write", fail)
    with running() as program:
        with pytest.raises(OSError, match="no memory"):
            injection.run(program.pid, "entered = True")
        wait_for(program.stdout.readline, lambda line: line in (b"1 False\n", b""))
        assert program.stdout.readline() == b"1 False\n"
        assert int(status(program.pid, "SigBlk"), 16) == OWN_MASK


def test_a_program_that_is_stopped_executes_it_when_it_continues():
    with running() as program:
        os.kill(program.pid, signal.SIGSTOP)
        wait_for(lambda: status(program.pid, "State"), "T".__eq__)
        injection.run(program.pid, "entered = True")
        wait_for(lambda: status(program.pid, "State"), "T".__eq__)
        os.kill(program.pid, signal.SIGCONT)
        wait_for(program.stdout.readline, lambda line: line in (b"0 True\n", b""))
        assert program.stdout.readline() == b"0 True\n"


@pytest.mark.parametrize("moment", ["_INTERRUPT", "_STEP", "_CONT", "_SETREGSET"])
def test_a_program_that_ends_during_an_attach_is_said_to_have_ended_and_its_parent_goes_on(
    at_request, moment
):
    script = '"$0" -c "$1" >/dev/null & echo $!; wait; echo ended'
    with subprocess.Popen(["sh", "-c", script, need(11), PROGRAM], stdout=subprocess.PIPE) as parent:
        pid = int(parent.stdout.readline())
        wait_for(lambda: int(status(pid, "SigBlk"), 16), OWN_MASK.__eq__)
        at_request(getattr(injection, moment), lambda: os.kill(pid, signal.SIGKILL))
        with pytest.raises(injection.InjectionError, match=f"process {pid} has ended"):
            injection.run(pid, "entered = True")
        assert parent.stdout.readline() == b"ended\n"


@pytest.mark.parametrize("end", ["", "raise SystemExit"])
@pytest.mark.parametrize("minor", [8, 11, 13])
def test_a_script_is_executed_whatever_the_program_names_and_leaves_no_name(tmp_path, minor, end):
    script = tmp_path / "script.py"
    script.write_text(f"import __main__\n__main__.entered = True\n{end}\n")
    with running(SHADOWING, minor) as program:
        injection.run(program.pid, main._line(str(script)))
        wait_for(program.stdout.readline, lambda line: line == b"True\n" or not line)
        assert program.stdout.readline() == b"True\n"


@pytest.fixture
def replaced(tmp_path):
    """A Python that is named as another program, whose executable and library were replaced since its start."""
    look = (
        "import os, sys, sysconfig\n"
        "print(sys.base_prefix, os.path.realpath(sys.executable), *sysconfig.get_config_vars('LIBDIR', 'INSTSONAME'))"
    )
    home, python, folder, name = command([need(11), "-c", look]).stdout.split()
    if ".so" not in name:
        pytest.skip("its executable has no library")
    library, program = tmp_path / name, tmp_path / "trainer"
    shutil.copy(Path(folder, name), library)
    shutil.copy(python, program)
    env = {"LD_LIBRARY_PATH": str(tmp_path), "PYTHONHOME": home}
    with subprocess.Popen([program, "-c", PROGRAM], stdout=subprocess.PIPE, env=env) as running:
        try:
            assert running.stdout.readline()
            for each in (library, program):
                each.unlink()
                each.write_bytes(b"\x7fELF\x02")
            yield running
        finally:
            running.kill()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may open a replaced file")
def test_a_python_is_entered_whose_library_was_replaced(replaced):
    assert main._version(replaced.pid) == (3, 11)
    injection.run(replaced.pid, "entered = True")
    wait_for(replaced.stdout.readline, lambda line: line == b"0 True\n" or not line)
    assert replaced.stdout.readline() == b"0 True\n"


def test_an_ordinary_user_is_told_which_library_was_replaced(replaced, monkeypatch):
    opened = open

    def refusing(path, *more, **options):
        if "map_files" in path:
            raise PermissionError(1, "Operation not permitted")
        return opened(path, *more, **options)

    monkeypatch.setattr(injection, "open", refusing, raising=False)
    with pytest.raises(
        injection.InjectionError, match=r"cannot read .*/libpython3\.11.*: .*start the program again"
    ):
        injection.run(replaced.pid, "entered = True")


def test_a_damaged_library_is_no_crash(monkeypatch):
    monkeypatch.setattr(injection, "_symbols", lambda data, names: symbols(data[:70], names))
    with running() as program, pytest.raises(injection.InjectionError, match="cannot read "):
        injection.run(program.pid, "entered = True")
