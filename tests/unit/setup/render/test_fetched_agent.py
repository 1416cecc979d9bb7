"""`agent = "fetched"`: git has the digest of the agent and not the agent, and a clone gets the very same file."""

import shutil

import pytest

from dkdbg.errors import DkdbgError
from dkdbg.main import main
from dkdbg.setup.render import fetched_agent
from dkdbg.verbs.parts.repository import debug_service
from tests.checkout import git
from tests.commands import command


@pytest.fixture
def clone(tmp_path):
    """A clone of a repository in which `dkdbg init` was committed, and the agent of the original."""
    origin = tmp_path / "origin"
    origin.mkdir()
    (origin / "train.py").write_text("print(1)\n")
    (origin / "dkdbg.toml").write_text('[debug]\nagent = "fetched"\n')
    git(origin, "init", "-q")
    assert main(["-C", str(origin), "init", "--yes"]) == 0
    git(origin, "add", ".")
    git(origin, "commit", "-qm", "x")
    git(tmp_path, "clone", "-q", "origin", "clone")
    return tmp_path / "clone", (origin / ".dkdbg" / "agent.pyz").read_bytes()


def test_git_has_the_digest_alone_and_a_clone_gets_the_same_file(clone, capsys):
    root, agent = clone
    assert "git ignores" not in capsys.readouterr().out
    assert debug_service(root).name
    assert not (root / ".dkdbg" / "agent.pyz").exists()
    assert debug_service(root).name == debug_service(root, starts=True).name
    assert (root / ".dkdbg" / "agent.pyz").read_bytes() == agent
    if checked := shutil.which("sha256sum"):
        command([checked, "--check", "--status", "agent.sha256"], root / ".dkdbg")
    assert not fetched_agent.fill(root)
    assert main(["-C", str(root), "init", "--check"]) == 0
    assert git(root, "status", "--porcelain") == ""


def test_another_file_is_replaced_and_another_digest_refused(clone):
    root, agent = clone
    (root / ".dkdbg" / "agent.pyz").write_bytes(b"an older one")
    assert fetched_agent.fill(root)
    assert (root / ".dkdbg" / "agent.pyz").read_bytes() == agent
    digest = root / ".dkdbg" / "agent.sha256"
    text = digest.read_text()
    digest.write_text(text[:-20] + "0" * 8 + text[-12:])
    with pytest.raises(DkdbgError, match="builds a different one"):
        fetched_agent.fill(root)
    assert (root / ".dkdbg" / "agent.pyz").read_bytes() == agent
    digest.write_text("x\n")
    with pytest.raises(DkdbgError, match="does not have the format that dkdbg init writes"):
        debug_service(root, starts=True)
    assert debug_service(root).name  # `logs` and `down` need no agent


def test_undo_and_the_other_way_take_everything_back(clone):
    root, _ = clone
    fetched_agent.fill(root)
    (root / "dkdbg.toml").write_text('[debug]\nagent = "checked-in"\n')
    assert main(["-C", str(root), "init", "--yes"]) == 0
    assert not (root / ".dkdbg" / "agent.sha256").exists()
    assert not (root / ".dkdbg" / ".gitignore").exists()
    assert (root / ".dkdbg" / "agent.pyz").is_file()
