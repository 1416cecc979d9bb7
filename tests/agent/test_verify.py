"""`dkdbg verify --on local:` on this machine: real runs, and what is left of them."""

import json
import os
import subprocess
import sys

import pytest


@pytest.fixture
def verify(tmp_path, runtime):
    """Start `dkdbg verify` of `train.py` with this text, on this machine."""
    started: list[subprocess.Popen[str]] = []

    def start(text):
        (tmp_path / "train.py").write_text(text)
        words = ("--on", "local:", "--json", "--timeout", "60", "--", sys.executable, "train.py")
        environment = {**os.environ, "DKDBG_RUNTIME_DIR": str(runtime)}
        started.append(
            subprocess.Popen(
                [sys.executable, "-m", "dkdbg", "verify", *words], cwd=tmp_path, env=environment, text=True,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
            )
        )  # fmt: skip
        return started[-1]

    yield start
    for each in started:
        each.kill()
        each.communicate()


def said(running):
    out, err = running.communicate(timeout=150)
    assert out, err
    return json.loads(out)


def test_a_run_here_is_proven(verify):
    found = said(verify("import time\n\n\ndef main():\n    time.sleep(600)\n\n\nmain()\n"))
    assert found["proven"], found
    assert found["stop"]["function"] == "main"


def test_a_missing_module_starts_no_interpreter_that_another_user_may_have_planted(verify, tmp_path):
    planted = tmp_path / ".venv/bin/python"
    planted.parent.mkdir(parents=True)
    planted.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    planted.chmod(0o755)
    found = said(verify("import dkdbg_nonesuch\n"))
    assert found["finding"]["cause"] == "module-missing"
    assert not (tmp_path / "ran").exists()
