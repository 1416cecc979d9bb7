"""An editor that comes before the adapter is up: it waits and is attached; probes are told the truth meanwhile."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
from typing import TYPE_CHECKING

import pytest

from dkdbg.agent.record import health
from tests.agent.dap_probe import Editor
from tests.agent.repack import repack
from tests.ports import free_port

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def slow(layout: Path, tmp_path: Path) -> Path:
    """The agent with an adapter that needs 1.5 s longer to start, as from a cold disk."""

    def slowed(name: str, content: bytes) -> bytes:
        if name != "dkdbg/agent/adapter/adapter.py":
            return content
        assert content.count(b"    options = json.loads") == 1
        return content.replace(b"    options = json.loads", b"    time.sleep(1.5)\n    options = json.loads")

    return repack(layout / "agent.pyz", tmp_path / "slow" / "agent.pyz", slowed).parent


def healthz(port: int) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=5) as answer:
            return answer.status, json.load(answer)["state"]
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)["state"]


def test_an_attach_before_the_adapter_is_up_stops_at_the_first_line(
    launch, slow: Path, tmp_path: Path
) -> None:
    script = tmp_path / "train.py"
    script.write_text("x = 1\nprint(x)\n")
    runtime = tmp_path / "run"
    environment = {"DKDBG_PORT": str(free_port()), "DKDBG_RUNTIME_DIR": str(runtime)}
    running = launch(sys.executable, "train.py", wait="30", env=environment, layout=slow)
    running.runtime = runtime
    record = running.wait_state("starting")
    assert healthz(record["port"]) == (503, "starting")
    assert health.trouble(str(runtime)) == f"session {record['id']} is starting"
    assert not (runtime / "ready").exists()
    with Editor(record["port"], {str(script): [1]}) as editor:
        assert running.record()["adapter_up"]
        assert editor.wait_stops(1)[0]["line"] == 1
        assert running.finish()[0] == 0


def test_health_and_healthz_say_yes_together(launch, slow: Path, tmp_path: Path) -> None:
    runtime = tmp_path / "run"
    running = launch("sleep", "60", layout=slow, env={"DKDBG_RUNTIME_DIR": str(runtime)})
    running.runtime = runtime
    port = running.wait_state("starting")["port"]
    end = time.monotonic() + 15
    while health.trouble(str(runtime)):
        assert time.monotonic() < end
        assert healthz(port)[0] in (503, 200)
        time.sleep(0.02)
    assert healthz(port) == (200, "running")
    environment = {"PATH": "/nonexistent", "DKDBG_RUNTIME_DIR": str(runtime)}
    command = ["/bin/sh", str(slow / "agent.pyz"), "health"]
    assert subprocess.run(command, env=environment, check=False).returncode == 0
