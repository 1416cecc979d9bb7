"""What a build inherits from a base image, with a fake docker command."""

import json
import os

import pytest

from dkdbg.targets.docker import base_image
from tests.commands import executable


@pytest.fixture
def docker(tmp_path, monkeypatch):
    """Put a fake docker command with this script first in PATH."""
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere.sock")
    return lambda script: executable(tmp_path / "docker", script)


@pytest.mark.parametrize(
    ("config", "lines"),
    [
        ({"WorkingDir": "/opt/ml/code"}, ("WORKDIR /opt/ml/code",)),
        ({"WorkingDir": "", "User": ""}, ()),
        ({"WorkingDir": "/", "User": "0"}, ()),
        ({"WorkingDir": "/app", "User": "ml:users"}, ("WORKDIR /app", "USER ml:users")),
        ({"WorkingDir": "/a b\nRUN evil"}, ()),
        ({"WorkingDir": ["/a"]}, ()),
        ({"Env": ["PATH=/bin", "PYTHONPATH=/opt/lib", "PYTHONPATH=$HOME"]}, ("ENV PYTHONPATH=/opt/lib",)),
        ({"Env": ["PYTHONPATH=/a b", "PYTHONPATH=/a\\", 5]}, ()),
        ({"Env": "PYTHONPATH=/a", "WorkingDir": 5, "User": True}, ()),
        ({"OnBuild": ["COPY . /app", "RUN pip install --index-url https://u:secret@host/ x"]}, ()),
        (
            {"User": "mamba", "Entrypoint": ["/bin/_entrypoint.sh", "--"]},
            ("USER mamba", 'ENTRYPOINT ["/bin/_entrypoint.sh", "--"]'),
        ),
        ({"Shell": ["/bin/bash", "-lc"]}, ('SHELL ["/bin/bash", "-lc"]',)),
        ({"User": "root", "Entrypoint": ["/bin/needs-root.sh"]}, ()),
        ({"User": "mamba", "Entrypoint": ["/bin/sh", "-c", "exec $X"]}, ("USER mamba",)),
        ({"User": "mamba", "Entrypoint": 'a", "b'}, ("USER mamba",)),
        (None, ()),
    ],
)
def test_a_build_inherits_what_the_configuration_of_its_base_says(docker, config, lines):
    docker(
        f"""[ "$*" = "image inspect --format {{{{json .Config}}}} -- mlbox:1" ] && printf '%s' '{json.dumps(config)}'"""
    )
    assert base_image.inherited("mlbox:1") == lines


def test_no_more_lines_are_taken_than_an_image_has():
    assert len(base_image.inherited_lines(["USER a"] * 1000)) < 100


@pytest.mark.parametrize("host", ["unix:///nowhere.sock", ""])
@pytest.mark.parametrize(
    "script", ["exit 1", "echo '{'", "exec sleep 600", """printf '{"Endpoints": {"docker": {}}%2000000s}'"""]
)
def test_an_engine_without_a_useful_answer_knows_no_image(docker, script, host, monkeypatch):
    monkeypatch.setattr(base_image, "_ANSWER_TIMEOUT_S", 0.5)
    monkeypatch.setenv("DOCKER_HOST", host)
    docker(script)
    assert base_image.inherited("mlbox:1") is None


@pytest.mark.parametrize(
    ("reference", "host"),
    [("--help", "unix:///x"), ("", "unix:///x"), ("$BASE", "unix:///x"), ("a:1", "ssh://node")],
)
def test_docker_is_not_asked_for_a_reference_that_is_no_image_or_through_ssh(
    docker, reference, host, tmp_path, monkeypatch
):
    monkeypatch.setenv("DOCKER_HOST", host)
    docker(f"touch {tmp_path}/asked; echo '{{}}'")
    assert base_image.inherited(reference) is None
    assert not (tmp_path / "asked").exists()
