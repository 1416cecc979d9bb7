"""kill -9 of the receiver at any moment: no half file, a ledger that tells the truth, a restart that converges."""

import contextlib
import itertools
import os
import shutil
import signal
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dkdbg.sync.receiver import wire
from dkdbg.sync.receiver.ledger import Ledger
from dkdbg.sync.receiver.listing import settle_intents, survey
from dkdbg.sync.receiver.operations import Operations
from dkdbg.sync.receiver.problems import Refused
from dkdbg.sync.receiver.state import State
from tests.agent.sync.host import digest, entry, operations

#: What the operations do with files and folders, one call after the other.
CALLS = ["open", "write", "rename", "mkdir", "link", "unlink", "utime", "fchmod", "fchown", "close"]


def end() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def reaches(
    call: int, root: Path, carry_out: Callable[[Operations], None], then: Callable[[], None] = end
) -> bool:
    """Whether a process that carries operations out comes to a call; `then` is what happens right before that call."""
    child = os.fork()
    if not child:
        left, code = call, 2
        try:
            work, _, book = operations(root)

            def counted(real):
                def perform(*arguments, **more):
                    nonlocal left
                    left -= 1
                    if not left:
                        then()
                    return real(*arguments, **more)

                return perform

            for name in CALLS:
                setattr(os, name, counted(getattr(os, name)))
            carry_out(work)
            book.flush()
            code = int(left <= 0)
        finally:
            if code == 2:
                traceback.print_exc()
            os._exit(code)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in {0, 1, -signal.SIGKILL}
    return status != 0


FIRST = {"a": b"1", "b": b"1", "edited": b"1", "same": b"1"}
AGAIN = {"a": b"22", "new": b"22", "edited": b"22", "b": b"22", "theirs": b"22", "same": b"1"}


def killed_at_each_call(
    root: Path, carry_out: Callable[[Operations], None], before: Callable[[], None]
) -> Iterator[dict[str, str]]:
    """Carry operations out again and again, killed before each single call of CALLS, and last not at all: each time what is
    listed then, by path with its digest. `before` makes what is there at first."""
    for call in itertools.count(1):
        for each in root.iterdir():
            shutil.rmtree(each)
        before()
        killed = reaches(call, root, carry_out)
        _, state, book = operations(root)
        settle_intents(state.tree, book, clean=True)
        yield {one[0]: one[4] for one in survey(state.tree, book)}
        left = [each.name for each in (root / ".dkdbg-sync/tmp").iterdir()]
        assert [
            name for name in left if not name.startswith("part-")
        ] == []  # of a large file, to be continued
        let_go(state, book)
        if not killed:
            assert call > 15
            return


def let_go(state: State, book: Ledger) -> None:
    """Close what `operations` has opened: a process of tests makes many."""
    for descriptor in (state.folder, state.temporary, state._lock, state.tree.root, book._log):
        os.close(descriptor)


def fill(root: Path) -> None:
    """A folder of sync's, in which somebody has worked."""
    work, state, book = operations(root)
    for name, data in FIRST.items():
        work.put(entry(f"d/e/{name}", data), data)
    book.flush()
    (root / "d/e/edited").write_bytes(b"work")
    (root / "d/e/theirs").write_bytes(b"work too")
    let_go(state, book)


def put_whole(work: Operations) -> None:
    for name, data in AGAIN.items():
        with contextlib.suppress(OSError, Refused):
            work.put(entry(f"d/e/{name}", data), data)


def put_in_pieces(work: Operations) -> None:
    for number, (name, data) in enumerate(AGAIN.items(), 1):
        with contextlib.suppress(OSError, Refused):
            work.begin({"id": number, **entry(f"d/e/{name}", data)})
            for at in range(len(data)):
                work.transfers.data(number, data[at : at + 1])
            work.end(number)


def delete(work: Operations) -> None:
    for name in FIRST:
        with contextlib.suppress(OSError, Refused):
            work.delete({"path": f"d/e/{name}"})


def change_mode(work: Operations) -> None:
    for name in FIRST:
        with contextlib.suppress(OSError, Refused):
            work.mode({"path": f"d/e/{name}", "mode": 0o700, "stamp": ""})


@pytest.mark.parametrize(
    ("carry_out", "wanted"),
    [
        (put_whole, AGAIN), (put_in_pieces, AGAIN), (delete, {"theirs": b"work too"}),
    ],
    ids=["whole", "in pieces", "deleted"],
)  # fmt: skip
def test_the_ledger_is_true_whenever_the_receiver_is_killed(root, carry_out, wanted):
    """Before each single call: what is there is whole, and is in the ledger when sync put it there."""
    there = {}
    for listed in killed_at_each_call(root, carry_out, lambda: fill(root)):
        there = {path.name: path.read_bytes() for path in (root / "d/e").iterdir()}
        for name, data in there.items():
            assert data in {FIRST.get(name), AGAIN[name], b"work", b"work too"}
            if data in {FIRST.get(name), AGAIN[name]} or name == "edited":
                assert listed[f"d/e/{name}"] == digest(data), name
            assert data != b"work too" or f"d/e/{name}" not in listed
        assert {"d", "d/e", *(f"d/e/{name}" for name in there if name != "theirs")} <= set(listed)
        assert set(listed) <= {"d", "d/e", *(f"d/e/{name}" for name in there)}
        kept = [path.read_bytes() for path in (root / ".dkdbg-sync/kept").rglob("*") if path.is_file()]
        assert {b"work", b"work too"} <= {*kept, *there.values()}
    assert there == wanted


