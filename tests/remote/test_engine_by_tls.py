"""An engine at a TCP port with TLS, by DOCKER_HOST and by a context: a real dockerd with --tlsverify."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from dkdbg.errors import EXIT_ENGINE
from tests.agent.dap_probe import wait_for
from tests.engine.host_doors import host_door
from tests.engine.projects import LOOP, dkdbg, must, repo, take_away, unique
from tests.hints import in_shell
from tests.remote.test_engine_behind_ssh import SERVICE, listed, stop_through

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("box")]


@pytest.fixture
def tls(laptop, monkeypatch):
    """DOCKER_HOST is the box's TCP port, with the certificates of a user."""
    monkeypatch.setenv("DOCKER_HOST", f"tcp://{laptop.address}:2376")
    monkeypatch.setenv("DOCKER_TLS_VERIFY", "1")
    monkeypatch.setenv("DOCKER_CERT_PATH", str(laptop.folder / "tls/client"))
    return laptop


def test_a_project_is_debugged_there_by_docker_host_and_by_a_context(tls, tmp_path, monkeypatch):
    where, folder = f"tcp://{tls.address}:2376", tls.folder / "tls/client"
    files = ",".join(f"{each}={folder}/{each}.pem" for each in ("ca", "cert", "key"))
    docker("context", "create", "by-tls", "--docker", f"host={where},{files}")
    root = repo(tmp_path / unique("by-tls"), {"train.py": LOOP})
    must(dkdbg(root, "init", "--yes"))
    try:
        for by_context in (False, True):
            if by_context:
                for name in ("DOCKER_HOST", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH"):
                    monkeypatch.delenv(name)
                docker("context", "use", "by-tls")
            said = must(dkdbg(root, "up")).stdout
            assert f"ready at {where}" in said
            with host_door(root) as door:
                assert stop_through(door, root) == "step"
                assert door.end() == 0
            wait_for(lambda: listed(root), lambda found: found == [(SERVICE, "running")])
        must(dkdbg(root, "down"))
    finally:
        take_away(root, dict(os.environ))
        for each in docker("volume", "ls", "-q", "--filter", f"name={root.name}_").split():
            docker("volume", "rm", "-f", each)
        docker("context", "use", "default")
        docker("context", "rm", "-f", "by-tls")


def docker(*words: str) -> str:
    """The docker command as the environment has it."""
    done = subprocess.run(["docker", *words], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_what_is_wrong_with_the_certificates_is_said(tls, tmp_path, monkeypatch):
    good = tls.folder / "tls/client"

    def refused() -> str:
        done = dkdbg(tmp_path, "ps", "docker://x")
        assert done.returncode == EXIT_ENGINE, done.stderr
        assert "hint: " in done.stderr
        return done.stderr

    for name, cause in (
        ("ca.pem", "the certificates for this engine cannot be read"),
        ("cert.pem", "the engine wants a certificate of yours, and takes none that it was shown"),
    ):
        folder = tmp_path / name
        shutil.copytree(good, folder)
        (folder / name).unlink()
        if name == "cert.pem":
            (folder / "key.pem").unlink()
        monkeypatch.setenv("DOCKER_CERT_PATH", str(folder))
        assert cause in refused()
    wrong = tmp_path / "wrong"
    shutil.copytree(good, wrong)
    words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=authority -keyout /dev/null -out ca.pem"
    subprocess.run(["openssl", *words.split()], cwd=wrong, check=True, capture_output=True)
    monkeypatch.setenv("DOCKER_CERT_PATH", str(wrong))
    assert "what answers there is not the engine that ca.pem vouches for" in refused()
    monkeypatch.delenv("DOCKER_TLS_VERIFY")
    monkeypatch.delenv("DOCKER_CERT_PATH")
    said = refused()
    assert "this engine speaks TLS, and docker was not told to" in said
    assert "export DOCKER_TLS_VERIFY=1" in said
    typed = in_shell(tmp_path, f"export DOCKER_TLS_VERIFY=1 DOCKER_CERT_PATH={good}; dkdbg ps docker://x")
    assert "there is no running container x" in typed.stderr
    monkeypatch.delenv("DOCKER_HOST")
    files = ",".join(f"{each}={good}/{each}.pem" for each in ("ca", "cert", "key"))
    docker("context", "create", "typed", "--docker", f"host=tcp://{tls.address}:2376,{files}")
    try:
        typed = in_shell(tmp_path, "dkdbg --context typed ps docker://x")
        assert "there is no running container x" in typed.stderr
    finally:
        docker("context", "rm", "-f", "typed")
