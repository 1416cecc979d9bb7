"""An editor that comes before the adapter is up, or while the agent is slow: it waits, is attached, and gets each process."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from typing import TYPE_CHECKING

import pytest

from dkdbg.agent.record import health
from tests.agent.dap_probe import Editor, wait_for
from tests.agent.repack import repack
from tests.ports import free_port

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def slow(layout: Path, tmp_path: Path) -> Path:
    """The agent with an adapter that needs longer to start, as from a cold disk: until there is a file `up` beside it."""
    up = str(tmp_path / "slow" / "up")

    def slowed(name: str, content: bytes) -> bytes:
        if name != "dkdbg/agent/adapter/adapter.py":
            return content
        assert content.count(b"    options = json.loads") == 1
        waits = f"    while not os.path.exists({up!r}): time.sleep(0.02)\n    options = json.loads"
        return content.replace(b"    options = json.loads", waits.encode())

    return repack(layout / "agent.pyz", tmp_path / "slow" / "agent.pyz", slowed).parent


def healthz(port: int) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=300) as answer:
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
    running = launch(sys.executable, "train.py", wait="300", env=environment, layout=slow)
    record = running.wait_state("starting")
    assert healthz(record["port"]) == (503, "starting")
    assert health.trouble(str(runtime)) == f"session {record['id']} is starting"
    assert not (runtime / "ready").exists()
    threading.Timer(0.5, (slow / "up").touch).start()  # by then the editor waits for it
    with Editor(record["port"], {str(script): [1]}) as editor:
        wait_for(lambda: running.record()["adapter_up"], bool)
        assert editor.wait_stops(1)[0]["line"] == 1
        assert running.finish()[0] == 0


def test_health_and_healthz_say_yes_together(launch, slow: Path, tmp_path: Path) -> None:
    runtime = tmp_path / "run"
    running = launch("sleep", "600", layout=slow, env={"DKDBG_RUNTIME_DIR": str(runtime)})
    port = running.wait_state("starting")["port"]
    assert health.trouble(str(runtime))
    (slow / "up").touch()
    end = time.monotonic() + 300
    while health.trouble(str(runtime)):
        assert time.monotonic() < end
        assert healthz(port)[0] in (503, 200)
        time.sleep(0.02)
    assert healthz(port) == (200, "running")
    environment = {"PATH": "/nonexistent", "DKDBG_RUNTIME_DIR": str(runtime)}
    command = ["/bin/sh", str(slow / "agent.pyz"), "health"]
    assert subprocess.run(command, env=environment, check=False).returncode == 0


def repacked(layout: Path, folder: Path, file: str, line: str, before: str) -> Path:
    """The agent with a statement put before one of its lines."""

    def slowed(name: str, content: bytes) -> bytes:
        if name != f"dkdbg/agent/{file}":
            return content
        text = content.decode()
        assert text.count(line) == 1
        indent = text[: text.index(line)].rpartition("\n")[2]
        return text.replace(line, before + "\n" + indent + line).encode()

    return repack(layout / "agent.pyz", folder / "agent.pyz", slowed).parent


@pytest.mark.parametrize("wait", ["0", "300"])
def test_an_agent_that_is_slow_to_let_processes_join_asks_none_before_and_starts_none(
    program, layout: Path, tmp_path: Path, wait: str
) -> None:
    """Longer than it takes to look for processes, and to look whether an editor is there."""
    slow = repacked(layout, tmp_path / "slow", "record/records.py", "write_json(os.path.join(self.directory, contract.JOIN_NAME)", "time.sleep(2)")  # fmt: skip
    running = program("import time\nwhile True:\n    time.sleep(0.02)\n", wait=wait, layout=slow)
    record = running.wait_state("running" if wait == "0" else "waiting")
    if wait == "0":
        wait_for(lambda: running.record()["processes"], bool)
    line = 3 if wait == "0" else 1  # nobody comes to line 1 again
    with Editor(record["port"], {running.script: [line]}) as editor:
        assert editor.wait_stops(1)[0]["line"] == line


def test_a_process_that_was_asked_as_its_editor_left_is_asked_for_the_next_one(
    program, layout: Path, tmp_path: Path
) -> None:
    asking, go = str(tmp_path / "asking"), str(tmp_path / "go")
    waits = f"found and open({asking!r}, 'w').close()\n        while found and not os.path.exists({go!r}): time.sleep(0.01)"
    slow = repacked(layout, tmp_path / "slow", "record/processes.py", "new = [pid for pid in found if self.is_chosen(pid)]", waits)  # fmt: skip
    running = program("import time\nwhile True:\n    time.sleep(0.02)\n", layout=slow)
    running.wait_state("running")
    wait_for(lambda: running.record()["processes"], bool)
    with Editor(running.port, {}):
        wait_for((tmp_path / "asking").exists, bool)
    wait_for(lambda: running.record()["client"], lambda client: not client)
    (tmp_path / "go").touch()
    with Editor(running.port, {running.script: [3]}) as editor:
        assert editor.wait_stops(1)[0]["line"] == 3


@pytest.mark.core
def test_a_program_that_waits_for_an_editor_starts_though_the_editor_leaves_at_once(
    launch, layout: Path, tmp_path: Path
) -> None:
    gone = tmp_path / "gone"
    line = b"        while not self._has_attached.is_set():\n"

    def slowed(name: str, content: bytes) -> bytes:
        if name != "dkdbg/agent/run/session.py":
            return content
        assert content.count(line) == 1
        return content.replace(
            line, line + f"            while not os.path.exists({str(gone)!r}): time.sleep(0.02)\n".encode()
        )

    slow = repack(layout / "agent.pyz", tmp_path / "slow" / "agent.pyz", slowed).parent
    (tmp_path / "train.py").write_text("print('hello')\n")
    running = launch(sys.executable, "train.py", wait="300", layout=slow)
    with Editor(running.wait_state("waiting")["port"], {}):
        pass
    wait_for(lambda: running.record()["client"], lambda client: not client)
    gone.touch()
    assert running.finish()[:2] == (0, "hello\n")
