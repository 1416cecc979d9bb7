"""A build behind a proxy with a CA of its own: the build trusts it, and nothing of it stays in the image."""

import json
import os
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from tests.engine.projects import LOOP, command, dkdbg, must, project, repo, take_away, unique
from tests.needs import give_up
from tests.pages import DOCS, Page
from tests.ports import free_port

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("private-ca")]

#: What the notebook's kernel imports; it leaves a note of where it has run.
FIGURES = "import pathlib, sys\n\n\ndef total(numbers):\n    pathlib.Path('ran.txt').write_text(sys.executable)\n    return sum(numbers)\n"
NOTEBOOK = json.dumps(
    {
        "cells": [
            {"cell_type": "code", "id": "one", "source": "import figures", "metadata": {}, "outputs": [], "execution_count": None},
            {"cell_type": "code", "id": "two", "source": "assert figures.total([1, 2]) == 3", "metadata": {}, "outputs": [], "execution_count": None},
        ],
        "metadata": {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
)  # fmt: skip


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    """This host's CA bundle, with which it reaches the index, and a line in it that can be looked for."""
    source = Path(os.environ.get("SSL_CERT_FILE") or "/etc/ssl/certs/ca-certificates.crt")
    if not source.is_file():
        give_up(f"no CA bundle at {source}")
    folder = tmp_path_factory.mktemp("ca")
    words = ["download", "--quiet", "--no-deps", "--no-cache-dir", "--dest", str(folder), "six"]
    reached = command([sys.executable, "-m", "pip", *words], check=False)
    if reached.returncode:
        give_up(f"the package index cannot be reached: {reached.stderr.strip()[-200:]}")
    marked = folder / "bundle.pem"
    mark = f"# dkdbg-test-{uuid.uuid4()}\n"
    marked.write_text(mark + source.read_text() + mark)
    return marked, mark.encode()


@pytest.fixture(scope="module")
def built(bundle, base_image, tmp_path_factory):
    """The running service of a repository with a dependency from the index; also the name of its image."""
    root = tmp_path_factory.mktemp("private") / unique("private-ca")
    config = f"[debug]\nport = {free_port()}\nwait = 0\n"
    anew = f"six  # {uuid.uuid4()}\nnbclient\nipykernel\n"  # a secret is no part of the build cache's key
    files = {"train.py": LOOP, "requirements.txt": anew, "figures.py": FIGURES, "analysis.ipynb": NOTEBOOK}
    repo(root, {**files, "dkdbg.toml": config})
    (root / ".env").write_text(f"DKDBG_BASE={base_image}\n")
    file = DOCS / "how-to/private-ca.md"
    page = Page.read(file, file.read_text().replace("/etc/ssl/certs/company.pem", str(bundle[0])))
    try:
        with page.all_run():
            must(page.run("echo", cwd=root))
            must(page.run("dkdbg init", cwd=root))
            must(page.run("dkdbg up", cwd=root))
        yield root, f"{root.name}-app-debug"
    finally:
        take_away(root, dict(os.environ))


def test_the_dependency_is_installed_and_the_container_has_no_secrets(built):
    code = "import glob, six; print(six.__file__, glob.glob('/run/secrets/*'))"
    argv = ["docker", "compose", "--profile", "debug", "exec", "-T", "app-debug", "python3", "-c", code]
    file, secrets = command(argv, built[0]).stdout.split()
    assert file.startswith("/opt/venv/")
    assert secrets == "[]"


def test_the_page_about_jupyter_runs_a_notebook_in_the_service(built):
    page = Page.of("how-to/jupyter.md")
    with page.all_run():
        must(page.run("dkdbg run", cwd=built[0]))
    assert (built[0] / "ran.txt").read_text() in {"/opt/venv/bin/python", "/opt/venv/bin/python3"}


SETUP = """\
import setuptools
scripts = {"console_scripts": ["mytool=mytool.main:main"]}
setuptools.setup(name="mytool", version="1", package_dir={"": "src"}, packages=["mytool"], entry_points=scripts)
"""


def test_a_console_script_of_a_setup_py_starts_though_the_mount_hides_what_the_build_left_beside_it(
    bundle, base_image, tmp_path, monkeypatch
):
    """A pip that is older than 23.1, as in python:3.10-slim, leaves the metadata beside the sources."""
    monkeypatch.setenv("DKDBG_CA", str(bundle[0]))
    files = {
        "setup.py": SETUP,
        "src/mytool/__init__.py": "",
        "README.md": "```\npip install -e .\nmytool\n```\n",
    }
    files |= {
        "src/mytool/main.py": "def main():\n    print('hello')\n",
        ".env": f"DKDBG_BASE={base_image}\n",
        "dkdbg.toml": f"[debug]\nport = {free_port()}\n",
    }
    with project(tmp_path / unique("console"), files, "init", "--yes") as root:
        assert "proven in " in must(dkdbg(root, "verify")).stdout


def test_no_byte_of_the_ca_is_in_the_image(built, bundle):
    mark, before = bundle[1], b""
    history = subprocess.run(
        ["docker", "history", "--no-trunc", built[1]], capture_output=True, check=True
    ).stdout
    assert mark.strip() not in history
    assert b"BEGIN CERTIFICATE" not in history
    with subprocess.Popen(["docker", "save", built[1]], stdout=subprocess.PIPE) as saved:
        while piece := saved.stdout.read(1 << 20):
            assert mark not in before + piece
            before = piece[-len(mark) :]
    assert saved.returncode == 0
