"""The host of sync is answered anything: a hostile container gets an error in one line out of it, nothing more."""

import gc
import tempfile
import threading
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dkdbg.core.target import Executor
from dkdbg.errors import DkdbgError
from dkdbg.sync.pull import destination, pull
from dkdbg.sync.receiver import wire
from dkdbg.sync.remote.contact import Contact, refuse_same_folder
from dkdbg.sync.remote.replica import Replica
from dkdbg.sync.remote.stream import StreamEndedError
from dkdbg.sync.report import Event, as_line
from dkdbg.sync.roots import Roots
from dkdbg.sync.tree.scan import Scanner
from dkdbg.sync.verify import verify
from tests.agent.dap_probe import wait_for
from tests.agent.sync.conftest import snapshot
from tests.agent.sync.host import digest
from tests.attacks.fuzz import fuzz_settings
from tests.attacks.test_fuzz_receiver import BODIES, JSON, before_all, descriptors_open

PATHS = st.sampled_from(
    ["a", "pkg", "pkg/b", "out", "out/x", "out/.git/config", "out/HEAD", "../secret", "/etc/passwd", "out/../../secret", "..", "out//../../secret", "other/x", "l", "l/secret", "\x1b[2J",
     "", "out/\0", "out/\ud800", ".dkdbg-sync/x"]
)  # fmt: skip
ENTRY = st.tuples(
    PATHS, st.sampled_from("fdl"), st.integers(0, 0o777), st.integers(0, 4000), st.sampled_from(["", digest(b"x"), digest(b"")]), st.just("1")
).map(list)  # fmt: skip
ANSWERS = [kind for kind in wire.NAMES if kind >= wire.READY] + [wire.DATA, wire.END]
READY: dict[str, Any] = {
    "version": wire.VERSION, "python": "3.11", "pid": 1, "user": "u", "root": "/ws", "probe": "", "empty": False, "case_sensitive": True, "former": "", "mounts": [],
}  # fmt: skip


@st.composite
def answers(draw: st.DrawFn, kinds: Sequence[int] = ANSWERS) -> bytes:
    """One frame, right but for what is drawn to be wrong."""
    kind = draw(st.sampled_from(kinds))
    body = draw(BODIES) if kind == wire.DATA else b""
    head: dict[str, Any] = {
        **READY, "id": draw(st.integers(0, 5)), "upto": draw(st.integers(0, 5)), "offset": draw(st.integers(0, 9000)), "path": draw(PATHS),
        "where": "w", "reason": draw(PATHS), "hint": "h", "n": 1, "size": draw(st.integers(0, 5000)), "mode": 0o644, "mtime_ns": 1,
        "digest": digest(body), "entries": draw(st.lists(ENTRY, max_size=4)), "end": draw(st.integers(0, 3)) > 0,
    }  # fmt: skip
    for name in (
        draw(st.lists(st.sampled_from(sorted(head)), max_size=2)) if not draw(st.integers(0, 3)) else []
    ):
        head[name] = draw(JSON)
    text = wire._dumps(head).encode("ascii")
    if kind == wire.LISTING:
        text = zlib.compress(text)
    return wire.HEADER.pack(kind, len(text), len(body)) + text + body


@st.composite
def streams(draw: st.DrawFn) -> bytes:
    """What a receiver says from its start on; mostly a good beginning."""
    told = b"" if not draw(st.integers(0, 9)) else wire.encode(wire.READY, READY)
    told += draw(answers([wire.LISTING]))
    middle = draw(
        st.lists(answers() | answers([wire.FILE, wire.DATA, wire.END, wire.LISTING, wire.STATS]), max_size=10)
    )
    return told + b"".join(middle) + draw(st.binary(max_size=20) | st.just(b""))


@dataclass(frozen=True)
class Recorded(Executor):
    """A target that says what lies in a file, whatever it hears."""

    file: str
    label: str = "docker://liar"

    def wrap(self, argv: Sequence[str], *, tty: bool = False) -> tuple[str, ...]:
        del argv, tty
        return ("cat", self.file)


@pytest.mark.attack(0)
@fuzz_settings(20)
@given(stream=streams(), verb=st.sampled_from(["sync", "verify", "pull"]))
def test_whatever_the_target_answers_the_host_says_one_error(stream, verb):
    """Answers anything to sync, --verify and --pull: an error or an end, no traceback; nothing is written but below the
    folder of pulled files, no .git in it, and no process, thread or descriptor stays."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        root = folder / "repository"
        (root / "pkg").mkdir(parents=True)
        (root / "a").write_text("x")
        (root / "pkg" / "b").write_bytes(b"y" * 5000)
        (root / "l").symlink_to("..")
        (folder / "secret").write_text("sentinel")
        (folder / "said").write_bytes(stream)
        pulled = root / "dkdbg-pulled"
        before = snapshot(folder, pulled)
        before_all()
        open_before = descriptors_open()
        events: list[Event] = []
        roots = Roots(local=str(root), remote="/ws", pythons=("python3",))
        executor = Recorded(str(folder / "said"))
        try:
            if verb == "pull":
                pull(
                    roots,
                    executor,
                    ["out"],
                    destination(str(root), None, "liar", roots),
                    report=events.append,
                )
            elif verb == "verify":
                verify(roots, executor)
            else:
                _sync(roots, executor, events)
        except (DkdbgError, StreamEndedError):
            pass
        for event in events:
            assert "\x1b" not in as_line(event)
        now = snapshot(folder, pulled)
        now.pop("repository", None), before.pop("repository", None)  # its time, when dkdbg-pulled is made
        assert now == before
        assert not list(pulled.rglob(".git"))
        assert not [path for path in pulled.rglob("*") if path.is_symlink()]
        wait_for(threading.active_count, lambda count: count < before_all() + 5)
        gc.collect()  # an error holds the frames that it came through
        wait_for(descriptors_open, lambda count: count <= open_before + 1)


def _sync(roots: Roots, executor: Recorded, events: list[Event]) -> None:
    """One connection of `Session.once`, which would try again when the stream ends."""
    contact = Contact(roots.remote, roots.local, pythons=roots.pythons)
    contact.start(executor)
    try:
        scanner = Scanner(roots.local)
        index = scanner.scan()
        stream, ready = contact.ready()
    finally:
        contact.stop()
    try:
        refuse_same_folder(scanner.root, ready)
        replica = Replica(stream, ready, scanner.root, report=events.append)
        replica.learn(index.entries)
        replica.converge(index)
    finally:
        stream.close()
