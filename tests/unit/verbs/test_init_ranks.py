"""`dkdbg init --ranks N`: a launch entry a rank, and one F5 for all of them."""

import json

import pytest

from dkdbg.errors import EXIT_USAGE
from dkdbg.main import main
from dkdbg.setup.render.editor_files import LAUNCH, TASKS, with_port


def init(root, *words):
    return main(["-C", str(root), "init", "--json", *words])


def write(root, count, *words):
    assert init(root, "--yes", "--ranks", str(count), *words) == 0


@pytest.fixture
def repository(tmp_path):
    (tmp_path / "train.py").write_text("import torch\nprint(1)\n")
    (tmp_path / "requirements.txt").write_text("torch\n")
    (tmp_path / ".git").mkdir()
    assert init(tmp_path, "--yes", "--command", "python3 train.py") == 0
    return tmp_path


def read(root, name):
    return json.loads((root / name).read_text())


def test_each_rank_has_an_entry_at_its_port_and_one_compound_starts_and_stops_them(repository):
    write(repository, 3)
    launch = read(repository, LAUNCH)
    ports = {each["name"]: each["connect"]["port"] for each in launch["configurations"]}
    service = ports.pop("dkdbg: attach")
    first = ports["dkdbg: rank 0"]
    assert ports == {f"dkdbg: rank {rank}": first + rank for rank in range(3)}
    assert service not in ports.values()
    [compound] = launch["compounds"]
    assert (compound["configurations"], compound["stopAll"]) == (list(ports), True)
    [task] = [each for each in read(repository, TASKS)["tasks"] if each["label"] == compound["preLaunchTask"]]
    assert task["args"] == ["attach", "--ports", str(first)]
    assert task["dependsOn"] == ["dkdbg: up"]


def test_another_init_keeps_them_and_fewer_ranks_take_the_place_of_more(repository):
    write(repository, 4)
    assert init(repository, "--check", "--command", "python3 train.py") == 0
    write(repository, 2, "--port", "7000")
    launch = read(repository, LAUNCH)
    names = [each["name"] for each in launch["configurations"]]
    assert names == ["dkdbg: attach", "dkdbg: rank 0", "dkdbg: rank 1"]
    moved = with_port(repository, 9999)  # what `up` writes where the service's port is taken
    ports = [each["connect"]["port"] for each in json.loads(moved.content)["configurations"]]
    assert ports == [9999, 7000, 7001]
    assert init(repository, "--undo") == 0
    assert not (repository / LAUNCH).exists()


def test_a_repository_that_is_not_set_up_gets_no_entries(tmp_path):
    (tmp_path / "train.py").write_text("print(1)\n")
    assert init(tmp_path, "--yes", "--ranks", "2") == EXIT_USAGE
    assert not (tmp_path / LAUNCH).exists()
