"""An engine at a TCP port with TLS, by DOCKER_HOST and by a context: a real dockerd with --tlsverify."""

import shutil

import pytest

from dkdbg.errors import EXIT_ENGINE
from tests.engine.attach_proxies import attach_proxy, docker
from tests.engine.projects import LOOP, at, command, dkdbg, must, project, stop_in, unique
from tests.hints import in_shell

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("box")]


@pytest.fixture
def tls(laptop, monkeypatch):
    """DOCKER_HOST is the box's TCP port, with the certificates of a user."""
    monkeypatch.setenv("DOCKER_HOST", f"tcp://{laptop.address}:2376")
    monkeypatch.setenv("DOCKER_TLS_VERIFY", "1")
    monkeypatch.setenv("DOCKER_CERT_PATH", str(laptop.folder / "tls/client"))
    return laptop


def test_a_project_is_debugged_there(tls, tmp_path):
    with project(tmp_path / unique("by-tls"), {"train.py": LOOP}, "init", "--yes") as root:
        assert f"ready at tcp://{tls.address}:2376" in must(dkdbg(root, "up")).stdout
        with attach_proxy(root) as proxy:
            assert stop_in(root, "train.py", at(proxy.port, root, "/workspace")).function == "step"
            assert proxy.end() == 0
        must(dkdbg(root, "down"))


def test_what_is_wrong_with_certificates_is_said_and_a_context_with_them_is_used(tls, tmp_path, monkeypatch):
    good = tls.folder / "tls/client"

    def refused():
        done = dkdbg(tmp_path, "ps", "docker://x")
        assert done.returncode == EXIT_ENGINE, done.stderr
        assert "hint: " in done.stderr
        return done.stderr

    for name, cause in (
        ("ca.pem", "the certificates for this engine cannot be read"),
        ("cert.pem", "the engine requires a client certificate, and rejected the one it was sent"),
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
    command(["openssl", *words.split()], wrong)
    monkeypatch.setenv("DOCKER_CERT_PATH", str(wrong))
    assert "the server's certificate was not issued by the authority in ca.pem" in refused()
    monkeypatch.delenv("DOCKER_TLS_VERIFY")
    monkeypatch.delenv("DOCKER_CERT_PATH")
    said = refused()
    assert "this engine requires TLS, and docker is not configured for it" in said
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
