"""`dkdbg init TARGET`: what F5 needs to run the program there."""

import json

import pytest

from dkdbg.setup.render import jsonc
from tests.commands import command
from tests.engine.projects import dkdbg, must, repo

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("far"), pytest.mark.usefixtures("laptop")]

PLACES = '[targets.node]\nuri = "ssh://login,node1/~/code"\n\n[targets.other]\nuri = "ssh://login"\n'


def entries(root, name: str, array: str) -> list[dict]:
    return jsonc.loads((root / ".vscode" / name).read_text())[array]


def test_each_place_gets_an_entry_with_its_folder_a_port_of_its_own_and_a_task_that_a_further_init_leaves(
    tmp_path,
):
    root = repo(tmp_path / "shop", {"train.py": "print(1)\n", "dkdbg.toml": PLACES})
    words = ("init", "--command", "python3 train.py --lr 1", "--yes", "--on")
    must(dkdbg(root, *words, "node"))
    must(dkdbg(root, *words, "other"))
    node, other = entries(root, "launch.json", "configurations")
    assert node["pathMappings"] == [{"localRoot": "${workspaceFolder}", "remoteRoot": "/home/me/code"}]
    assert other["pathMappings"][0]["remoteRoot"].startswith("/home/me/dkdbg/shop-")
    assert node["connect"]["port"] != other["connect"]["port"]
    task = entries(root, "tasks.json", "tasks")[0]
    assert task["label"] == node["preLaunchTask"] == "dkdbg: run on node"
    assert task["args"][-4:] == ["python3", "train.py", "--lr", "1"]
    assert json.loads(must(dkdbg(root, *words, "node", "--json")).stdout)["changes"] == []

    must(dkdbg(root, "init", "--yes"))
    names = [each["name"] for each in entries(root, "launch.json", "configurations")]
    assert sorted(names) == ["dkdbg: attach", "dkdbg: on node", "dkdbg: on other"]
    must(dkdbg(root, *words, "node"))
    assert len(entries(root, "launch.json", "configurations")) == 3
    assert must(dkdbg(root, "init", "--check"))

    must(dkdbg(root, "init", "--undo"))
    said = command(["git", "status", "--short"], root).stdout
    assert said.split() == ["??", "dkdbg.toml", "??", "train.py"]
    assert (root / "dkdbg.toml").read_text() == PLACES


def test_a_place_that_cannot_be_reached_and_a_program_that_nobody_named_write_nothing(tmp_path):
    root = repo(tmp_path / "empty", {"notes.py": "x = 1\n", "dkdbg.toml": PLACES})
    refused = dkdbg(root, "init", "--on", "node", "--yes")
    assert "the program to debug is unknown" in refused.stderr
    refused = dkdbg(root, "init", "--on", "ssh://login,node7", "--command", "python3 a.py", "--yes")
    assert "login cannot resolve the host name node7" in refused.stderr
    assert not (root / ".vscode").exists()
