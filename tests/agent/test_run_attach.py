"""`dkdbg run --attach PORT`: an editor at that port gets the program of this line, whatever else runs here."""

import contextlib
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dkdbg.dap.debugger import Debugger
from dkdbg.dap.values import AttachOptions
from tests.ports import free_port, wait_open

LOOP = "import time\nfor n in range(3000):\n    m = n\n    time.sleep(0.1)\n"


@contextlib.contextmanager
def run(folder: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    env = {**os.environ, "DKDBG_RUNTIME_DIR": str(folder / "run")}
    started = subprocess.Popen(
        [sys.executable, "-m", "dkdbg", "run", "--on", "local:", "--port", str(free_port()), *words],
        cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    try:
        yield started
    finally:
        started.terminate()
        started.communicate()


def stops_at(folder: Path, port: int) -> str:
    """Return the file in which an editor stops that attaches to this port, as soon as it is open."""
    wait_open(port)
    options = AttachOptions(port=port, path_mappings=((str(folder), str(folder)),))
    with Debugger(options) as debugger:
        for name in ("a.py", "b.py"):
            debugger.set_breakpoints(str(folder / name), [3])
        debugger.attach()
        found = debugger.stack(debugger.wait_stopped(300))[0].path
        assert {each.name for each in debugger.sessions} & {"a.py", "b.py"} <= {Path(found).name}
        return found


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "run").mkdir(mode=0o700)
    for name in ("a.py", "b.py"):
        (tmp_path / name).write_text(LOOP)
    return tmp_path


def test_an_editor_that_comes_before_the_program_is_not_led_to_another_one(folder):
    port = free_port()
    with run(folder, "--", sys.executable, "a.py") as first:
        while "can attach" not in first.stdout.readline():
            assert first.poll() is None
        with run(folder, "--wait", "300", "--attach", str(port), "--", sys.executable, "b.py"):
            assert stops_at(folder, port) == str(folder / "b.py")


def test_two_programs_that_start_at_once_are_each_behind_their_own_port(folder):
    ports = free_port(), free_port()
    lines = [("--wait", "300", "--attach", str(port), "--", sys.executable) for port in ports]
    with run(folder, *lines[0], "a.py"), run(folder, *lines[1], "b.py"):
        with ThreadPoolExecutor() as pool:
            found = list(pool.map(stops_at, [folder, folder], ports))
        assert found == [str(folder / "a.py"), str(folder / "b.py")]
        assert stops_at(folder, ports[0]) == str(folder / "a.py")  # which is no longer the newest


def test_a_usual_port_that_is_taken_is_named_and_a_free_one_is_used(folder):
    command = [sys.executable, "-m", "dkdbg", "run", "--on", "local:"]
    env = {**os.environ, "DKDBG_RUNTIME_DIR": str(folder / "run")}
    env.pop("DKDBG_PORT", None)
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):  # another program of this machine has it
            stack.enter_context(socket.create_server(("127.0.0.1", 5678)))
        for more, code in (((), 0), (("--port", "5678"), 125)):
            done = subprocess.run(
                [*command, *more, "--", sys.executable, "-c", "print('ran')"],
                cwd=folder, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
            )  # fmt: skip
            assert (done.returncode, done.stdout) == (code, "" if code else "ran\n"), done.stderr
            if code:
                assert "cannot listen on 127.0.0.1:5678" in done.stderr
            else:
                assert re.search(
                    r"^dkdbg: port 5678 is taken: listening on (\d+); a launch entry with 5678 reaches another program\n"
                    r"dkdbg: a debugger can attach on 127\.0\.0\.1:\1 at any time$",
                    done.stderr,
                    re.MULTILINE,
                ), done.stderr
