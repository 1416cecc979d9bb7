"""An editor's session with a program two hops away, in bad weather."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from dkdbg.dap.debugger import Debugger
from dkdbg.dap.values import AttachOptions
from tests.engine.host_doors import host_door
from tests.engine.projects import LOOP, marked_line, write

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("far")]

NODE = "ssh://login,node1"


@contextmanager
def running(laptop, root) -> Iterator[subprocess.Popen[str]]:
    """`dkdbg run --on` two hops away."""
    write(root, **{"train.py": LOOP})
    laptop.put("node1", "/home/me/code/train.py", (root / "train.py").read_text())
    words = ["run", "--on", f"{NODE}/~/code", "--wait", "60", "--", "python3", "train.py"]
    started = subprocess.Popen(
        [sys.executable, "-m", "dkdbg", *words], cwd=root, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        yield started
    finally:
        started.send_signal(signal.SIGINT)
        started.communicate(timeout=60)
        laptop.sh("node1", "pkill -INT -u me python3", check=False)


def options(root, port: int) -> AttachOptions:
    return AttachOptions(host="127.0.0.1", port=port, path_mappings=((str(root), "/home/me/code"),))


def test_a_breakpoint_that_was_set_here_stops_two_hops_away(laptop, tmp_path):
    with running(laptop, tmp_path), host_door(tmp_path, NODE) as door:
        with Debugger(options(tmp_path, door.port)) as debugger:
            here = str(tmp_path / "train.py")
            debugger.set_breakpoints(here, [marked_line(tmp_path / "train.py")])
            debugger.attach()
            top = debugger.stack(debugger.wait_stopped(60))[0]
            assert (top.path, top.name) == (here, "step")
            assert "loss" in debugger.local_values(top)
        assert door.end() == 0


def test_a_session_outlives_killed_and_silent_connections(laptop, tmp_path, record_property):
    """ssh killed here, sshd's session killed there, packets that vanish: the same session answers, nothing is missed."""
    with running(laptop, tmp_path), host_door(tmp_path, NODE) as door:
        with Debugger(options(tmp_path, door.port)) as debugger:
            debugger.set_breakpoints(str(tmp_path / "train.py"), [marked_line(tmp_path / "train.py")])
            debugger.attach()
            stopped = debugger.wait_stopped(60)
            count = int(debugger.local_values(debugger.stack(stopped)[0])["n"])

            def usable() -> None:
                """Step on to the next stop: it is that of the next round."""
                nonlocal count, stopped
                debugger.continue_(stopped)
                stopped = debugger.wait_stopped(60)
                count += 1
                assert int(debugger.local_values(debugger.stack(stopped)[0])["n"]) == count

            usable()
            times: list[float] = []

            def measure() -> None:
                began = time.monotonic()
                usable()
                times.append(time.monotonic() - began)

            for _ in range(2):
                for pid in laptop.local_ssh():
                    os.kill(pid, signal.SIGKILL)
                measure()
            for host in ("node1", "login"):
                laptop.kill_sessions(host)
                measure()
            laptop.drop("node1")
            try:
                time.sleep(5)  # the weather, not a wait
            finally:
                laptop.undrop("node1")
            measure()
        record_property("usable after a cut", " ".join(f"{each:.1f}" for each in times))
        assert not [each for each in door.events if each["event"] == "over" and "ended" not in each["text"]]
        assert door.end() == 0
