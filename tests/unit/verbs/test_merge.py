"""`dkdbg init` again, after a person has worked on our entries in launch.json and tasks.json."""

import json
import shutil

import pytest

from dkdbg.setup.render import jsonc

LAUNCH = ".vscode/launch.json"
TASKS = ".vscode/tasks.json"


def edit(root, name, old, new):
    path = root / name
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def entry(root):
    return jsonc.loads((root / LAUNCH).read_text())["configurations"][0]


@pytest.fixture
def mine(initialised):
    """An initialised repository whose owner has made the launch entry their own."""
    mine = '"justMyCode": false, // the library too\n      "env": {"A": "1"},'
    edit(initialised, LAUNCH, '"justMyCode": true,', mine)
    mapping = '"pathMappings": ['
    edit(initialised, LAUNCH, mapping, f'{mapping}\n        {{"localRoot": "/data", "remoteRoot": "/mnt"}},')
    return initialised


def test_a_second_init_changes_no_byte_of_what_they_made_and_says_where_it_yields(mine, dkdbg):
    before = (mine / LAUNCH).read_bytes()
    ran = dkdbg(mine, "init", "--yes")
    assert (ran.code, (mine / LAUNCH).read_bytes()) == (0, before)
    assert f'keep    {LAUNCH}  (yours: in "dkdbg: attach" justMyCode is false, not true)' in ran.out
    assert dkdbg(mine, "init", "--check").code == 0


def test_a_changed_plan_reaches_what_is_ours_in_the_same_entry_also_in_a_clone(mine, dkdbg, tmp_path):
    clone = tmp_path / "clone"
    shutil.copytree(mine, clone, ignore=shutil.ignore_patterns("undo.json"))
    before = (mine / LAUNCH).read_text()
    for root in (mine, clone):
        edit(root, "dkdbg.toml", "# port = 5678", "port = 6001")
        assert dkdbg(root, "init", "--yes").code == 0
        assert (root / LAUNCH).read_text() == before.replace("5678", "6001")


def test_a_value_of_an_entry_and_of_a_task_that_they_changed_stays_against_the_plan(initialised, dkdbg):
    edit(initialised, LAUNCH, '"port": 5678', '"port": 7000')
    edit(initialised, TASKS, '"reveal": "always"', '"reveal": "never"')
    edit(initialised, TASKS, '"command": "sh",', '"command": "sh", // mine\n      "icon": {"id": "bug"},')
    edit(initialised, "dkdbg.toml", "# port = 5678", "port = 6001")
    before = (initialised / TASKS).read_bytes()
    ran = dkdbg(initialised, "init", "--yes")
    assert entry(initialised)["connect"]["port"] == 7000
    assert "connect > port is 7000, not 6001" in ran.out
    assert (initialised / TASKS).read_bytes() == before
    assert 'in "dkdbg: up" presentation > reveal is "never", not "always"' in ran.out


def test_an_entry_that_they_deleted_comes_back_whole(initialised, dkdbg):
    whole = (initialised / LAUNCH).read_bytes()
    (initialised / LAUNCH).unlink()
    dkdbg(initialised, "init", "--yes")
    assert (initialised / LAUNCH).read_bytes() == whole


def test_without_a_record_every_difference_is_theirs(initialised, dkdbg):
    path = initialised / ".dkdbg/manifest.json"
    manifest = json.loads(path.read_text())
    del manifest["notes"]
    path.write_text(json.dumps(manifest))
    edit(initialised, "dkdbg.toml", "# port = 5678", "port = 6001")
    ran = dkdbg(initialised, "init", "--yes")
    assert "connect > port is 5678, not 6001" in ran.out


def test_a_token_comes_into_the_entry_and_goes_again_without_a_trace(mine, dkdbg):
    before = (mine / LAUNCH).read_bytes()
    shown = {}
    for source in ("prompt", "env", "none"):
        toml = mine / "dkdbg.toml"
        toml.write_text(f'[debug]\ntoken = "{source}"\n')
        assert dkdbg(mine, "init", "--yes").code == 0
        root = jsonc.loads((mine / LAUNCH).read_text())
        shown[source] = (entry(mine).get("dkdbgToken"), [each["id"] for each in root.get("inputs", [])])
    asked = ("${input:dkdbgToken}", ["dkdbgToken"])
    assert shown == {"prompt": asked, "env": ("${env:DKDBG_TOKEN}", []), "none": (None, [])}
    assert (mine / LAUNCH).read_bytes() == before
    assert not (mine / ".dkdbg/no-token").exists()
