"""Streams from somebody who means harm: nothing outside the root, a clear word, never a traceback.

The fixture `root` compares everything around the root byte by byte after each test.
"""

import os
import struct
from typing import Any

import pytest

from dkdbg.sync.receiver import wire
from tests.agent.sync.host import digest, entry

OUTSIDE = [
    "/etc/evil", "/", "", ".", "..", "../secret", "../root-not/a", "a/../../secret", "a/../b", "a/..", "./a", "a//b",
    "a/", "/a", "a/./b", "../../home/secret", "a\0b", "\0", "../root/a",
]  # fmt: skip
OWN = [".dkdbg-sync", ".dkdbg-sync/ledger", ".dkdbg-sync/tmp/x", ".dkdbg-sync.0123", "a/.dkdbg-sync/b"]
TOO_LONG = ["n" * 300, "d/" + "n" * 300 + "/f", "/".join(["d" * 200] * 30)]
NO_BYTES = ["a\ud800", "\udfff/b"]


def test_no_operation_takes_a_path_that_is_none_below_the_root(host, root):
    host.open(root)
    data = b"evil"
    for path in OUTSIDE + OWN + TOO_LONG + NO_BYTES:
        first = host.number + 1
        host.begin(wire.PUT, entry(path, data), data)
        large = host.begin(wire.BEGIN, entry(path, data))
        host.send(wire.DATA, {"id": large}, data)
        host.send(wire.END, {"id": large})
        host.begin(wire.MKDIR, {"path": path, "mode": 0o777})
        host.begin(wire.LINK, {"path": path, "target": "x", "stamp": ""})
        host.begin(wire.MODE, {"path": path, "mode": 0o777, "stamp": ""})
        host.begin(wire.ADOPT, {**entry(path, data), "kind": "f"})
        host.begin(wire.DELETE, {"path": path})
        host.settle()
        assert [one["id"] for one in host.failed] == list(range(first, first + 7)), path
        assert all(one["reason"] for one in host.failed)
        assert sorted(one.name for one in root.iterdir()) == [".dkdbg-sync"], path
        host.failed.clear()
    host.bye()
    assert (root / ".dkdbg-sync" / "ledger").read_bytes() == b""


def test_nothing_outside_the_root_is_read(live):
    for path in OUTSIDE[2:] + OWN + TOO_LONG + NO_BYTES:
        live.send(wire.STAT, {"paths": [path]})
        assert live.entries(wire.STATS) == [], path
        if path != "":
            live.send(wire.LIST, {"path": path})
        live.send(wire.GET, {"path": path})
        live.send(wire.PING, {"n": 1})
        live.expect(wire.PONG)
        assert [one["id"] for one in live.failed] == [0] * (3 if path else 2), path
        live.failed.clear()


def test_no_symlink_that_may_lead_out_is_made(live, root):
    for path, target in (
        ("l", "/etc/passwd"), ("l", "/"), ("l", ".."), ("l", "../secret"), ("a/l", "../.."), ("a/l", "../../secret"),
        ("a/l", "b/../../.."), ("a/l", "b/../../../x"), ("l", "a/../b"), ("l", ""), ("l", "a//b"), ("l", "a\0b"),
        ("l", "x/.."), ("l", "./../x"), ("l", "n" * 300), ("l", "a/"), ("l", "\ud800"),
    ):  # fmt: skip
        (failed,) = live.do(wire.LINK, {"path": path, "target": target, "stamp": ""})
        assert failed["reason"], target
        assert not os.path.lexists(root / path), target


def test_symlinks_that_stay_inside_are_made_as_they_are(live, root):
    for path, target in (("a/l", "../x"), ("a/b/l", "../../x/y"), ("a/m", "b/c"), ("l", "x"), ("m", ".")):
        assert live.do(wire.LINK, {"path": path, "target": target, "stamp": ""}) == []
        assert os.readlink(root / path) == target  # noqa: PTH115 - the text as it is


