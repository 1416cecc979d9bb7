"""Health and the list of sessions: read from the record and /proc, never by connecting."""

# ruff: noqa: PLW1510

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dkdbg.agent.state import procfs, records


def agent(layout: Path, runtime: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = dict(os.environ, DKDBG_RUNTIME_DIR=str(runtime), DKDBG_PYTHON=sys.executable)
    return subprocess.run(
        [str(layout / "agent.pyz"), *words], env=environment, capture_output=True, text=True
    )


@pytest.fixture
def sleeper(launch, tmp_path):
    return lambda **more: launch("sleep", "600", env={"DKDBG_RUNTIME_DIR": str(tmp_path / "run")}, **more)


def test_health_follows_the_session(sleeper, layout, tmp_path):
    """Also beside a training job, every other second: it needs no Python while all is well."""
    runtime = tmp_path / "run"
    result = agent(layout, runtime, "health")
    assert (result.returncode, result.stdout) == (1, f"no session in {runtime}\n")
    running = sleeper(wait="300")
    running.wait_state("waiting")
    bare = {"PATH": "/nonexistent", "DKDBG_RUNTIME_DIR": str(runtime), "DKDBG_PYTHON": "/nonexistent/python"}
    argv = ["/bin/sh", str(layout / "agent.pyz"), "health"]
    assert subprocess.run(argv, env=bare).returncode == 0
    (listed,) = json.loads(agent(layout, runtime, "sessions", "--json").stdout)
    assert (listed["state"], listed["live"], listed["name"]) == ("waiting", True, running.name)
    running.process.terminate()
    running.finish()
    assert subprocess.run(argv, env=bare, capture_output=True).returncode != 0
    result = agent(layout, runtime, "health")
    said = f"the last session, {listed['id']}, has ended with code 143\n"
    assert (result.returncode, result.stdout) == (1, said)
    with waiting_check(layout, runtime) as check:
        assert (check.communicate(timeout=300)[0], check.returncode) == (said, 1)


def test_an_agent_without_its_port_or_its_adapter_or_that_was_killed_is_not_healthy(sleeper):
    running = sleeper()
    record = running.wait_state("running")
    runtime = str(running.runtime)
    assert records.trouble(runtime) == ""
    path = running.runtime / record["id"] / "session.json"
    for changed, said in (
        ({"port": 1}, "port 1 is not listening"),
        ({"adapter_up": False}, "debugpy's adapter is gone"),
    ):
        path.write_text(json.dumps({**record, **changed}))
        assert records.trouble(runtime) == said
    path.write_text(json.dumps(record))
    running.process.kill()
    running.process.wait()  # its output does not end before the program does
    assert records.trouble(runtime) == f"the agent of session {record['id']} (pid {record['pid']}) is gone"
    os.killpg(running.process.pid, signal.SIGKILL)


def test_a_pid_that_is_used_again_does_not_count_as_the_agent(tmp_path):
    store = records.SessionStore(str(tmp_path), "job")
    record = {"version": 1, "pid": os.getpid(), "pid_start": 1, "pid_namespace": procfs.pid_namespace()}
    record |= {"id": store.id, "state": "running", "started": 1.0}
    store.create(record)  # type: ignore[arg-type]
    assert records.trouble(str(tmp_path)).endswith("is gone")


def test_health_loads_nothing_that_costs(sleeper, layout):
    """Its slow way, with a Python: it may run every other second beside a training job."""
    running = sleeper()
    running.wait_state("running")
    command = [sys.executable, "-X", "importtime", "-I", "-S", "-B", str(layout / "agent.pyz"), "health"]
    environment = dict(os.environ, DKDBG_RUNTIME_DIR=str(running.runtime))
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert done.returncode == 0
    assert "dkdbg.agent.state.records" in loaded
    dear = {
        "typing", "subprocess", "socket", "tempfile", "hashlib", "zipfile", "argparse", "logging", "debugpy",
    }  # fmt: skip
    assert not loaded & dear
    ours = {name for name in loaded if name.startswith("dkdbg.") and name.count(".") > 2}
    modules = ("supervisor.owner", "state.announced", "state.procfs", "state.records", "state.runtime_dir")
    assert ours == {f"dkdbg.agent.{name}" for name in modules}


def waiting_check(layout: Path, runtime: Path) -> subprocess.Popen[str]:
    environment = dict(os.environ, DKDBG_RUNTIME_DIR=str(runtime), DKDBG_PYTHON=sys.executable)
    argv = ["/bin/sh", str(layout / "agent.pyz"), "health", "--wait"]
    return subprocess.Popen(
        argv, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def test_a_waiting_check_ends_when_an_attach_will_work_and_takes_its_time_where_that_was_so_before(
    sleeper, layout, tmp_path
):
    """An engine learns of it at once; it asks again 0.2 s after each answer, beside a training job."""
    runtime = tmp_path / "run"
    with waiting_check(layout, runtime) as check:
        with pytest.raises(subprocess.TimeoutExpired):  # it waits although nothing is there yet
            check.wait(0.5)
        running = sleeper(wait="300")
        assert check.communicate(timeout=300) == ("", None)
    assert (check.returncode, running.record()["state"]) == (0, "waiting")
    ready = runtime / "ready"
    pid, port, since = ready.read_text().split()
    ready.write_text(f"{pid} {port} {int(since) - 1000}\n")  # 10 s earlier
    began = time.monotonic()
    with waiting_check(layout, runtime) as check:
        assert check.wait(300) == 0
    assert time.monotonic() - began >= 2


def test_a_waiting_check_finds_an_agent_whose_folder_could_not_be_made(launch, layout, tmp_path, monkeypatch):
    """As in a container with a read-only root. The shell's loop would look in vain for 20 s."""
    runtime, slept, fake = Path("/proc/nowhere/run"), tmp_path / "slept", tmp_path / "bin" / "sleep"
    fake.parent.mkdir()
    fake.write_text(f'#!/bin/sh\ntouch {slept}\nexec /bin/sleep "$@"\n')
    fake.chmod(0o755)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("PATH", f"{fake.parent}:{os.environ['PATH']}")
    with waiting_check(layout, runtime) as check:
        with pytest.raises(subprocess.TimeoutExpired):
            check.wait(0.5)
        launch("/bin/sleep", "600", env={"DKDBG_RUNTIME_DIR": str(runtime)})
        assert check.communicate(timeout=300) == ("", None)
    assert (check.returncode, slept.exists()) == (0, False)


def test_what_a_program_writes_for_the_check_is_not_run(layout, tmp_path):
    """The check may run as root, and the runtime folder is the program's user's."""
    checks, words = [], ["a[$(touch stolen)]", "$(touch stolen)", "9" * 40, "-1", ""]
    with socket.create_server(("127.0.0.1", 0)) as listening:
        ready = f"{os.getpid()} {listening.getsockname()[1]:04X}"
        for number, since in enumerate(words):
            folder = tmp_path / str(number)
            folder.mkdir()
            (folder / "ready").write_text(f"{ready} {since}\n")
            for shell in ("sh", "bash"):
                environment = dict(os.environ, DKDBG_RUNTIME_DIR=str(folder))
                argv = [shell, str(layout / "agent.pyz"), "health", "--wait"]
                pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
                checks.append(subprocess.Popen(argv, env=environment, cwd=folder, **pipes))  # type: ignore[call-overload]
        for check in checks:
            assert check.communicate(timeout=300) == (b"", None)
            assert check.returncode == 0
    assert {path.name for path in tmp_path.glob("*/*")} == {"ready"}
