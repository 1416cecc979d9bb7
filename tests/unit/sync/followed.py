"""A session that follows a local folder, and a replica, with a receiver on another local folder."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from dkdbg.core.target import Executor, Local
from dkdbg.sync.remote.contact import Contact
from dkdbg.sync.remote.replica import Replica
from dkdbg.sync.report import Event
from dkdbg.sync.roots import Roots
from dkdbg.sync.session import Session
from dkdbg.sync.tree.entries import Index
from dkdbg.sync.tree.scan import Scanner

#: Seconds that a busy machine may take.
LIMIT = 300.0


class Followed:
    """A running session.

    Attributes:
        events: what it has said so far.
    """

    def __init__(self, roots: Roots, executor: Callable[[], Executor]) -> None:
        self.events: list[Event] = []
        self.session = Session(roots, executor, report=self.events.append)
        self.problem: BaseException | None = None
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            self.session.follow()
        except BaseException as error:  # noqa: BLE001 - shown by the test
            self.problem = error

    def named(self, name: str) -> list[Event]:
        return [event for event in list(self.events) if event.name == name]

    def until(self, condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + LIMIT
        while not condition():
            said = [event.as_json() for event in self.events[-20:]]
            assert self.problem is None, (repr(self.problem), said)
            assert time.monotonic() < deadline, said
            time.sleep(0.01)


@contextmanager
def following(roots: Roots, executor: Callable[[], Executor] = Local) -> Iterator[Followed]:
    """A session that was in sync once, and is ended afterwards."""
    followed = Followed(roots, executor)
    try:
        followed.until(lambda: followed.named("in_sync"))
        yield followed
    finally:
        followed.session.stop()
        followed.thread.join(LIMIT)
        assert not followed.thread.is_alive()


@contextmanager
def learnt(roots: Roots) -> Iterator[tuple[Replica, Scanner, Index]]:
    """A replica that knows what is there, with the scanner of the local root and its index."""
    contact = Contact(roots.remote, roots.local, pythons=roots.pythons)
    contact.start(Local())
    stream, ready = contact.ready()
    try:
        scanner = Scanner(roots.local)
        index = scanner.scan()
        replica = Replica(stream, ready, scanner.root, report=lambda _: None)
        replica.learn(index.entries)
        yield replica, scanner, index
    finally:
        stream.close()