def test_nothing_is_written_through_a_symlink_of_the_stream(host, root):
    host.open(root)
    host.do(wire.LINK, {"path": "l", "target": "d", "stamp": ""})
    host.do(wire.MKDIR, {"path": "d", "mode": 0o755})
    host.put("l/f", b"through")
    assert not (root / "d" / "f").exists()
    assert (root / "l").is_dir()
    assert not (root / "l").is_symlink()
    host.bye()


@pytest.mark.parametrize("kind", ["PUT", "BEGIN", "MKDIR", "LINK", "ADOPT", "MODE", "DELETE"])
def test_nothing_is_done_through_a_symlink_that_leads_out(host, root, kind):
    """It is what stands in the way of a folder: it is moved to kept/, and what it leads to is not touched."""
    (root / "out").symlink_to("../root-not")
    host.open(root)
    if kind == "BEGIN":
        host.large("out/a", b"evil")
    elif kind == "PUT":
        assert host.put_all({"out/a": b"evil", "out/b": b"evil"}) == []
        assert [one["path"] for one in host.kept] == ["out"]
    elif kind in ("MKDIR", "LINK"):
        kind_number = wire.MKDIR if kind == "MKDIR" else wire.LINK
        host.do(kind_number, {"path": "out/a", "mode": 0o777, "target": "x", "stamp": ""})
    else:
        data = b"beside"
        host.do(wire.ADOPT, {**entry("out/a", data), "kind": "f"})
        host.do(wire.MODE, {"path": "out/a", "mode": 0o777, "stamp": ""})
        host.do(wire.DELETE, {"path": "out/a"})
        assert len(host.failed) == 2  # DELETE of what is not there is done
    host.bye()
    for kept in (root / ".dkdbg-sync").glob("kept/*/out"):
        assert kept.is_symlink()


def hello(root: object, **more: Any) -> bytes:
    return wire.encode(wire.HELLO, {"version": wire.VERSION, "root": root, **more})


DATA = b"evil"


GOOD = {"id": 1, **entry("a", DATA)}
STREAMS: dict[str, tuple[Any, str]] = {
    "text instead of frames": (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "GET / HTTP"),
    "a kind of the receiver's": (wire.encode(wire.READY, {"root": "/"}), "a host does not send READY"),
    "DATA without BEGIN": (wire.encode(wire.DATA, {"id": 7}, DATA), "DATA for 7, which was not begun"),
    "END without BEGIN": (wire.encode(wire.END, {"id": 7}), "END of 7, which was not begun"),
    "HELLO twice": (hello("/tmp"), "HELLO twice"),
    "deep JSON": (struct.pack("!BII", wire.PUT, 200_000, 0) + b"[" * 200_000, "is not JSON"),
    "path is a number": (wire.encode(wire.PUT, {**GOOD, "path": 1}, DATA), "PUT needs path as str"),
    "path is missing": (wire.encode(wire.DELETE, {"id": 1}), "DELETE needs path as str"),
    "path is a list": (wire.encode(wire.MKDIR, {"id": 1, "path": ["a"], "mode": 0}), "MKDIR needs path as str"),
    "mode is text": (wire.encode(wire.PUT, {**GOOD, "mode": "644"}, DATA), "PUT needs mode as int"),
    "mode is true": (wire.encode(wire.PUT, {**GOOD, "mode": True}, DATA), "PUT needs mode as int"),
    "mode is a float": (wire.encode(wire.PUT, {**GOOD, "mode": 1.5}, DATA), "PUT needs mode as int"),
    "setuid": (wire.encode(wire.PUT, {**GOOD, "mode": 0o4755}, DATA), "mode is 2541, out of range"),
    "negative mode": (wire.encode(wire.MKDIR, {"id": 1, "path": "a", "mode": -1}), "out of range"),
    "negative size": (wire.encode(wire.BEGIN, {**GOOD, "size": -1}), "size is -1, out of range"),
    "size over everything": (wire.encode(wire.BEGIN, {**GOOD, "size": 1 << 62}), "out of range"),
    "time over everything": (wire.encode(wire.PUT, {**GOOD, "mtime_ns": 1 << 63}, DATA), "out of range"),
    "id 0": (wire.encode(wire.PUT, {**GOOD, "id": 0}, DATA), "id is 0, out of range"),
    "id null": (wire.encode(wire.PUT, {**GOOD, "id": None}, DATA), "PUT needs id as int"),
    "ids that do not grow": (wire.encode(wire.DELETE, {"id": 3, "path": "a"}) * 2, "ids must grow"),
    "digest as a path": (wire.encode(wire.BEGIN, {**GOOD, "digest": "../../../etc/x"}), "not a sha256"),
    "digest in capitals": (wire.encode(wire.PUT, {**GOOD, "digest": "A" * 64}, DATA), "not a sha256"),
    "digest of 64 non-ASCII digits": (wire.encode(wire.PUT, {**GOOD, "digest": "\u0661" * 64}, DATA), "not a sha256"),
    "stamp is an object": (wire.encode(wire.PUT, {**GOOD, "stamp": {}}, DATA), "PUT needs stamp as str"),
    "a giant stamp": (wire.encode(wire.PUT, {**GOOD, "stamp": "s" * 9999}, DATA), "a stamp of 9999"),
    "kind of nothing": (wire.encode(wire.ADOPT, {**GOOD, "kind": "c"}), "not f, d or l"),
    "STAT of numbers": (wire.encode(wire.STAT, {"paths": [1, 2]}), "STAT needs paths as text"),
    "STAT of an object": (wire.encode(wire.STAT, {"paths": {}}), "STAT needs paths as list"),
    "a body where none belongs": (wire.encode(wire.DELETE, {"id": 1, "path": "a"}, DATA), "has no body"),
}  # fmt: skip


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_that_breaks_the_protocol_ends_with_one_clear_line(host, root, name):
    data, reason = STREAMS[name]
    host.open(root)
    host.raw(data)
    assert reason in host.error()
    assert sorted(one.name for one in root.iterdir()) in ([], [".dkdbg-sync"])


