"""tests/corpus/score.py measures `init` on a repository at the commit that its line names."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.checkout import TRAIN, checkout

pytestmark = pytest.mark.engine

SCRIPT = Path(__file__).parents[1] / "corpus" / "score.py"
TRUE = {
    "python": {"accept": ["3.11"]},
    "accept_package_managers": ["pip"],
    "entrypoints": [{"cmd": "python train.py", "file": "train.py", "primary": True}],
    "launcher": "python",
    "gpu": "none",
    "debug_service": None,
}


def test_a_repository_is_scored_at_its_commit_fact_by_fact_and_a_missing_one_is_said(tmp_path: Path) -> None:
    root = checkout(
        tmp_path / "mirrors/ml+digits",
        {
            "train.py": TRAIN,
            ".python-version": "3.11\n",
            "requirements.txt": "tqdm\n",
            "README.md": "    python train.py\n",
        },
    )
    commit = _commit(root)
    (root / "train.py").unlink()
    _commit(root)  # what is newest is not what is scored
    (root / ".git").rename(root / "repo")
    known = {**TRUE, "gpu": "required"}  # what is not true here
    lines = [{"repo": name, "commit": commit, "facts": known} for name in ("ml/digits", "ml/gone")]
    listing = tmp_path / "known.jsonl"
    listing.write_text("\n".join(map(json.dumps, lines)))

    done = _scored(listing, tmp_path)

    assert done.returncode == 2, done.stderr
    assert "5/6    8/8        gpu" in done.stdout
    assert "has no ml+gone" in done.stdout
    assert "known.jsonl: facts 5/7 (71.4 %), behaviour 8/8 (100.0 %), 2 repositories" in done.stdout


def test_a_compose_file_that_needs_variables_or_files_behaves_when_init_says_so(tmp_path: Path) -> None:
    files = {
        "train.py": TRAIN,
        "requirements.txt": "tqdm\n",
        "README.md": "    python train.py\n",
        "Dockerfile": "FROM python:3.11\nWORKDIR /app\nCOPY . .\nCMD python train.py\n",
        "compose.yaml": "services: {train: {build: ., env_file: .env, volumes: ['${WHERE_DKDBG_TESTS}:/data']}}\n",
    }
    root = checkout(tmp_path / "mirrors/ml+digits", files)
    line = {
        "repo": "ml/digits",
        "commit": _commit(root),
        "facts": {**TRUE, "debug_service": {"name": "train"}},
    }
    (root / ".git").rename(root / "repo")
    listing = tmp_path / "known.jsonl"
    listing.write_text(json.dumps(line))

    done = _scored(listing, tmp_path)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "behaviour 8/8 (100.0 %)" in done.stdout


def _scored(listing: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    words = [
        "--from",
        folder / "mirrors",
        "--trees",
        folder / "trees",
        "--dkdbg",
        f"{sys.executable} -m dkdbg",
    ]
    return subprocess.run(
        [sys.executable, SCRIPT, listing, *words], capture_output=True, text=True, check=False, timeout=600
    )


def _commit(root: Path) -> str:
    git = ["git", "-C", str(root), "-c", "user.name=a", "-c", "user.email=a@example.org"]
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull}
    subprocess.run([*git, "add", "-A"], check=True, env=environment)
    subprocess.run([*git, "commit", "-q", "-m", "x"], check=True, env=environment)
    done = subprocess.run(
        [*git, "rev-parse", "HEAD"], check=True, env=environment, capture_output=True, text=True
    )
    return done.stdout.strip()