@pytest.mark.parametrize("carry_out", [put_whole, put_in_pieces, delete, change_mode])
def test_a_folder_that_is_replaced_by_a_link_leads_nowhere_before_whichever_call_it_is(root, carry_out):
    """Nothing outside the root changes, which its fixture compares, and nobody's work is lost."""

    def swap():
        (root / "d/e").rename(root / "moved")
        (root / "d/e").symlink_to(root.parent / "root-not")

    for call in itertools.count(1):
        for each in root.iterdir():
            shutil.rmtree(each)
        fill(root)
        if not reaches(call, root, carry_out, swap):
            assert call > 15
            return
        assert {b"work", b"work too"} <= {path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_the_ledger_is_true_whenever_a_new_folder_with_its_files_is_killed(root):
    """Before each single call: what is there is whole, has its mode, and is in the ledger with all the folders above it."""
    there = {}

    def put(work):
        work.mkdir({"path": "d", "mode": 0o750})
        for name, data in AGAIN.items():
            work.put(entry(f"d/{name}", data, mode=0o751), data)

    for listed in killed_at_each_call(root, put, lambda: let_go(*operations(root)[1:])):
        there = {path.name: path.read_bytes() for path in root.glob("d/*")}
        assert there.items() <= AGAIN.items()
        assert {path.stat().st_mode & 0o7777 for path in root.glob("d/*")} <= {0o751}
        folder = {"d": ""} if (root / "d").exists() else {}
        assert listed == {**folder, **{f"d/{name}": digest(data) for name, data in there.items()}}
    assert there == AGAIN
    assert (root / "d").stat().st_mode & 0o7777 == 0o750


def test_a_line_of_the_ledger_that_was_torn_is_the_end_of_it(start, root):
    host = start(at=root)
    host.put("a", b"old")
    host.bye()
    (root / "b").write_bytes(b"new")
    with (root / ".dkdbg-sync" / "ledger").open("a") as log:
        log.write('["b","f",420,3,"' + digest(b"new")[:20])
    host = start()
    assert set(host.open(root)) == {"a"}
    assert "not created by sync" in host.do(wire.DELETE, {"path": "b"})[0]["reason"]
    host.put("c", b"after a torn line")
    host.bye()
    assert set(start().open(root)) == {"a", "c"}


def test_who_only_looks_removes_nothing_that_a_rename_has_left(start, root):
    """It may be no leftover: another receiver may be about to rename it."""
    host = start(at=root)
    host.put("a", b"old")
    host.bye()
    stray = root / ".dkdbg-sync.0123456789abcdef"
    stray.write_bytes(b"new")
    with (root / ".dkdbg-sync" / "ledger").open("a") as log:
        log.write(f'["a","f",420,3,"{digest(b"new")}","stamp"]\n')
    host = start()
    assert list(host.open(root, write=False)) == ["a"]
    host.bye()
    assert stray.read_bytes() == b"new"
    start().open(root)
    assert not stray.exists()


def test_what_happens_while_the_receiver_is_away_is_noticed(start, root):
    expected = {
        "edit": ["f", 0o644, digest(b"CONTENT"), ""],
        "touch": ["f", 0o644, digest(b"content"), "s"],
        "chmod": ["f", 0o755, digest(b"content"), "s"],
        "replace": ["f", 0o644, digest(b"content"), "s"],
        "folder": ["d", 0o755, "", ""],
        "symlink": ["l", 0o777, digest(b"b"), ""],
        "b": ["f", 0o644, digest(b"other"), "s"],
    }
    host = start(at=root)
    host.put_all({f"d/{name}": b"other" if name == "b" else b"content" for name in (*expected, "remove")})
    host.bye()
    at = root / "d"
    info = (at / "edit").stat()
    (at / "edit").write_bytes(b"CONTENT")  # of the same size, and with its old time
    os.utime(at / "edit", ns=(info.st_atime_ns, info.st_mtime_ns))
    (at / "touch").touch()
    (at / "chmod").chmod(0o755)
    (root / "new").write_bytes(b"content")
    (root / "new").rename(at / "replace")
    for name in ("remove", "folder", "symlink"):
        (at / name).unlink()
    (at / "folder").mkdir()
    (at / "symlink").symlink_to("b")
    listing = start().open(root)
    del listing["d"]
    found = {
        path.removeprefix("d/"): [kind, mode, known, stamp]
        for path, kind, mode, _, known, stamp in listing.values()
    }
    assert found == expected


def test_a_large_file_is_continued_after_a_kill(start, root):
    data = os.urandom(3 << 20)
    host = start(at=root)
    number = host.begin(wire.BEGIN, entry("big", data))
    host.expect(wire.RESUME)
    host.send(wire.DATA, {"id": number}, data[: 1 << 20])
    host.send(wire.PING, {"n": 1})
    host.expect(wire.PONG)
    host.process.kill()
    host.process.wait()
    assert not (root / "big").exists()
    host = start()
    assert host.open(root) == {}
    assert host.large("big", data) == 1 << 20
    assert (root / "big").read_bytes() == data
    assert list((root / ".dkdbg-sync" / "tmp").iterdir()) == []
    host.bye()


def test_pieces_of_a_large_file_that_went_bad_are_noticed(start, root):
    data = os.urandom(2 << 20)
    host = start(at=root)
    host.put("other", b"1")
    host.bye()
    part = root / ".dkdbg-sync" / "tmp" / f"part-{digest(data)}"
    part.write_bytes(b"x" * (1 << 20))
    host = start(at=root)
    for offset in (1 << 20, 0):
        assert host.large("big", data) == offset
        assert (root / "big").exists() == (offset == 0)
    assert len(host.failed) == 1
    host.bye()
