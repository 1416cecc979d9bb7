"""`dkdbg attach local: --pid`: a Python of this machine is entered once, by its own user alone, and runs on."""

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dkdbg import hints
from dkdbg.agent.inprocess import passing
from dkdbg.dap.debugger import AttachOptions, Debugger
from tests.agent.dap_probe import wait_for
from tests.engine.attach_proxies import AttachProxy, attach_proxy, typed_proxy
from tests.engine.projects import dkdbg
from tests.hints import hinted

LOOP = "import time; print('up', flush=True)\nn = 0\nwhile True:\n    n += 1\n    time.sleep(0.05)\n"


@contextmanager
def looping(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    (folder / "loop.py").write_text(LOOP)
    program = subprocess.Popen([sys.executable, str(folder / "loop.py")], cwd="/", stdout=subprocess.PIPE)
    try:
        assert program.stdout.readline() == b"up\n"
        yield program
    finally:
        program.kill()
        program.communicate()


@contextmanager
def starting(folder: Path, text: str) -> Iterator[subprocess.Popen[bytes]]:
    """A program that is up, and starts child.py."""
    (folder / "child.py").write_text("print(6 * 7)\n")
    (folder / "loop.py").write_text("import os, subprocess, sys, time; print('up', flush=True)\n" + text)
    with subprocess.Popen([sys.executable, "loop.py"], cwd=folder, stdout=subprocess.PIPE) as program:
        assert program.stdout.readline() == b"up\n"
        yield program


def stopped(folder: Path, proxy: AttachProxy) -> int:
    with Debugger(AttachOptions(port=proxy.port)) as debugger:
        debugger.set_breakpoints(str(folder / "loop.py"), [4])
        debugger.attach()
        return int(debugger.evaluate("n", debugger.stack(debugger.wait_stopped(300))[0]))


def test_a_second_attach_is_told_who_has_it_and_the_program_outlives_both(tmp_path):
    with looping(tmp_path) as program:
        pid, entered = ("--pid", str(program.pid)), f"attached to process {program.pid}"
        with attach_proxy(tmp_path, "local:", options=pid) as proxy:
            wait_for(lambda: "".join(each["text"] for each in [*proxy.events]), lambda said: entered in said)
            second = dkdbg(tmp_path, "attach", "local:", *pid)
            assert second.returncode == 1, second.stdout + second.stderr
            assert "it is in another session of dkdbg already" in second.stderr
            [line] = hinted(second.stderr, hints.JOIN_SESSION)
            with typed_proxy(tmp_path, line) as joined:
                assert stopped(tmp_path, joined) > 0
            assert stopped(tmp_path, proxy) > 0
            assert proxy.end() == 0
        assert program.poll() is None


def test_each_of_two_attaches_leads_to_its_own_program(tmp_path):
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    with looping(tmp_path / "first") as first, looping(tmp_path / "second") as second:
        pids = [("--pid", str(each.pid)) for each in (first, second)]
        with (
            attach_proxy(tmp_path, "local:", options=pids[0]) as of_first,
            attach_proxy(tmp_path, "local:", options=pids[1]) as of_second,
        ):
            assert stopped(tmp_path / "first", of_first) > 0
            assert stopped(tmp_path / "second", of_second) > 0
            refused = dkdbg(tmp_path, "attach", "local:", *pids[0])
            [line] = hinted(refused.stderr, hints.JOIN_SESSION)
            with typed_proxy(tmp_path, line) as joined:
                assert stopped(tmp_path / "first", joined) > 0


def test_programs_that_it_starts_with_an_environment_of_their_own_stop_too(tmp_path):
    text = "while not os.path.exists('go'):\n    time.sleep(0.05)\nprint(subprocess.check_output([sys.executable, 'child.py'], env={}))\n"
    with (
        starting(tmp_path, text) as program,
        attach_proxy(tmp_path, "local:", options=("--pid", str(program.pid))) as proxy,
        Debugger(AttachOptions(port=proxy.port)) as debugger,
    ):
        debugger.set_breakpoints(str(tmp_path / "child.py"), [1])
        debugger.attach()
        wait_for(lambda: len(debugger.sessions), lambda count: count > 1)
        (tmp_path / "go").touch()
        stop = debugger.wait_stopped(300)
        assert debugger.stack(stop)[0].path == str(tmp_path / "child.py")
        debugger.continue_(stop)
        assert program.stdout.readline() == b"b'42\\n'\n"


def test_after_a_second_attach_programs_with_another_environment_are_of_its_session(tmp_path):
    text = (
        "while 'DKDBG_SESSION_DIR' not in os.environ:\n    time.sleep(0.05)\n"
        "former = {**os.environ}; print('copied', flush=True)\n"
        "while not os.path.exists('go'):\n    time.sleep(0.05)\n"
        "for each in ({}, former):\n"
        "    print(subprocess.check_output([sys.executable, 'child.py'], env=each), flush=True)\n"
    )
    with starting(tmp_path, text) as program:
        pid = ("--pid", str(program.pid))
        with attach_proxy(tmp_path, "local:", options=pid) as proxy:
            assert program.stdout.readline() == b"copied\n"
            assert proxy.end() == 0
        with (
            attach_proxy(tmp_path, "local:", options=pid) as proxy,
            Debugger(AttachOptions(port=proxy.port)) as debugger,
        ):
            debugger.set_breakpoints(str(tmp_path / "child.py"), [1])
            debugger.attach()
            wait_for(lambda: len(debugger.sessions), lambda count: count > 1)
            (tmp_path / "go").touch()
            for _ in range(2):
                stop = debugger.wait_stopped(300)
                assert debugger.stack(stop)[0].path == str(tmp_path / "child.py")
                debugger.continue_(stop)
                assert program.stdout.readline() == b"b'42\\n'\n"


def test_the_hook_of_another_version_whose_session_has_ended_is_not_passed_on(tmp_path):
    (tmp_path / "p").mkdir()
    for former in ("/run/hook-0123456789ab/hook", "/venv/dkdbg/agent/inprocess/hook"):
        copied = {"PYTHONPATH": f"{former}:/src::/lib", "DKDBG_SESSION_DIR": "/gone"}
        passed = passing.with_session(str(tmp_path), "/run/hook-ba9876543210/hook", copied)
        assert passed[b"PYTHONPATH"] == b"/run/hook-ba9876543210/hook:/src::/lib"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start another user's program")
def test_the_python_of_another_user_is_not_entered(tmp_path):
    other = ["setpriv", "--reuid", "1234", "--regid", "1234", "--clear-groups", "env", "-u", "PYTHONHOME"]
    with subprocess.Popen([*other, "/usr/bin/python3", "-c", LOOP], stdout=subprocess.PIPE) as program:
        try:
            assert program.stdout.readline() == b"up\n"  # by now it is the other user's Python
            refused = dkdbg(tmp_path, "attach", "local:", "--pid", str(program.pid))
            assert refused.returncode == 1, refused.stdout + refused.stderr
            assert "belongs to user 1234" in refused.stderr
            [line] = hinted(refused.stderr, hints.RUN_AGAIN)
            assert shlex.split(line)[-3:] == ["/usr/bin/python3", "-c", " ".join(LOOP.splitlines())]
            assert program.poll() is None
        finally:
            program.kill()
