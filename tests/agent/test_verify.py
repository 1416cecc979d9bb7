"""`dkdbg verify --on local:` on this machine: real runs, and what is left of them."""

import contextlib
import json
import os
import signal
import socket
import sys
import time
from pathlib import Path

import pytest

from tests.agent.dap_probe import wait_for


@pytest.fixture
def verify(begin, tmp_path, runtime):
    """Start `dkdbg verify` of `train.py` with this text, on this machine."""

    def start(text):
        (tmp_path / "train.py").write_text(text)
        words = ("--on", "local:", "--json", "--timeout", "60", "--", sys.executable, "train.py")
        environment = {**os.environ, "DKDBG_RUNTIME_DIR": str(runtime)}
        return begin([sys.executable, "-m", "dkdbg", "verify", *words], cwd=tmp_path, env=environment)

    return start


def said(running):
    out, err = running.communicate(timeout=150)
    assert out, err
    return json.loads(out)


def test_a_run_here_is_proven_beside_what_has_the_usual_ports(verify):
    taken = []
    for port in (5677, 5678):
        with contextlib.suppress(OSError):  # another program has it already
            taken.append(socket.create_server(("127.0.0.1", port)))
    found = said(verify("import time\n\n\ndef main():\n    time.sleep(600)\n\n\nmain()\n"))
    assert found["proven"], found
    assert found["stop"]["function"] == "main"
    for each in taken:
        each.close()


def test_a_missing_module_starts_no_interpreter_that_another_user_may_have_planted(verify, tmp_path):
    planted = tmp_path / ".venv/bin/python"
    planted.parent.mkdir(parents=True)
    planted.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    planted.chmod(0o755)
    found = said(verify("import dkdbg_nonesuch\n"))
    assert found["finding"]["cause"] == "module-missing"
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_ends_the_run_too(verify, tmp_path, number):
    own = tmp_path / "pid"
    running = verify(f"import os, time\nopen('{own}', 'w').write(str(os.getpid()))\ntime.sleep(600)\n")
    wait_for(lambda: running.poll() is None and own.exists() and own.read_text(), bool)
    running.send_signal(number)
    time.sleep(0.3)
    running.send_signal(number)  # a second one disturbs nothing
    assert running.wait(60) in {130, -number}  # the second one may meet the exit itself
    assert not Path("/proc", own.read_text()).exists()


def test_a_module_that_is_missed_long_after_the_first_stop_is_named(verify, tmp_path):
    (tmp_path / "lib.py").write_text("def f():\n    return 1\n\n\nf()\n")
    (tmp_path / "heavy.py").write_text("import time\ntime.sleep(3)  # as long as torch\n")
    found = said(verify("import lib\nimport heavy\nimport dkdbg_nonesuch\n"))
    assert (found["proven"], found["finding"]["cause"]) == (False, "module-missing"), found


def test_the_end_of_a_long_output_is_read(verify):
    text = "import sys\nprint('x' * 100_000)\nsys.stdout.flush()\nraise ValueError('bad shape')\n"
    said_ = said(verify(text))["finding"]
    assert said_["cause"] == "program-ends"
    assert "ValueError: bad shape" in said_["says"]
