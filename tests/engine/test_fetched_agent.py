"""A clone without the agent in git: F5 has dkdbg write it, and the debug service starts with it."""

import hashlib
import os
import sys
from pathlib import Path

import pytest

from tests.checkout import git
from tests.engine.projects import LOOP, command, dkdbg, must, repo, take_away, unique
from tests.ports import free_port

pytestmark = [pytest.mark.engine]


def test_f5_in_a_clone_has_the_agent_written_and_starts(tmp_path, base_image):
    config = f'[debug]\nagent = "fetched"\nport = {free_port()}\nwait = 0\n'
    origin = repo(tmp_path / "origin", {"train.py": LOOP, "dkdbg.toml": config})
    must(dkdbg(origin, "init", "--yes"))
    git(origin, "add", ".")
    git(origin, "commit", "-qm", "x")
    root = tmp_path / unique("fetched")
    git(tmp_path, "clone", "-q", str(origin), str(root))
    env = {"DKDBG_BASE": base_image}
    agent = root / ".dkdbg" / "agent.pyz"
    programs = Path(sys.executable).parent
    path = os.pathsep.join(
        each for each in os.environ["PATH"].split(os.pathsep) if not Path(each, "dkdbg").exists()
    )
    try:
        refused = command(["sh", ".dkdbg/up.sh"], root, env={**env, "PATH": path}, check=False)
        assert refused.returncode == 1
        assert "agent.pyz is not in git, and dkdbg writes it" in refused.stderr
        assert not agent.exists()
        command(["sh", ".dkdbg/up.sh"], root, env={**env, "PATH": f"{programs}{os.pathsep}{path}"})
        named = (root / ".dkdbg" / "agent.sha256").read_text().split("\n")[1].split()[0]
        assert hashlib.sha256(agent.read_bytes()).hexdigest() == named
        command(["sh", ".dkdbg/up.sh"], root, env={**env, "PATH": path})  # dkdbg is needed once
    finally:
        take_away(root, env)
