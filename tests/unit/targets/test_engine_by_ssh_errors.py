"""What the docker command says of an engine behind ssh; each text is a real one (Docker 28.2, OpenSSH 9.2)."""

from __future__ import annotations

import pytest

from dkdbg.errors import EXIT_ENGINE
from dkdbg.targets.engine_errors import explain

BY_SSH = (
    'error during connect: Get "http://docker.example.com/v1.50/containers/json": command [ssh -o ConnectTimeout=30 -T {words} '
    "docker system dial-stdio] has exited with exit status {code}, make sure the URL is valid, and Docker 18.09 or later is "
    "installed on the remote host: stderr={said}\n"
)


@pytest.mark.parametrize(
    ("words", "said", "cause"),
    [
        (
            "-- nowhere.invalid",
            "ssh: Could not resolve hostname nowhere.invalid: Name or service not known",
            "there is no host nowhere.invalid",
        ),
        (
            "-l nobodyhere -- box",
            "nobodyhere@172.17.0.3: Permission denied (publickey).",
            "ssh://nobodyhere@box: nobodyhere@172.17.0.3 does not accept",
        ),
        (
            "-p 2 -- box",
            "ssh: connect to host 172.17.0.3 port 2: Connection refused",
            "ssh://box:2: nothing listens for ssh at 172.17.0.3, port 2",
        ),
        (
            "-- box",
            "@@@@@@@@@@@\n@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @\nHost key verification failed.",
            "ssh://box: the host key of box has changed",
        ),
    ],
)
def test_what_ssh_says_is_said_as_of_ssh(words, said, cause):
    error = explain(1, BY_SSH.format(words=words, code=255, said=said))
    assert cause in error.message
    assert error.exit_code == EXIT_ENGINE
    assert error.hint
    assert "{" not in error.hint


def test_a_machine_without_docker_is_told_from_one_that_is_not_reached():
    error = explain(
        1, BY_SSH.format(words="-- box", code=127, said="bash: line 1: docker: command not found")
    )
    assert "docker cannot be run on box" in error.message


def test_a_machine_whose_engine_does_not_answer():
    said = "Cannot connect to the Docker daemon at http://docker.example.com. Is the docker daemon running?"
    error = explain(1, said)
    assert "ssh gets to the machine" in error.message
    assert "usermod -aG docker" in (error.hint or "")


def test_a_folder_that_is_not_there():
    said = 'Error response from daemon: invalid mount config for type "bind": bind source path does not exist: /srv/nowhere'
    assert "is not on the engine's machine" in explain(1, said).message
