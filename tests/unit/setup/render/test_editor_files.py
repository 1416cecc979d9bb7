"""launch.json on another local port, as `dkdbg up` writes it when a port is taken, without inspecting the repository."""

import json

from dkdbg.setup.render import changes, jsonc
from dkdbg.setup.render.editor_files import LAUNCH, with_port


def write(root, wanted):
    changes.apply(root, changes.between(root, wanted), changes.Journal(root=root))


def test_a_port_of_the_users_stays_and_is_named_and_before_init_nothing_is_known(initialised, tmp_path):
    path = initialised / LAUNCH
    path.write_text(path.read_text().replace("5678", "7000"))
    wanted = with_port(initialised, 6001)
    write(initialised, {LAUNCH: wanted})
    (entry,) = jsonc.loads(path.read_text())["configurations"]
    assert entry["connect"]["port"] == 7000
    assert wanted.yours == ('in "dkdbg: attach" connect > port is 7000, not 6001',)
    assert with_port(tmp_path, 6001) is None


def test_only_the_port_and_its_record_change_and_change_back(initialised):
    before, path = (initialised / LAUNCH).read_text(), initialised / ".dkdbg/manifest.json"
    records = json.loads(path.read_text())
    write(initialised, {LAUNCH: with_port(initialised, 6001)})
    assert (initialised / LAUNCH).read_text() == before.replace("5678", "6001")
    after = json.loads(path.read_text())
    assert {name for name in after["notes"] if after["notes"][name] != records["notes"][name]} == {LAUNCH}
    assert after["files"] == records["files"]
    write(initialised, {LAUNCH: with_port(initialised, 5678)})
    assert (initialised / LAUNCH).read_text() == before
