"""The receiver of sync is told anything: whoever writes into its stream gets nothing outside of the root, and ends it at most."""

import contextlib
import functools
import os
import tempfile
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dkdbg.sync.receiver import receiver, wire
from tests.agent.dap_probe import wait_for
from tests.agent.sync.conftest import snapshot
from tests.agent.sync.host import digest
from tests.attacks.fuzz import fuzz_settings

NAMES = st.sampled_from(
    ["a", "b", "d", "d/a", "d/e/f", "l", "..", "../secret", "/etc/passwd", "d/../../secret", "l/secret", ".dkdbg-sync", "a\0", "", "\ud800"]
)  # fmt: skip
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=8) | NAMES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=8,
)
BODIES = st.sampled_from([b"", b"x", b"evil", b"\0" * 3000])


@st.composite
def frames(draw: st.DrawFn) -> bytes:
    """One frame, right but for what is drawn to be wrong."""
    kind = draw(st.sampled_from(sorted(wire.NAMES)) | st.integers(0, 255))
    body = draw(BODIES)
    head: dict[str, Any] = {
        "id": draw(st.integers(1, 6)), "path": draw(NAMES), "mode": draw(st.integers(0, 0o777)), "size": len(body),
        "mtime_ns": 1, "digest": digest(body), "stamp": "s", "kind": draw(st.sampled_from("fdl")), "n": 1,
        "target": draw(NAMES), "paths": [draw(NAMES)],
    }  # fmt: skip
    for name in draw(st.lists(st.sampled_from(sorted(head)), max_size=2)):
        head[name] = draw(JSON)
    if kind not in (wire.PUT, wire.DATA) and draw(st.integers(0, 9)):
        body = b""
    text = wire._dumps(head).encode("ascii")
    return wire.HEADER.pack(kind, len(text), len(body)) + text + body


STREAMS = st.lists(frames() | st.binary(max_size=40), max_size=12)


def serve(stream: bytes) -> int:
    """The exit code of a receiver that gets `stream`; what it answers is read and thrown away."""
    source, feed = os.pipe()
    out, target = os.pipe()

    def write():
        with os.fdopen(feed, "wb") as file:
            try:
                file.write(stream)
            except OSError:
                file.detach()

    writer = threading.Thread(target=write)
    reader = threading.Thread(target=lambda: [None for _ in iter(lambda: os.read(out, 1 << 16), b"")])
    writer.start()
    reader.start()
    try:
        return receiver.serve(source, target)
    finally:
        os.close(source)
        os.close(target)
        writer.join()
        reader.join()
        os.close(out)


@functools.cache
def before_all() -> int:
    """Threads of this process at the first call: those of tests that ran in it before are no leak of ours."""
    return threading.active_count()


def descriptors_open() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def close_below(folder: str) -> int:
    """Close this process's descriptors of what is below `folder`; how many there were."""
    found = []
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):  # the one that lists
            if descriptor.readlink().is_relative_to(folder):
                found.append(int(descriptor.name))
    for number in found:
        os.close(number)
    return len(found)


def world(folder: Path) -> Path:
    """A root with a symlink that leads out of it, in a folder with a secret."""
    root = folder / "root"
    root.mkdir()
    (folder / "secret").write_text("sentinel")
    (folder / "beside").mkdir()
    (root / "l").symlink_to("..")
    (root / "mine").write_text("mine")
    return root


@pytest.mark.attack(0)
@fuzz_settings(40)
@given(stream=STREAMS, first=st.none() | st.binary(max_size=200))
def test_whatever_the_receiver_hears_stays_in_the_root(stream, first):
    """Says anything to the receiver, in the place of HELLO too: nothing outside of the root changes, nothing stays open, and it
    ends with 0 or 1."""
    with tempfile.TemporaryDirectory() as name:
        root = world(Path(name))
        before_all()
        before = snapshot(Path(name), root)
        descriptors = descriptors_open()
        hello = wire.encode(
            wire.HELLO, {"version": wire.VERSION, "root": str(root), "create": True, "write": True}
        )
        assert serve((hello if first is None else first) + b"".join(stream)) in {0, 1}
        assert snapshot(Path(name), root) == before
        assert (root / "mine").read_text() == "mine"
        assert close_below(name) <= LEFT
        wait_for(descriptors_open, lambda count: count <= descriptors)
        wait_for(threading.active_count, lambda count: count < before_all() + 4)


#: Descriptors that a receiver leaves to the end of its process: its root, its folder, tmp, lock and ledger. These tests
#: are one process for hundreds of receivers: they close them.
LEFT = 5