@pytest.mark.parametrize("size", [1, 8, 9, 20, -1])
def test_a_stream_that_ends_within_a_frame_leaves_nothing_of_it(host, root, size):
    host.open(root)
    host.put("before", b"whole")
    host.raw(wire.encode(wire.PUT, {**GOOD, "id": 2}, DATA)[:size])
    host.process.stdin.close()
    assert host.process.wait(300) == 1
    assert host.process.stderr.read() == b"dkdbg: the stream was cut within a frame\n"
    assert host.frames.get(timeout=300) is None  # no ERROR: a host connects again after a cut
    assert sorted(one.name for one in root.iterdir()) == [".dkdbg-sync", "before"]
    assert list((root / ".dkdbg-sync" / "tmp").iterdir()) == []


def test_nothing_comes_before_hello(start, root):
    head = {**GOOD, "n": 1, "paths": []}
    for kind in (wire.PUT, wire.DATA, wire.END, wire.DELETE, wire.VERIFY, wire.PING, wire.STAT):
        host = start()
        host.send(kind, head, DATA if kind in (wire.PUT, wire.DATA) else b"")
        assert host.error() == f"{wire.NAMES[kind]} before HELLO"
    assert list(root.iterdir()) == []


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        ("/", "whole file system"), ("//", "whole file system"), ("/usr/..", "whole file system"),
        ("/.", "whole file system"), ("", "absolute"), ("tmp", "absolute"), ("./x", "absolute"), ("~", "absolute"),
        ("../x", "absolute"), ("/a\0b", "absolute"), ("/\ud800", "surrogate"), (7, "HELLO needs root as str"),
        (None, "HELLO needs root as str"), (["/tmp"], "HELLO needs root as str"), ("/dev/null", "is not a folder"),
        ("/proc/self/nothing", "does not exist"),
    ],
    ids=ascii,
)  # fmt: skip
def test_a_root_that_is_none_is_refused(host, asked, reason):
    host.raw(hello(asked, create=False))
    assert reason in host.error()


