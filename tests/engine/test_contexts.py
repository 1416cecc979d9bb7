"""Which engine is asked: the one that the docker command asks, however it was chosen."""

import shutil
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest

from dkdbg.errors import EXIT_ENGINE, DkdbgError
from dkdbg.targets.docker import client, containers
from dkdbg.targets.docker.client import Endpoint
from tests.engine.attach_proxies import docker
from tests.engine.projects import command

pytestmark = pytest.mark.engine


@pytest.fixture
def config(tmp_path, monkeypatch):
    """A docker configuration of its own; DOCKER_HOST and DOCKER_CONTEXT are not set."""
    for name in ("DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_TLS_VERIFY", "DOCKER_TLS", "DOCKER_CERT_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "docker"))
    return tmp_path


@pytest.fixture
def second(config):
    """The context `second`: the same engine, by another path to its socket."""
    path = config / "second.sock"
    path.symlink_to("/var/run/docker.sock")
    context("create", "second", "--docker", f"host=unix://{path}")
    return f"unix://{path}"


def context(*words):
    docker("context", *words)


def test_without_a_choice_it_is_the_usual_socket(config):  # noqa: ARG001
    assert client.endpoint() == Endpoint(host="unix:///var/run/docker.sock", verify=False)


def test_docker_context_use_counts_for_the_sdk_too_its_variable_beats_it_docker_host_both(
    second, monkeypatch
):
    context("use", "second")
    assert client.endpoint().host == second
    with client.connect() as engine:
        assert engine.version()["Version"]
    context("use", "default")
    monkeypatch.setenv("DOCKER_CONTEXT", "second")
    assert client.endpoint().host == second
    monkeypatch.setenv("DOCKER_HOST", "unix:///var/run/docker.sock")
    assert client.endpoint().host == "unix:///var/run/docker.sock"


def test_a_context_that_does_not_exist_is_no_other_engine(config, monkeypatch):  # noqa: ARG001
    monkeypatch.setenv("DOCKER_CONTEXT", "nowhere")
    with pytest.raises(DkdbgError, match="does not know which engine to ask") as caught:
        client.endpoint()
    assert caught.value.exit_code == EXIT_ENGINE


def test_a_chosen_engine_that_does_not_answer_is_said_and_no_other_one_is_asked(config):
    context("create", "gone", "--docker", f"host=unix://{config}/gone.sock")
    context("use", "gone")
    for ask in (client.connect, containers.of_debug_services, lambda: containers.of_name("x")):
        with pytest.raises(DkdbgError, match="no Docker engine answers") as caught:
            ask()
        assert caught.value.exit_code == EXIT_ENGINE


@pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl, which makes the certificate")
def test_the_tls_files_of_a_context_are_used_and_verified(config):
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=test"]
    command([*made, "-keyout", "key.pem", "-out", "cert.pem"], config)
    shutil.copy(config / "cert.pem", config / "ca.pem")
    files = ",".join(f"{name}={config}/{name}.pem" for name in ("ca", "cert", "key"))
    context("create", "far", "--docker", f"host=tcp://127.0.0.1:1,{files}")
    context("use", "far")
    found = client.endpoint()
    assert (found.host, found.verify, found.is_local) == ("tcp://127.0.0.1:1", True, False)
    assert sorted(each.name for each in Path(found.tls).iterdir()) == ["ca.pem", "cert.pem", "key.pem"]


def test_of_the_environment_tls_is_wanted_only_when_it_says_so(config, monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:1")
    monkeypatch.setenv("DOCKER_CERT_PATH", str(config))
    assert client.endpoint() == Endpoint(host="tcp://127.0.0.1:1", verify=False)
    monkeypatch.setenv("DOCKER_TLS_VERIFY", "1")
    assert client.endpoint() == Endpoint(host="tcp://127.0.0.1:1", tls=str(config), verify=True)


@pytest.fixture
def labelled(second, start_container, monkeypatch):  # noqa: ARG001
    """Start a container with dkdbg's label, in the chosen context."""
    monkeypatch.setenv("DOCKER_CONTEXT", "second")
    return lambda: start_container("--label", "dev.dkdbg.session=x")


@contextmanager
def told_of_changes():
    """Counts what is told of changes; what happened before was told. At the end nobody listens any more."""
    changes = containers.ContainerChanges()
    told = threading.Semaphore(0)
    listening = threading.Thread(target=changes.listen, args=(told.release,))
    listening.start()
    assert told.acquire(timeout=300)
    yield told
    changes.close()
    listening.join(300)
    assert not listening.is_alive()


def test_starts_and_ends_are_told_by_the_chosen_engine_until_it_is_closed(labelled):
    with told_of_changes() as told:
        name = labelled()
        assert told.acquire(timeout=300)
        found = containers.of_name(name)
        assert (found.label, found.running, found.devices) == ("x", True, False)


def test_behind_ssh_they_are_told_through_the_ssh_of_the_user(labelled, config, monkeypatch):
    """The ssh here is a stand-in that runs its command on this machine; `docker` does the rest itself."""
    (config / "bin").mkdir()
    ssh = config / "bin" / "ssh"
    ssh.write_text(
        '#!/bin/sh\nwhile [ "$1" != docker ]; do shift; done\nunset DOCKER_HOST DOCKER_CONTEXT\nexec "$@"\n'
    )
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", str(ssh.parent), prepend=":")
    monkeypatch.setenv("DOCKER_HOST", "ssh://me@node4")
    with told_of_changes() as told:
        name = labelled()
        while not told.acquire(timeout=1):  # it may listen only now
            docker("restart", "-t", "0", name)


def test_a_listener_that_is_closed_before_it_listens_ends_at_once_and_all_are_one(second):  # noqa: ARG001
    changes = containers.ContainerChanges()
    changes.close()
    changes.listen(lambda: pytest.fail("told after close"))
    assert len({containers.ContainerChanges(), containers.ContainerChanges()}) == 1
