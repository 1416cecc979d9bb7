"""Operations that were sent but not answered yet, and the remote entries as they will be after these. No I/O."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from dkdbg.sync import report
from dkdbg.sync.receiver import wire

if TYPE_CHECKING:
    from dkdbg.sync.plan import RemoteEntry

#: Maximum operations, and bytes, without an answer.
_MAX_OPERATIONS, _MAX_BYTES = 4000, 32 << 20


class Sent(NamedTuple):
    """One operation without an answer.

    Attributes:
        kind: kind of the operation's frame (wire.PUT, ...).
        size: bytes of its file.
        waiting: bytes in the body of its frame.
        before, made: the entry before and after the operation; None for no entry.
        abandoned: whether the file changed while it was sent, so that the answer is ignored.
    """

    kind: int
    path: str
    size: int
    waiting: int
    before: RemoteEntry | None
    made: RemoteEntry | None
    abandoned: bool = False


@dataclass
class Counts:
    """Number of paths that one `converge` or `perform` has changed, by kind of change."""

    sent: int = 0
    deleted: int = 0
    adopted: int = 0
    folders: int = 0
    modes: int = 0
    failed: int = 0
    bytes: int = 0

    @property
    def visible(self) -> bool:
        """Return whether anything on the target has changed."""
        return bool(self.sent or self.deleted or self.folders or self.modes)

    def __str__(self) -> str:
        """Return text such as `12 sent (1.2 MB), 3 deleted`; empty when nothing was done."""
        parts = [f"{self.sent:,} sent ({report.size(self.bytes)})"] if self.sent else []
        named = (
            (self.deleted, "deleted"), (self.folders, "folders made"), (self.modes, "modes changed"),
            (self.adopted, "found equal"), (self.failed, "failed"),
        )  # fmt: skip
        return ", ".join([*parts, *(f"{count:,} {what}" for count, what in named if count)])

    def add(self, done: Sent) -> None:
        """Count one completed operation."""
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
    """Operations without an answer, oldest first.

    Args:
        view: remote entries by path; changed in place when something is sent, reverted when it failed.
    """

    def __init__(self, view: dict[str, RemoteEntry]) -> None:
        self._view = view
        self._sent: dict[int, Sent] = {}
        self._waiting = 0

    def __contains__(self, number: int) -> bool:
        return number in self._sent

    def __bool__(self) -> bool:
        return bool(self._sent)

    @property
    def full(self) -> bool:
        """Return whether to stop sending, until `low`."""
        return len(self._sent) > _MAX_OPERATIONS or self._waiting > _MAX_BYTES

    @property
    def low(self) -> bool:
        """Return whether sending may continue."""
        return len(self._sent) <= _MAX_OPERATIONS // 2 and self._waiting <= _MAX_BYTES // 2

    def send(self, number: int, kind: int, path: str, made: RemoteEntry | None, waiting: int) -> None:
        """Record that operation `number` was sent, and set `path` in the view to `made` (None removes it)."""
        before = self._view.get(path)
        if made is None:
            self._view.pop(path, None)
        else:
            self._view[path] = made
        size = made.size if made and kind in {wire.PUT, wire.BEGIN} else 0
        self._sent[number] = Sent(kind, path, size, waiting, before, made)
        self._waiting += waiting

    def abandon(self, number: int) -> None:
        """Mark the content sent under `number` as outdated."""
        if number in self._sent:
            self._sent[number] = self._sent[number]._replace(abandoned=True)

    def done(self, upto: int) -> list[Sent]:
        """Remove and return the operations up to `upto`, which are done."""
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
        """Remove and return operation `number`, which failed; None if it is not pending.

        Restore the previous entry in the view, unless a later operation for the path was sent. Its content counts as
        unknown, so that the next attempt sends the file.
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
