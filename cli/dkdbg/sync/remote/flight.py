"""Operations that were sent and not answered yet, and the view of the other side that they add up to. No I/O."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from dkdbg.sync import report
from dkdbg.sync.receiver import wire

if TYPE_CHECKING:
    from dkdbg.sync.plan import There

#: How much may be on its way without an answer.
_OPERATIONS, _BYTES = 4000, 32 << 20


class Sent(NamedTuple):
    """One operation on its way.

    Attributes:
        kind: of its frame (wire.PUT, ...).
        size: bytes of the file that it brings.
        waiting: bytes that travel in its own frame.
        before: what was there. made: what it makes of it; None: gone.
        abandoned: the file changed while it was sent: the answer says nothing.
    """

    kind: int
    path: str
    size: int
    waiting: int
    before: There | None
    made: There | None
    abandoned: bool = False


@dataclass
class Counts:
    """What one convergence did, in paths."""

    sent: int = 0
    deleted: int = 0
    adopted: int = 0
    folders: int = 0
    modes: int = 0
    failed: int = 0
    bytes: int = 0

    @property
    def visible(self) -> bool:
        """Whether anything there is not as it was before."""
        return bool(self.sent or self.deleted or self.folders or self.modes)

    def __str__(self) -> str:
        """Such as `12 sent (1.2 MB), 3 deleted`; empty when nothing was done."""
        parts = [f"{self.sent:,} sent ({report.size(self.bytes)})"] if self.sent else []
        named = (
            (self.deleted, "deleted"), (self.folders, "folders made"), (self.modes, "modes changed"),
            (self.adopted, "found equal"), (self.failed, "failed"),
        )  # fmt: skip
        return ", ".join([*parts, *(f"{count:,} {what}" for count, what in named if count)])

    def add(self, done: Sent) -> None:
        """Count one operation that arrived."""
        if done.kind in {wire.PUT, wire.BEGIN, wire.LINK}:
            self.sent += 1
            self.bytes += done.size
        elif done.kind == wire.DELETE:
            self.deleted += 1
        elif done.kind == wire.MKDIR:
            self.folders += 1
        elif done.kind == wire.MODE:
            self.modes += 1
        else:
            self.adopted += 1


class Flight:
    """What is on its way, oldest first.

    Args:
        view: remote entries by path; changed in place when something is sent, taken back when it failed.
    """

    def __init__(self, view: dict[str, There]) -> None:
        self._view = view
        self._sent: dict[int, Sent] = {}
        self._waiting = 0

    def __contains__(self, number: int) -> bool:
        return number in self._sent

    def __bool__(self) -> bool:
        return bool(self._sent)

    @property
    def full(self) -> bool:
        """Whether answers should be waited for before more is sent."""
        return len(self._sent) > _OPERATIONS or self._waiting > _BYTES

    @property
    def low(self) -> bool:
        """Whether there is room again."""
        return len(self._sent) <= _OPERATIONS // 2 and self._waiting <= _BYTES // 2

    def send(self, number: int, kind: int, path: str, made: There | None, waiting: int) -> None:
        """Operation `number` was sent: `path` is `made` from now on, None when it is gone."""
        before = self._view.get(path)
        if made is None:
            self._view.pop(path, None)
        else:
            self._view[path] = made
        size = made.size if made and kind in {wire.PUT, wire.BEGIN} else 0
        self._sent[number] = Sent(kind, path, size, waiting, before, made)
        self._waiting += waiting

    def abandon(self, number: int) -> None:
        """What is sent under `number` is not the file any more."""
        if number in self._sent:
            self._sent[number] = self._sent[number]._replace(abandoned=True)

    def done(self, upto: int) -> list[Sent]:
        """Everything up to `upto` has been done or has been reported; what that is."""
        found = []
        while self._sent:
            number = next(iter(self._sent))
            if number > upto:
                break
            sent = self._sent.pop(number)
            self._waiting -= sent.waiting
            found.append(sent)
        return found

    def failed(self, number: int) -> Sent | None:
        """Operation `number` was not done; None when nobody waits for it.

        Unless something was sent for the path since, the view says that what was there is there, with unknown content:
        the next attempt then sends the file, whatever was believed before.
        """
        sent = self._sent.pop(number, None)
        if sent is None:
            return None
        self._waiting -= sent.waiting
        if self._view.get(sent.path) is not sent.made:
            return sent
        if sent.before is None:
            self._view.pop(sent.path, None)
        elif sent.before.kind == "f" and sent.kind != wire.DELETE:
            self._view[sent.path] = sent.before._replace(size=-1, digest="", stamp="")
        else:
            self._view[sent.path] = sent.before
        return sent
