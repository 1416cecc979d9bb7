"""Hosts that ask for a password: at the terminal, or by the program that SSH_ASKPASS names; once for all commands of a verb."""

import os
import subprocess
import sys

import pytest

from tests.engine.projects import dkdbg
from tests.engine.running import Running

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("far")]

PLACE = "ssh://other@login:2024"


@pytest.fixture
def with_password(laptop):
    options = "-o UseDNS=no -o PubkeyAuthentication=no -o PasswordAuthentication=yes -o KbdInteractiveAuthentication=no"
    # It listens after it has gone to the background, and writes its pid then; at its end it takes that away.
    laptop.sh(
        "login",
        f"echo other:s3cret | chpasswd; /usr/sbin/sshd -p 2024 -o PidFile=/run/asks.pid {options}; "
        "until [ -s /run/asks.pid ]; do sleep 0.02; done",
    )
    yield laptop
    laptop.sh(
        "login", "kill $(cat /run/asks.pid); while [ -e /run/asks.pid ]; do sleep 0.02; done", check=False
    )


def test_at_a_terminal_the_person_is_asked_once(with_password, tmp_path):  # noqa: ARG001
    run = Running(tmp_path, "--on", PLACE, "--", "echo", "there", terminal=True)
    try:
        run.wait_for("password:")
        os.write(run.keys, b"s3cret\n")
        run.wait_for("\nthere")
        assert run.process.wait(300) == 0
    finally:
        run.end()
    assert run.said.count("password:") == 1
    assert "s3cret" not in run.said


def test_without_a_terminal_the_program_of_ssh_askpass_is_asked_once(with_password, tmp_path, monkeypatch):  # noqa: ARG001
    asked, program = tmp_path / "asked", tmp_path / "ask"
    program.write_text(f'#!/bin/sh\necho "$1" >>{asked}\necho s3cret\n')
    program.chmod(0o755)
    monkeypatch.setenv("SSH_ASKPASS", str(program))
    monkeypatch.setenv("SSH_ASKPASS_REQUIRE", "force")
    done = dkdbg(tmp_path, "run", "--on", PLACE, "--", "echo", "there")
    assert (done.returncode, done.stdout) == (0, "there\n"), done.stderr
    assert len(asked.read_text().splitlines()) == 1


def test_with_nobody_to_ask_it_is_refused_with_what_to_do(with_password, tmp_path, monkeypatch):  # noqa: ARG001
    monkeypatch.delenv("SSH_ASKPASS", raising=False)
    done = subprocess.run(
        [sys.executable, "-m", "dkdbg", "run", "--on", PLACE, "--", "echo", "there"], cwd=tmp_path, capture_output=True,
        text=True, check=False, stdin=subprocess.DEVNULL, start_new_session=True, timeout=300,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (1, "")
    assert "hint:" in done.stderr
