"""A repository that an earlier dkdbg has set up: some 70 files in `.dkdbg/` become three, and undo brings them back."""

import hashlib
import json

import pytest

from dkdbg.setup.render.manifest import GITIGNORE_TEXT
from tests.checkout import snapshot

FORMER = {
    ".dkdbg/agent.sh": b"#!/bin/sh\n",
    ".dkdbg/debugpy-1.8.22.zip": b"PK\x03\x04",
    ".dkdbg/dkdbg/__init__.py": b"",
    ".dkdbg/dkdbg/agent/inprocess/hook/sitecustomize.py": b"import os\n",
    ".dkdbg/gpu/none.yaml": b"services: {}\n",
    ".dkdbg/no-ca.pem": b"",
    ".devcontainer/compose.devcontainer.yaml": b"services: {}\n",
    ".devcontainer/dkdbg-owner/start.sh": b"#!/bin/sh\n",
}
TODAY = ["agent.pyz", "manifest.json", "service.compose", "up.sh"]


@pytest.fixture
def cloned(initialised):
    """A teammate's clone: what an earlier version wrote and committed, without its journal."""
    root = initialised
    for journal in (root / ".git/dkdbg").iterdir():
        journal.unlink()
    manifest = json.loads((root / ".dkdbg/manifest.json").read_text())
    for name, content in FORMER.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)
        manifest["files"][name] = hashlib.sha256(content).hexdigest()
    (root / ".dkdbg/agent.pyz").unlink()
    del manifest["files"][".dkdbg/agent.pyz"]
    (root / ".dkdbg/manifest.json").write_text(json.dumps(manifest))
    (root / ".dkdbg/.gitignore").write_bytes(GITIGNORE_TEXT)
    return root


def test_the_next_init_replaces_them_without_an_empty_folder_and_undo_brings_back_every_byte(cloned, dkdbg):
    before = snapshot(cloned)
    ran = dkdbg(cloned, "init", "--yes")
    assert ran.code == 0, ran.err
    assert sorted(path.name for path in (cloned / ".dkdbg").iterdir()) == TODAY
    left = sorted(path.name for path in (cloned / ".devcontainer").rglob("*") if path.is_file())
    assert left == ["devcontainer-feature.json", "devcontainer.json", "install.sh"]
    assert "remove  .dkdbg/: 5 files of an earlier dkdbg, now replaced by one file" in ran.out
    assert dkdbg(cloned, "init", "--check").code == 0
    assert dkdbg(cloned, "init", "--undo").code == 0
    assert snapshot(cloned) == before


def test_one_that_the_user_edited_stays(cloned, dkdbg):
    (cloned / ".dkdbg/gpu/none.yaml").write_text("services: {debug: {shm_size: 8gb}}\n")
    ran = dkdbg(cloned, "init", "--yes")
    assert "keep    .dkdbg/gpu/none.yaml  (you changed it)" in ran.out
    assert (cloned / ".dkdbg/gpu/none.yaml").exists()
