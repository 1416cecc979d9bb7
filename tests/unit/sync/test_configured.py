"""[sync] of dkdbg.toml at work, and while it is being edited."""

import subprocess
import sys

import pytest

from dkdbg.errors import DkdbgError
from dkdbg.sync.rules.rules import ConfiguredRules
from dkdbg.sync.tree.scan import Scanner
from tests.unit.sync.trees import fresh, put, scanned


def configured(root):
    return scanned(root, rules=ConfiguredRules())


def test_ignore_and_max_size_hold_and_without_a_dkdbg_toml_the_defaults(root):
    put(root, {"a.csv": "", "m.pt": ""})
    assert set(configured(root)[1].entries) == {"a.csv"}
    put(
        fresh(root),
        {"dkdbg.toml": "[sync]\nignore = ['*.csv', '!m.pt']\nmax_size = '60 B'\n", "a.csv": "", "m.pt": ""},
    )
    put(root, {"big": "x" * 61})
    _, index = configured(root)
    assert set(index.entries) == {"dkdbg.toml", "m.pt"}
    assert "big" in index.skipped


STARTS = """
import sys
import dkdbg.main, dkdbg.verbs.sync, dkdbg.targets.docker.docker_target, dkdbg.sync.session
from dkdbg.sync.rules.rules import ConfiguredRules
ConfiguredRules()(sys.argv[1])
print(sorted({"docker.api", "jinja2", "tomlkit", "yaml"} & {*sys.modules}))
"""


@pytest.mark.parametrize(("files", "loaded"), [({}, []), ({"dkdbg.toml": ""}, ["tomlkit"])])
def test_a_sync_starts_without_what_it_may_not_need(root, files, loaded):
    """Somebody waits for it: what is loaded takes longer than 10,000 files that have not changed."""
    put(root, files)
    run = [sys.executable, "-c", STARTS, str(root)]
    assert subprocess.run(run, capture_output=True, text=True, check=True).stdout == f"{loaded}\n"


def test_a_change_of_sync_is_followed_one_of_debug_is_a_changed_file_a_broken_one_leaves_what_it_said(root):
    put(root, {"dkdbg.toml": "", "a.csv": ""})
    looking, index = configured(root)
    put(root, {"dkdbg.toml": "[debug]\nport = 6000\n"})
    changes = looking.rescan(index, ["dkdbg.toml"])
    assert (list(changes.written), changes.removed) == (["dkdbg.toml"], ())
    index.apply(changes)
    put(root, {"dkdbg.toml": "[sync]\nignore = ['*.csv']\n"})
    assert looking.rescan(index, ["dkdbg.toml"]).removed == ("a.csv",)
    put(fresh(root), {"dkdbg.toml": "[sync]\nignore = ['*.csv']\n", "a.csv": ""})
    looking, index = configured(root)
    put(root, {"dkdbg.toml": "[sync\n"})
    changes = looking.rescan(index, ["dkdbg.toml"])
    assert (list(changes.written), changes.removed) == (["dkdbg.toml"], ())


def test_a_dkdbg_toml_that_is_broken_at_the_start_or_later_is_said_once_and_so_is_its_end(root):
    put(root, {"dkdbg.toml": "[sync]\nignore = 3\n"})
    with pytest.raises(DkdbgError, match="ignore must be a list"):
        configured(root)
    said = []
    put(fresh(root), {"dkdbg.toml": "[sync]\nignore = ['*.csv']\n", "a.csv": ""})
    looking = Scanner(str(root), rules=ConfiguredRules(said.append))
    index = looking.scan()
    for _ in range(3):
        put(root, {"dkdbg.toml": "[sync]\nignore = [\n"})
        index.apply(looking.rescan(index, ["dkdbg.toml"]))
    assert "a.csv" not in index.entries
    put(root, {"dkdbg.toml": "[sync]\n"})
    index.apply(looking.rescan(index, ["dkdbg.toml"]))
    assert len(said) == 2
    assert said[0].endswith("; the previous [sync] settings stay in force")
    assert said[1] == "dkdbg.toml is valid again"
