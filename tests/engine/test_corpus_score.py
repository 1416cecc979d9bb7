"""tests/corpus/score.py measures `init` on a repository at the commit that its line names."""

import json
import os
import sys
from pathlib import Path

import pytest

from tests.checkout import TRAIN, checkout
from tests.engine.projects import command

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


NEEDS = {
    "train.py": TRAIN,
    "requirements.txt": "tqdm\n",
    "README.md": "    python train.py\n",
    "Dockerfile": "FROM python:3.11\nWORKDIR /app\nCOPY . .\nCMD python train.py\n",
    "compose.yaml": "services: {train: {build: ., env_file: .env, volumes: ['${WHERE_DKDBG_TESTS}:/data']}}\n",
}


def test_repositories_are_scored_at_their_commits_fact_by_fact_with_what_init_says_they_lack(tmp_path):
    files = {name: NEEDS[name] for name in ("train.py", "requirements.txt", "README.md")}
    digits = checkout(tmp_path / "mirrors/ml+digits", {**files, ".python-version": "3.11\n"})
    needs = checkout(tmp_path / "mirrors/ml+needs", NEEDS)
    commits = {"digits": _commit(digits), "needs": _commit(needs), "gone": "0" * 40}
    (digits / "train.py").unlink()
    _commit(digits)  # what is newest is not what is scored
    for root in (digits, needs):
        (root / ".git").rename(root / "repo")
    untrue = {**TRUE, "gpu": "required"}
    facts = {"digits": untrue, "needs": {**TRUE, "debug_service": {"name": "train"}}, "gone": TRUE}
    lines = [{"repo": f"ml/{name}", "commit": commits[name], "facts": facts[name]} for name in facts]
    listing = tmp_path / "known.jsonl"
    listing.write_text("\n".join(map(json.dumps, lines)))
    folders = ("--from", tmp_path / "mirrors", "--trees", tmp_path / "trees")
    words = (*folders, "--dkdbg", f"{sys.executable} -m dkdbg")
    done = command([sys.executable, SCRIPT, listing, *words], check=False)
    assert done.returncode == 2, done.stderr
    shown = " ".join(done.stdout.split())
    assert "ml/digits 5/6 5/6 8/8 0 gpu" in shown
    assert "ml/needs 6/6 6/6 8/8 0" in shown
    assert "has no ml+gone" in done.stdout
    assert "behaviour 16/16 (100.0 %), 3 repositories" in done.stdout


def _commit(root):
    git = ["git", "-C", str(root), "-c", "user.name=a", "-c", "user.email=a@example.org"]
    for words in (["add", "-A"], ["commit", "-q", "-m", "x"]):
        command([*git, *words], env={"GIT_CONFIG_GLOBAL": os.devnull})
    return command([*git, "rev-parse", "HEAD"]).stdout.strip()
