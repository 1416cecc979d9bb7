"""The agent of an installed dkdbg around a program of another Python, as the `local:` target has it."""

# ruff: noqa: PLW1510

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from dkdbg.dap.debugger import Debugger
from dkdbg.dap.values import AttachOptions

if TYPE_CHECKING:
    from pathlib import Path


def test_a_program_of_a_python_without_debugpy_can_be_debugged(tmp_path: Path) -> None:
    python = getattr(sys, "_base_executable", sys.executable)
    if subprocess.run([python, "-c", "import debugpy"], capture_output=True).returncode == 0:
        pytest.skip(f"{python} has a debugpy of its own")
    script = tmp_path / "train.py"
    script.write_text("import os, time\nwhile not os.path.exists('stop'):\n    time.sleep(0.02)\n")
    argv = [
        sys.executable,
        "-m",
        "dkdbg.agent",
        "launch",
        "--port",
        "0",
        "--runtime",
        str(tmp_path / "run"),
        "--",
        python,
    ]
    agent = subprocess.Popen([*argv, str(script)], cwd=tmp_path, env=dict(os.environ))
    try:
        port = _port(tmp_path / "run")
        with Debugger(AttachOptions(port=port)) as debugger:
            debugger.set_breakpoints(str(script), [3])
            debugger.attach()
            assert debugger.stack(debugger.wait_stopped(300))[0].line == 3
            (tmp_path / "stop").touch()
            debugger.set_breakpoints(str(script), [])
        assert agent.wait(300) == 0
    finally:
        agent.kill()
        agent.wait()


def _port(runtime: Path) -> int:
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        for path in runtime.glob("*/session.json"):
            record = json.loads(path.read_text())
            if record["state"] == "running":
                return int(record["port"])
        time.sleep(0.05)
    raise AssertionError("the agent did not start the program")
