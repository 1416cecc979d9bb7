"""An agent beside a running program that can open no session, for example on a full disk."""

import os
import subprocess
import sys

import pytest

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
