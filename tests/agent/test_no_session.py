"""An agent that can open no session, for example on a full disk, or that fails later: the program runs as without it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dkdbg.agent import contract
from dkdbg.agent.state import records

FULL = """
import os, subprocess, sys
from dkdbg.agent.inject import main as enter
from dkdbg.agent.state import records
from dkdbg.agent.supervisor import sidecar

class FullStore(records.SessionStore):
    def __init__(self, *words):
        raise OSError(28, "No space left on device")

records.SessionStore = FullStore
program = subprocess.Popen([sys.executable, "-c", sys.argv[2]], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
program.stdout.readline()
if sys.argv[1] == "enter":
    code = enter.main([str(program.pid), "--port", "0"], "")
    program.communicate()
else:
    os.close(program.stdin.fileno())
    lock, ready = os.pipe()
    pipes = ["--lock", str(lock), "--ready", str(ready)]
    command = [sys.executable, "-c", sys.argv[2]]
    code = sidecar.main(["--runtime", sys.argv[3], *pipes, "--child", str(program.pid), "--", *command], "")
os._exit(code)
"""
#: The first process of a container, whose program ends with code 7 once the agent no longer holds it.
INIT = """
import os, subprocess, sys
from dkdbg.agent import unpack
from dkdbg.agent.proxy.broker import relay
from dkdbg.agent.supervisor import hook_folder, sidecar
{}
holds, ready = os.pipe()
wait = "import os, sys; os.read(int(sys.argv[1]), 1); sys.exit(7)"
program = subprocess.Popen([sys.executable, "-c", wait, str(holds)], pass_fds=[holds])
begin = ["--runtime", sys.argv[1], "--lock", str(holds), "--ready", str(ready), "--child", str(program.pid)]
sys.exit(start([*begin, "--", "python3", "train.py"]))
"""
#: A launch whose program prints and ends with code 3.
LAUNCH = """
import socket, sys, threading, types
from dkdbg.agent import __main__ as agent
from dkdbg.agent.proxy.adapter import backend
from dkdbg.agent.proxy.broker import relay
from dkdbg.agent.supervisor import session

def fail(*_, **__):
    raise RuntimeError("can't start new thread")

def without(kind):
    start = threading.Thread.start
    threading.Thread.start = lambda self: fail() if kind == self.name else start(self)

def without_sockets():
    def bind(self, address, former=socket.socket.bind):
        if isinstance(address, str):
            raise OSError(95, "Operation not supported")
        former(self, address)

    socket.socket.bind = bind

{}
sys.exit(agent.main([*sys.argv[1:], "--", "sh", "-c", "echo ran; exit 3"]))
"""


def runs(script: str, *words: str, runtime: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "DKDBG_RUNTIME_DIR": str(runtime), "DKDBG_PORT": "0"}
    return subprocess.run(
        [sys.executable, "-c", script, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True,
        env=environment, check=False, timeout=300,
    )  # fmt: skip


#: What fails before the program starts.
NO_ADAPTER = "backend.adapter.__file__ = '/nowhere'"
BEFORE = [
    NO_ADAPTER, "without_sockets()", "without('dkdbg control')", "without('dkdbg root stub')", "without('dkdbg processes')",
]  # fmt: skip


@pytest.mark.parametrize("failure", BEFORE)
def test_what_fails_behind_the_open_port_lets_the_program_run_without_the_debugger(runtime, failure):
    done = runs(LAUNCH.format(failure), "launch", "--wait", "0", runtime=runtime)
    assert (done.returncode, done.stdout) == (3, "ran\n"), done.stderr
    (line,) = done.stderr.splitlines()
    assert line.endswith(": the program runs without the debugger")
    record = records.list_records(str(runtime))[-1]
    assert (record["state"], record["exit_code"]) == ("exited", None)
    assert f"dkdbg: {record['detail']}" == line


@pytest.mark.parametrize("error", ["ValueError", "TypeError"])
def test_a_program_that_an_error_of_the_agent_keeps_from_its_start_is_not_said_to_run(tmp_path, error):
    failure = f"def fail(*_):\n    raise {error}('?')\nsession.Session._wait_for_editor = fail"
    done = runs(LAUNCH.format(failure), "launch", "--wait", "0", runtime=tmp_path)
    assert "ran" not in done.stdout
    [record] = records.list_records(str(tmp_path))
    assert (record["exit_code"], record["detail"]) == (contract.EXIT_AGENT, "?")
    beside = f"start = lambda words: sidecar.main(words, '')\nos.fork = lambda: 0\n{failure}"
    script = INIT.format("from dkdbg.agent.supervisor import session\n" + beside).replace("--child", "--pid")
    runs(script, str(tmp_path), runtime=tmp_path)  # there, the program runs already
    assert records.list_records(str(tmp_path))[-1]["exit_code"] is None


@pytest.mark.parametrize("words", [("launch", "--wait", "300"), ("supervise", "--wait", "0")])
def test_a_program_that_is_to_run_only_with_an_editor_or_supervised_is_not_started_without(runtime, words):
    done = runs(LAUNCH.format(NO_ADAPTER), *words, runtime=runtime)
    assert (done.returncode, done.stdout) == (contract.EXIT_AGENT, ""), done.stderr
    assert "dkdbg: cannot start: debugpy's adapter ended with code 2" in done.stderr


@pytest.mark.parametrize(
    ("failure", "said"),
    [
        ("session.duration = types.SimpleNamespace(later=fail)", "a debugger can attach"),
        ("relay.Service.program_started = fail", "the agent has failed: RuntimeError("),
        ("relay.Service.program_ended = fail", "the agent has failed: RuntimeError("),
        ("backend.Backend.end = fail", "the agent has failed while cleaning up: RuntimeError("),
    ],
)  # fmt: skip
def test_what_fails_after_the_programs_start_neither_ends_it_nor_loses_its_exit_code(runtime, failure, said):
    done = runs(LAUNCH.format(failure), "launch", "--wait", "0", runtime=runtime)
    assert (done.returncode, done.stdout) == (3, "ran\n"), done.stderr
    assert said in done.stderr


FULL_DISK = "def fail(*_, **__):\n    raise OSError(28, 'No space left on device')\n"


@pytest.mark.parametrize(
    "failure",
    [
        "start = lambda words: sidecar.main(words, '')\nhook_folder.install = fail",
        "start = lambda words: sidecar.main(words, '')\nrelay.Service.program_started = fail",
        "start = lambda words: unpack._give_up(['accompany', *words], 'cannot unpack')",
    ],
)
def test_the_first_process_of_a_container_that_fails_lets_the_program_begin_and_ends_with_it(
    tmp_path, failure
):
    done = runs(INIT.format(FULL_DISK + failure), str(tmp_path), runtime=tmp_path)
    assert done.returncode == 7, done.stderr
    assert "the program runs without a debugger" in done.stderr or "the agent has failed" in done.stderr


def test_no_exit_code_is_made_up_where_the_agent_beside_a_program_fails(tmp_path):
    """The program runs on, and only its parent gets its exit code."""
    failure = "start = lambda words: sidecar.main(words, '')\nos.fork = lambda: 0\nrelay.Service.program_started = fail"
    beside = INIT.format(FULL_DISK + failure).replace("--child", "--pid")
    done = runs(beside, str(tmp_path), runtime=tmp_path)
    assert "the agent has failed" in done.stderr
    [record] = records.list_records(str(tmp_path))
    assert (record["exit_code"], record["detail"]) == (None, "the program runs without the debugger")
    assert records.trouble(str(tmp_path)).endswith("has ended: the program runs without the debugger")


@pytest.mark.parametrize("verb", ["enter", "accompany"])
def test_a_running_program_is_not_started_again(tmp_path, verb):
    with (tmp_path / "starts").open("w+") as starts:
        program = (
            f"open({starts.name!r}, 'a').write('started '); print(flush=True); import sys; sys.stdin.read()"
        )
        words = [sys.executable, "-c", FULL, verb, program, str(tmp_path)]
        environment = {**os.environ, "DKDBG_RUNTIME_DIR": str(tmp_path), "DKDBG_PORT": "0"}
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, text=True, env=environment, check=False, timeout=300
        )  # fmt: skip
        assert starts.read() == "started ", done.stderr
    assert "cannot start: [Errno 28] No space left on device" in done.stderr
