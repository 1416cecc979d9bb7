"""PACK: each file of it is done, fails or is kept by itself, as if it had come alone."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

from dkdbg.agent.sync import wire
from dkdbg.agent.sync.ledger import Ledger
from dkdbg.agent.sync.operations import Operations
from dkdbg.agent.sync.state import State
from dkdbg.agent.sync.tree import Tree
from tests.agent.sync.host import Host, digest, entry, packed

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest

ODD = ["],[", 'a],["', "],\n[", "\\", "\udcff", "caf\u00e9", "a\n,b"]


def test_files_get_content_mode_and_time_and_are_listed_at_the_next_start(
    start: Callable[..., Host], root: Path
) -> None:
    host = start()
    host.open(root)
    files = {f"f{index}": b"%d" % index * index for index in range(150)}
    time = 1_600_000_000_123_456_789
    assert host.pack("a/b", files, mode=0o751, mtime_ns=time, stamp="1") == []
    assert host.pack("", {"top": b"", "other": b"2"}) == []
    for name, data in files.items():
        info = (root / "a/b" / name).stat()
        assert ((root / "a/b" / name).read_bytes(), info.st_mode & 0o7777, info.st_mtime_ns) == (
            data,
            0o751,
            time,
        )
    host.bye()
    assert list((root / ".dkdbg-sync" / "tmp").iterdir()) == []
    listing = start().open(root)
    assert listing.pop("a")[1] == listing.pop("a/b")[1] == "d"
    assert listing == {
        **{
            f"a/b/{name}": [f"a/b/{name}", "f", 0o751, len(data), digest(data), "1"]
            for name, data in files.items()
        },
        "top": ["top", "f", 0o644, 0, digest(b""), "s"],
        "other": ["other", "f", 0o644, 1, digest(b"2"), "s"],
    }


def test_names_that_look_like_the_ledgers_own_signs_survive_in_it(
    start: Callable[..., Host], root: Path
) -> None:
    host = start()
    host.open(root)
    assert host.pack("],[", dict.fromkeys(ODD, b"x")) == []
    host.bye()
    assert set(start().open(root)) == {"],[", *(f"],[/{name}" for name in ODD)}


def test_a_file_that_fails_takes_no_other_with_it(host: Host, root: Path) -> None:
    host.open(root)
    (root / "d" / "in the way").mkdir(parents=True)
    head, body = packed(
        1, "d", {"first": b"1", "bad": b"22", "..": b"3", ".dkdbg-sync": b"4", "n" * 300: b"5", "last": b"6"}
    )
    head["files"][1][5] = digest(b"something else")
    host.number = 6
    host.send(wire.PACK, head, body)
    host.settle()
    assert [(one["id"], one["path"]) for one in host.failed] == [
        (2, "d/bad"), (3, "d/.."), (4, "d/.dkdbg-sync"), (5, "d/" + "n" * 300),
    ]  # fmt: skip
    assert sorted(one.name for one in (root / "d").iterdir()) == ["first", "in the way", "last"]
    assert list((root / ".dkdbg-sync" / "tmp").iterdir()) == []
    host.bye()


def test_what_somebody_made_or_changed_there_is_kept_one_by_one(host: Host, root: Path) -> None:
    host.open(root)
    names = ("edited", "touched", "same", "folder", "link")
    host.pack("d", dict.fromkeys(names, b"from here"))
    (root / "d" / "edited").write_bytes(b"work of somebody")
    (root / "d" / "touched").touch()
    (root / "d" / "theirs").write_bytes(b"their own")
    (root / "d" / "equal").write_bytes(b"second")
    for name in ("folder", "link"):
        (root / "d" / name).unlink()
    (root / "d" / "folder").mkdir()
    (root / "d" / "folder" / "work").write_bytes(b"in a folder")
    (root / "d" / "link").symlink_to("edited")
    assert host.pack("d", dict.fromkeys((*names, "theirs", "equal", "new"), b"second")) == []
    for name in (*names, "theirs", "equal", "new"):
        assert (root / "d" / name).read_bytes() == b"second"
        assert not (root / "d" / name).is_symlink()
    ids = {one["path"]: one["id"] for one in host.kept}
    assert ids == {"d/edited": 6, "d/folder": 9, "d/link": 10, "d/theirs": 11}
    where = {one["path"]: root / one["where"] for one in host.kept}
    assert where["d/edited"].read_bytes() == b"work of somebody"
    assert where["d/theirs"].read_bytes() == b"their own"
    assert (where["d/folder"] / "work").read_bytes() == b"in a folder"
    assert where["d/link"].is_symlink()
    host.bye()


def test_a_file_in_the_place_of_the_folder_is_kept(host: Host, root: Path) -> None:
    (root / "d").write_text("theirs")
    host.open(root)
    assert host.pack("d/e", {"a": b"1", "b": b"2"}) == []
    (one,) = host.kept
    assert (one["path"], (root / one["where"]).read_text()) == ("d", "theirs")
    assert (root / "d/e/b").read_bytes() == b"2"
    host.bye()


def test_a_folder_that_is_removed_while_packs_come_is_made_again(host: Host, root: Path) -> None:
    host.open(root)
    for index in range(50):
        assert host.pack("d/e", {"a": b"%d" % index, "b": b"2"}) == []
        assert (root / "d/e/a").read_bytes() == b"%d" % index
        shutil.rmtree(root / "d")
    host.bye()


def test_python_never_runs_an_old_pyc(host: Host, root: Path) -> None:
    host.open(root)
    for value in (1, 2, 3, 4):
        if value == 3:
            host.do(wire.DELETE, {"path": "module.py"})
        assert host.pack("", {"module.py": b"value = %d\n" % value, "other.py": b""}) == []
        run = [sys.executable, "-c", "import module; print(module.value)"]
        assert (
            subprocess.run(run, cwd=root, capture_output=True, text=True, check=True).stdout == f"{value}\n"
        )
    host.bye()


def operations(root: Path) -> tuple[Operations, State, Ledger]:
    state = State(Tree(os.open(root, os.O_RDONLY)), str(root), write=True)
    book = Ledger(state.folder)
    return Operations(state, book, lambda _path, _where: None), state, book


def test_every_intent_is_in_the_log_before_the_first_rename(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a kill in the middle leaves is settled by it at the next start."""
    work, _, _ = operations(root)
    seen: list[set[str]] = []
    rename = os.rename

    def watched(*arguments: object, **more: object) -> None:
        lines = (root / ".dkdbg-sync" / "ledger").read_text().splitlines()
        seen.append({json.loads(line)[0] for line in lines if len(json.loads(line)) == 6})
        rename(*arguments, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "rename", watched)
    assert work.pack(*packed(1, "", dict.fromkeys("abc", b"x")), lambda _number: None) == []
    assert seen == [{"a", "b", "c"}] * 3


def test_a_log_that_is_due_to_be_written_anew_keeps_what_is_intended(root: Path) -> None:
    _, _, book = operations(root)
    book._lines = 10**6
    book.intend([*entry("a", b"1").values()])  # any six
    assert len((root / ".dkdbg-sync" / "ledger").read_text().splitlines()) == 1
    book.flush()


def test_two_names_that_the_file_system_folds_are_not_put_over_each_other(root: Path) -> None:
    work, state, _ = operations(root)
    state.case_sensitive = False
    failed = work.pack(*packed(1, "", {"Readme": b"1", "README": b"2", "other": b"3"}), lambda _number: None)
    assert [(number, path) for number, path, _ in failed] == [(2, "README")]
    assert sorted(one.name for one in root.iterdir()) == [".dkdbg-sync", "Readme", "other"]


def test_done_comes_after_the_last_file(host: Host, root: Path) -> None:
    host.open(root)
    host.send(wire.PACK, *packed(5, "d", {"a": b"1", "b": b"2"}))
    host.number = 6
    assert host.expect(wire.DONE) == {"upto": 6}
    assert (root / "d" / "b").exists()
    host.bye()
