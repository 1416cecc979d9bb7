"""A build behind a proxy with a CA of its own: the build trusts it, and nothing of it stays in the image."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from tests.engine.projects import LOOP, dkdbg, must, repo, running, unique
from tests.ports import free_port

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("private-ca")]


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    """This host's CA bundle, with which it reaches the index, and a line in it that can be looked for."""
    source = Path(os.environ.get("SSL_CERT_FILE") or "/etc/ssl/certs/ca-certificates.crt")
    if not source.is_file():
        pytest.skip(f"no CA bundle at {source}")
    folder = tmp_path_factory.mktemp("ca")
    argv = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-deps",
        "--no-cache-dir",
        "--dest",
        str(folder),
        "six",
    ]
    reached = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=120)
    if reached.returncode:
        pytest.skip(f"the package index cannot be reached: {reached.stderr.strip()[-200:]}")
    marked = folder / "bundle.pem"
    mark = f"# dkdbg-test-{uuid.uuid4()}\n"
    marked.write_text(mark + source.read_text() + mark)
    return marked, mark.encode()


@pytest.fixture(scope="module")
def built(bundle, base_image, tmp_path_factory):
    """The running service of a repository with a dependency from the index; also the name of its image."""
    root = tmp_path_factory.mktemp("private") / unique("private-ca")
    config = f"[debug]\nport = {free_port()}\nwait = 0\n"
    anew = f"six  # {uuid.uuid4()}\n"  # a secret is no part of the build cache's key
    repo(root, {"train.py": LOOP, "requirements.txt": anew, "dkdbg.toml": config})
    must(dkdbg(root, "init", "--yes", "--command", "python3 train.py"))
    with running(root, base_image, env={"DKDBG_CA": str(bundle[0])}):
        yield root, f"{root.name}-app-debug"


def inside(root, code):
    argv = ["docker", "compose", "--profile", "debug", "exec", "-T", "app-debug", "python3", "-c", code]
    return must(subprocess.run(argv, cwd=root, capture_output=True, text=True, check=False)).stdout


def test_the_dependency_is_installed(built):
    assert inside(built[0], "import six; print(six.__file__)").startswith("/opt/venv/")


def test_the_container_has_no_secrets(built):
    assert inside(built[0], "import glob; print(glob.glob('/run/secrets/*'))") == "[]\n"


def test_no_byte_of_the_ca_is_in_the_image(built, bundle):
    mark, before = bundle[1], b""
    history = subprocess.run(
        ["docker", "history", "--no-trunc", built[1]], capture_output=True, check=True
    ).stdout
    assert mark.strip() not in history
    assert b"BEGIN CERTIFICATE" not in history
    with subprocess.Popen(["docker", "save", built[1]], stdout=subprocess.PIPE) as saved:
        assert saved.stdout is not None
        while piece := saved.stdout.read(1 << 20):
            assert mark not in before + piece
            before = piece[-len(mark) :]
    assert saved.returncode == 0
