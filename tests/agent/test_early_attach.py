"""An editor that comes before the adapter is up, or while the agent is slow: it waits, is attached, and gets each process."""

import json
import subprocess
import threading
import urllib.error
import urllib.request

import pytest

from dkdbg.agent.state import records
from tests.agent.dap_probe import Editor, wait_for
from tests.agent.repack import repack
from tests.ports import free_port


@pytest.fixture
def repacked(layout, tmp_path):
    """Return the agent with statements put before one of its lines."""

    def repacking(file, line, before):
        def slowed(name, content):
            if name != f"dkdbg/agent/{file}":
                return content
            text = content.decode()
            assert text.count(line) == 1
            indent = text[: text.index(line)].rpartition("\n")[2]
            return text.replace(line, before + "\n" + indent + line).encode()

        return repack(layout / "agent.pyz", tmp_path / "slow" / "agent.pyz", slowed).parent

    return repacking


@pytest.fixture
def slow(repacked, tmp_path):
    """The agent with an adapter that needs longer to start, as from a cold disk: until there is a file `up` beside it."""
    up = str(tmp_path / "slow" / "up")
    waits = f"while not os.path.exists({up!r}): time.sleep(0.02)"
    return repacked("inprocess/adapter.py", "options = json.loads", waits)


def healthz(port: int) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=300) as answer:
            return answer.status, json.load(answer)["state"]
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)["state"]


def test_an_attach_before_the_adapter_is_up_stops_at_the_first_line(program, slow, tmp_path):
    runtime = tmp_path / "run"
    environment = {"DKDBG_PORT": str(free_port()), "DKDBG_RUNTIME_DIR": str(runtime)}
    running = program("x = 1\nprint(x)\n", wait="300", env=environment, layout=slow)
    record = running.wait_state("starting")
    assert healthz(record["port"]) == (503, "starting")
    assert records.trouble(str(runtime)) == f"session {record['id']} is starting"
    assert not (runtime / "ready").exists()
    threading.Timer(0.5, (slow / "up").touch).start()  # by then the editor waits for it
    with Editor(record["port"], {running.script: [1]}) as editor:
        wait_for(lambda: running.record()["adapter_up"], bool)
        assert editor.wait_stops(1)[0]["line"] == 1
        running.ends()


def test_health_and_healthz_say_yes_together(launch, slow, tmp_path):
    runtime = tmp_path / "run"
    running = launch("sleep", "600", layout=slow, env={"DKDBG_RUNTIME_DIR": str(runtime)})
    port = running.wait_state("starting")["port"]
    assert records.trouble(str(runtime))
    (slow / "up").touch()

    def trouble():
        said = records.trouble(str(runtime))
        assert healthz(port)[0] in ((503, 200) if said else (200,))
        return said

    wait_for(trouble, lambda said: not said)
    environment = {"PATH": "/nonexistent", "DKDBG_RUNTIME_DIR": str(runtime)}
    command = ["/bin/sh", str(slow / "agent.pyz"), "health"]
    assert subprocess.run(command, env=environment, check=False).returncode == 0


SPIN = "import time\nwhile True:\n    time.sleep(0.02)\n"


@pytest.mark.parametrize("wait", ["0", "300"])
def test_an_agent_that_is_slow_to_let_processes_join_asks_none_before_and_starts_none(
    program, repacked, wait
):
    """Longer than it takes to look for processes, and to look whether an editor is there."""
    line = "write_json(os.path.join(self.directory, contract.JOIN_NAME)"
    running = program(SPIN, wait=wait, layout=repacked("state/records.py", line, "time.sleep(2)"))
    record = running.wait_state("running" if wait == "0" else "waiting")
    if wait == "0":
        wait_for(lambda: running.record()["processes"], bool)
    line = 3 if wait == "0" else 1  # nobody comes to line 1 again
    with Editor(record["port"], {running.script: [line]}) as editor:
        assert editor.wait_stops(1)[0]["line"] == line


def test_a_process_that_was_asked_as_its_editor_left_is_asked_for_the_next_one(program, repacked, tmp_path):
    asking, go = str(tmp_path / "asking"), str(tmp_path / "go")
    waits = f"found and open({asking!r}, 'w').close()\n        while found and not os.path.exists({go!r}): time.sleep(0.01)"
    line = "new = [pid for pid in found if self.is_chosen(pid)]"
    running = program(SPIN, layout=repacked("state/processes.py", line, waits))
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
    program, repacked, tmp_path
):
    gone = tmp_path / "gone"
    waits = f"while not os.path.exists({str(gone)!r}): time.sleep(0.02)"
    slow = repacked(
        "supervisor/session.py",
        "if (time.monotonic() >= end or self._is_closed.is_set()) and not self._has_attached.is_set():",
        waits,
    )
    running = program("print('hello')\n", wait="300", layout=slow)
    with Editor(running.port, {}):
        pass
    wait_for(lambda: running.record()["client"], lambda client: not client)
    gone.touch()
    running.ends(0, "hello\n")
