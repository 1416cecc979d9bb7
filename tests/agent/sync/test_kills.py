"""kill -9 of the receiver at any moment: no half file, a ledger that tells the truth, a restart that converges."""

import contextlib
import itertools
import os
import random
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from dkdbg.sync.receiver import wire
from tests.agent.dap_probe import wait_for
from tests.agent.sync.host import Host, digest, entry, packed

FILES = 2000
ROUNDS = int(os.environ.get("DKDBG_TEST_KILLS", "8"))


def content(name: str, version: int) -> bytes:
    """Content that says itself whether it is whole."""
    body = (f"{name} {version} " * 80).encode()[: 500 + version % 7 * 300]
    return digest(body).encode() + body


def is_whole(data: bytes) -> bool:
    return digest(data[64:]).encode() == data[:64]


def real_files(root: Path) -> dict[str, str]:
    found = {}
    for above, folders, files in os.walk(root):
        folders[:] = [name for name in folders if name != ".dkdbg-sync"]
        for path in (Path(above, name) for name in files):
            found[str(path.relative_to(root))] = digest(path.read_bytes())
        for path in (Path(above, name) for name in folders):
            found[str(path.relative_to(root))] = ""
    return found


class Reader:
    """Reads every file below the root, over and over, and notes each that is not whole."""

    def __init__(self, root: Path) -> None:
        self.root, self.half, self.reads = root, list[str](), 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._loop)
        self._thread.start()

    def _loop(self) -> None:
        while not self._stop.is_set():
            for folder in list(self.root.glob("d*")):
                with contextlib.suppress(OSError):
                    for name in os.listdir(folder):  # noqa: PTH208 - names only, quickly
                        with contextlib.suppress(FileNotFoundError):
                            self._look(folder / name)
            time.sleep(0.001)

    def _look(self, path: Path) -> None:
        self.reads += 1
        if not is_whole(path.read_bytes()):
            self.half.append(str(path))

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()


@pytest.fixture
def reader(root):
    one = Reader(root)
    yield one
    one.stop()


def send_all(host: Host, wanted: dict[str, bytes], there: dict[str, Any], order: random.Random) -> None:
    """Send what differs, in one go, as a thread that a kill interrupts."""
    frames = []
    for path in sorted(there):
        if path not in wanted and there[path][1] == "f":
            host.number += 1
            frames.append(wire.encode(wire.DELETE, {"id": host.number, "path": path}))
    paths = list(wanted)
    order.shuffle(paths)
    for folder in sorted({path.partition("/")[0] for path in paths}) if order.random() < 0.7 else ():
        files = {
            path.partition("/")[2]: wanted[path]
            for path in paths
            if path.startswith(folder + "/")
            and not (path in there and there[path][4] == digest(wanted[path]))
        }
        if files:
            frames.append(wire.encode(wire.PACK, *packed(host.number + 1, folder, files)))
            host.number += len(files)
            paths = [path for path in paths if path.partition("/")[2] not in files]
    for path in paths:
        data = wanted[path]
        if path in there and there[path][4] == digest(data):
            continue
        host.number += 1
        if order.random() < 0.02:
            frames.append(wire.encode(wire.BEGIN, {"id": host.number, **entry(path, data)}))
            frames += [
                wire.encode(wire.DATA, {"id": host.number}, piece) for piece in (data[:400], data[400:])
            ]
            frames.append(wire.encode(wire.END, {"id": host.number}))
        else:
            frames.append(wire.encode(wire.PUT, {"id": host.number, **entry(path, data)}, data))
    threading.Thread(target=host.raw, args=(b"".join(frames),), daemon=True).start()


def check_truth(root: Path, listing: dict[str, Any]) -> None:
    """The ledger holds exactly what is there: all of it is sync's in these tests."""
    assert {path: one[4] for path, one in listing.items()} == real_files(root)


def test_kills_in_the_middle_of_2000_files(start, root, reader):
    seed = int(os.environ.get("DKDBG_TEST_SEED", time.time_ns() % 10**6))
    order = random.Random(seed)
    names = [f"d{index % 20}/f{index}.py" for index in range(FILES)]
    interrupted = 0
    for version in itertools.count():
        if version >= ROUNDS and interrupted > ROUNDS // 3:
            break
        assert version < 20 * ROUNDS, "the kills come too late to show anything"
        wanted = {name: content(name, version) for name in names if order.random() < 0.9}
        host = start()
        there = host.open(root)
        check_truth(root, there)
        send_all(host, wanted, there, order)
        time.sleep(order.random() * 0.25)
        interrupted += not _is_done(host)
        host.process.kill()
        host.process.wait()
    host = start()
    there = host.open(root)
    check_truth(root, there)
    assert list((root / ".dkdbg-sync" / "tmp").glob("t*")) == []
    send_all(host, wanted, there, order)
    while host.next()[1].get("upto") != host.number:
        pass
    real = {path: one for path, one in real_files(root).items() if one}
    assert real == {path: digest(data) for path, data in wanted.items()}, f"seed {seed}"
    host.bye()
    wait_for(lambda: reader.reads, lambda count: count > 1000)
    assert reader.half == [], f"seed {seed}"


def _is_done(host: Host) -> bool:
    last = 0
    while not host.frames.empty():
        frame = host.frames.get()
        last = frame[1].get("upto", last) if frame else last
    return last == host.number


def test_a_rename_that_was_not_confirmed_is_known_by_its_content(start, root):
    """The state between rename and confirmation, made by hand: the intent is all that the log says."""
    host = start(at=root)
    host.put("a", b"old")
    host.put("b", b"old")
    host.bye()
    (root / "a").write_bytes(b"new")
    (root / "c").write_bytes(b"new")
    (root / "e").write_bytes(b"somebody's")
    with (root / ".dkdbg-sync" / "ledger").open("a") as log:
        for path in "abcde":
            log.write(f'["{path}","f",420,3,"{digest(b"new")}","stamp"]\n')
        log.write('["f","f",420,3,"' + digest(b"new")[:20])
    host = start()
    listing = host.open(root)
    assert {path: (one[4], one[5]) for path, one in listing.items()} == {
        "a": (digest(b"new"), "stamp"),  # the rename happened
        "b": (digest(b"old"), "s"),  # it did not
        "c": (digest(b"new"), "stamp"),  # it happened, to a new file
    }  # d is not there; e is not sync's
    assert "not put there by sync" in host.do(wire.DELETE, {"path": "e"})[0]["reason"]
    host.put("g", b"after a torn line")
    host.bye()
    assert set(start().open(root)) == {"a", "b", "c", "g"}


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
    host.pack("d", {name: b"other" if name == "b" else b"content" for name in (*expected, "remove")})
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