def test_a_hello_that_is_none_is_refused(start, root):
    for more in ({"version": 1}, {"probe": "x"}, {"create": 1}, {"silence_s": -1}, {"write": None}):
        assert start().refused(root, **more), more
    assert list(root.iterdir()) == []


def test_content_that_is_not_what_its_digest_or_size_says_is_not_put_there(live, root):
    live.put("a", b"right")
    assert "digest" in live.do(wire.PUT, entry("a", b"right"), b"wrong")[0]["reason"]
    assert "received 4 of 5 bytes" in live.do(wire.PUT, entry("a", b"right"), b"shor")[0]["reason"]
    assert "received 6 of 5 bytes" in live.do(wire.PUT, entry("a", b"right"), b"longer")[0]["reason"]
    for body, reason in (
        (b"wrong", "digest"),
        (b"sho", "received 3 of 5 bytes"),
        (b"much too long", "more bytes"),
    ):
        assert live.large("a", b"RIGHT", body, b"") == 0
        assert reason in live.failed[-1]["reason"]
        assert live.failed[-1]["path"] == "a"
    assert (root / "a").read_bytes() == b"right"
    assert list((root / ".dkdbg-sync" / "tmp").iterdir()) == []


def test_what_the_ledger_does_not_hold_is_not_deleted(host, root):
    (root / "theirs").write_text("work")
    (root / "folder").mkdir()
    host.open(root)
    assert "not created by sync" in host.do(wire.DELETE, {"path": "theirs"})[0]["reason"]
    assert "not created by sync" in host.do(wire.DELETE, {"path": "folder"})[0]["reason"]
    assert (root / "theirs").read_text() == "work"
    assert (root / "folder").is_dir()
    host.bye()


@pytest.mark.parametrize(
    "name",
    ["", "ledger", "lock", "tmp", "ledger.new", "kept", ".gitignore"],
    ids=lambda name: name or "itself",
)
@pytest.mark.parametrize("what", ["symlink", "hard link", "pipe"])
def test_what_somebody_planted_in_syncs_folder_is_not_followed(host, root, name, what):
    secret = root.parent / "planted"
    secret.mkdir()
    (secret / "file").write_text("sentinel")
    own = root / ".dkdbg-sync"
    if name:
        own.mkdir(0o700)
    if what == "symlink":
        (own / name).symlink_to(secret if name in ("", "tmp", "kept") else secret / "file")
    elif what == "hard link":
        os.link(secret / "file", own / name)
    else:
        os.mkfifo(own / name)
    (root / "a").write_text("theirs")
    host.raw(hello(str(root)))
    host.raw(
        b"".join(wire.encode(wire.PUT, {**GOOD, "id": number}, DATA) for number in (1, 2))
        + wire.encode(wire.BYE)
    )
    code = host.process.wait(300)
    assert host.process.stderr.read() == b""
    if name in ("", "ledger", "lock", "tmp"):
        assert code == 1
    assert [one.name for one in secret.iterdir()] == ["file"]
    assert (secret / "file").read_text() == "sentinel"
    (secret / "file").unlink()
    secret.rmdir()


def test_a_ledger_that_somebody_wrote_leads_nowhere(host, root):
    own = root / ".dkdbg-sync"
    own.mkdir(0o700)
    lines = ["../secret", "/etc/passwd", "a/../../secret", "a\\u0000b", "", ".", "\\ud800"]
    text = "".join(f'["{path}","f",420,10,"{digest(b"x")}","s",1,1,1]\n' for path in lines)
    text += '{"a":1}\n[[["x"]]]\n[1]\n["x","f",true,0,"","",0,0,0]\nnull\n\x00\x00\n["y",1,2,3,4,5]\n'
    (own / "ledger").write_text(text)
    assert host.open(root) == {}
    for path in ("../secret", "/etc/passwd"):
        host.do(wire.DELETE, {"path": path})
    assert len(host.failed) == 2
    host.bye()
