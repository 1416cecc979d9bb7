"""Random operations and random work of others on the same tree: nobody's work is lost, and the ledger is true."""

import contextlib
import itertools
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from dkdbg.sync.receiver import content, listing, tree
from dkdbg.sync.receiver.ledger import Ledger
from dkdbg.sync.receiver.operations import Operations
from dkdbg.sync.receiver.problems import Refused
from dkdbg.sync.receiver.state import State
from tests.agent.sync.host import digest, entry

PATHS = st.sampled_from(["a", "b", "a/a", "a/b", "b/a", "a/a/a", "a/a/b"])
OURS = st.tuples(
    st.sampled_from(["put", "mkdir", "link", "delete", "mode", "adopt"]), PATHS, st.integers(0, 2)
)
THEIRS = st.tuples(
    st.sampled_from(["write", "remove", "make folder", "make link", "touch", "move"]),
    PATHS,
    st.integers(0, 2),
)
AGAIN = st.tuples(st.just("restart"), PATHS, st.integers(0, 0))


class Both:
    """A receiver's operations, without the stream, and somebody who works in the same root."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.tree = tree.Tree(os.open(root, os.O_RDONLY))
        self.unique = itertools.count()
        self.work: set[bytes] = set()  # what somebody wrote and did not remove
        self.kept: list[str] = []
        self.open()

    def open(self) -> None:
        self.state = State(self.tree, str(self.root), write=True)
        self.ledger = Ledger(self.state.folder)
        listing.settle_intents(self.tree, self.ledger, clean=True)
        self.found = {one[0]: one for one in listing.survey(self.tree, self.ledger)}
        self.operations = Operations(self.state, self.ledger, lambda _path, where: self.kept.append(where))

    def close(self) -> None:
        self.ledger.flush()
        for descriptor in (self.state.folder, self.state.temporary, self.state._lock, self.ledger._log):
            os.close(descriptor)

    def ours(self, what: str, path: str, number: int) -> None:
        """One operation; when it is not refused, its result stands there."""
        data = b"ours %d" % number
        at = self.root / path
        head: dict[str, Any] = {**entry(path, data, mode=0o600 + number), "kind": "f", "target": f"t{number}"}
        try:
            if what == "put":
                self.operations.put(head, data)
                assert (at.read_bytes(), at.stat().st_mode & 0o777) == (data, 0o600 + number)
                assert not at.is_symlink()
            elif what == "link":
                self.operations.link(head)
                assert at.readlink() == Path(f"t{number}")
            elif what == "delete":
                left = self.operations.delete(head)
                is_behind_link = any(each.is_symlink() for each in at.parents if self.root in each.parents)
                assert left is not None or is_behind_link or not os.path.lexists(at)
                assert path not in self.ledger.held
            else:
                getattr(self.operations, what)(head)
                if what == "mkdir":
                    assert at.is_dir()
                    assert not at.is_symlink()
        except (Refused, OSError):
            if what in {"put", "mkdir", "link"}:
                raise

    def theirs(self, what: str, path: str, number: int) -> None:
        """Somebody's work; what fails for them does not matter."""
        at = self.root / path
        with contextlib.suppress(OSError):
            if what == "write":
                self._gone(at)
                at.write_bytes(b"theirs %d" % next(self.unique))
                self.work.add(at.read_bytes())
            elif what == "remove":
                self._gone(at)
                at.unlink() if at.is_symlink() or at.is_file() else shutil.rmtree(at)
            elif what == "make folder":
                at.mkdir()
            elif what == "make link":
                at.symlink_to(["a", "b", "nowhere"][number])
            elif what == "touch":
                os.utime(at, follow_symlinks=False)
            else:
                target = self.root / ["a", "b", "c"][number]
                self._gone(target)
                at.rename(target)

    def _gone(self, at: Path) -> None:
        for path in [at, *at.rglob("*")]:
            if path.is_file():
                self.work.discard(path.read_bytes())

    def check(self) -> None:
        """The log, read anew, holds what is there, and everybody's work is somewhere."""
        for path, one in self.found.items():
            at = self.root / path
            assert {"f": at.is_file(), "d": at.is_dir(), "l": at.is_symlink()}[one[1]]
            if one[1] == "f":
                assert one[4] == digest(at.read_bytes())
        there = set()
        for path in self.root.rglob("*"):
            if path.is_file() and not path.is_symlink():
                there.add(path.read_bytes())
        assert self.work <= there
        for where in self.kept:
            assert os.path.lexists(self.root / where) or not where.startswith(".dkdbg-sync/")
        assert list((self.root / ".dkdbg-sync" / "tmp").iterdir()) == []


@settings(deadline=None, max_examples=int(os.environ.get("DKDBG_TEST_SEQUENCES", "60")))
@example([("make link", "a", 1), ("put", "b/a", 0), ("delete", "a/a", 0)])  # the link leads to it
@given(st.lists(OURS | THEIRS | AGAIN, min_size=12, max_size=30))
def test_no_work_is_lost_and_the_ledger_is_true_after_any_sequence(steps):
    folder = Path(tempfile.mkdtemp(prefix="dkdbg-sync-test-"))
    both = Both(folder)
    try:
        for what, path, number in steps:
            if what == "restart":
                both.close()
                both.open()
                both.check()
            elif what in {"write", "remove", "make folder", "make link", "touch", "move"}:
                both.theirs(what, path, number)
            else:
                both.ours(what, path, number)
        before = dict(both.ledger.held)
        both.close()
        both.open()
        both.check()
        assert {path: one[:6] for path, one in both.ledger.held.items()} == {
            path: one[:6] for path, one in before.items() if path in both.found
        }
        both.close()
    finally:
        os.close(both.tree.root)
        shutil.rmtree(folder)


def test_the_digest_of_nothing_readable_is_empty(root):
    folder = os.open(root, os.O_RDONLY)
    os.mkfifo(root / "pipe")
    assert content.digest_at(folder, b"pipe", "f") == content.digest_at(folder, b"none", "f") == ""
    os.close(folder)
