"""Carries out a plan through one stream: reads and sends files, and tracks their arrival."""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, Any

from dkdbg.sync.beneath import Beneath
from dkdbg.sync.plan import LARGE_BYTES, RemoteEntry, link_digest
from dkdbg.sync.receiver import wire
from dkdbg.sync.remote.flight import Counts, Flight
from dkdbg.sync.remote.stream import SILENCE_S, no_answer, refused
from dkdbg.sync.report import event
from dkdbg.sync.tree import reading
from dkdbg.sync.tree.reading import FileChangedError
from dkdbg.sync.tree.scan import stamp

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from dkdbg.sync.plan import Step
    from dkdbg.sync.receiver.wire import Frame
    from dkdbg.sync.remote.stream import Stream
    from dkdbg.sync.report import Event
    from dkdbg.sync.tree.reading import Content

#: A large file counts as a log if it has grown more often than this in a row, each time within so many seconds.
_MAX_GROWN, _GROWN_WITHIN_S = 3, 30.0


class Sender:
    """Sends operations, and keeps `view`, the remote entries, up to date.

    Args:
        stream: a stream on which READY has arrived.
        root: the local root, absolute, resolved.
        view: remote entries by path; changed in place by sent operations, and reverted by failures.
        report: takes each event.

    Attributes:
        failed: path -> (reason, hint) of failures without a later success.
        changed: paths that were written while they were read, to be checked again.
        growing: paths of files that grow all the time. They are sent with their present content even if they grow
            during reading: otherwise they would never arrive.
        grew: path of a growing file -> seconds that it took to send.
        racy: paths that were read so soon after a change that their stamp is unreliable (ADR 10).
        counts: results since `counts` was last set.
        pause: called between the pieces of large files, during reading and sending. It returns new steps; the small
            files among them are sent before the next piece.
        progress: called with the number of files, and of bytes, that have arrived since the last call.
        heard: time of the receiver's last answer, in seconds of the monotonic clock.
    """

    def __init__(
        self, stream: Stream, root: str, view: dict[str, RemoteEntry], *, report: Callable[[Event], None],
    ) -> None:  # fmt: skip
        self._stream = stream
        self._files = Beneath(root)
        self._view = view
        self._report = report
        self._id = 0
        self._flight = Flight(view)
        self._streaming = 0
        self._offsets: dict[int, int] = {}
        self._todo: deque[Step] = deque()
        self._later: dict[str, Step] = {}  # large files that changed while another one was in transfer
        self._large_path = ""
        #: path of a large file -> its size, how often in a row it has grown, when it was sent
        self._growth: dict[str, tuple[int, int, float]] = {}
        self.failed: dict[str, tuple[str, str]] = {}
        self.changed: set[str] = set()
        self.racy: set[str] = set()
        self.growing: Collection[str] = ()
        self.grew: dict[str, float] = {}
        self._reported: set[str] = set()
        self.pause: Callable[[], Iterable[Step]] = tuple
        self.counts = Counts()
        self.heard = time.monotonic()
        self.progress: Callable[[int, int], None] = lambda _files, _bytes: None

    def perform(self, steps: Iterable[Step]) -> None:
        """Carry out `steps` in order; return when each one is on the other side's disk, or its failure is reported.

        Raises:
            StreamEndedError: the receiver is gone.
            DkdbgError: the receiver gave up.
        """
        self._files.forget()
        self._todo.extend(steps)
        while self._todo or self._later:
            step = self._todo.popleft() if self._todo else self._later.pop(next(iter(self._later)))
            if _is_large(step):
                self._urgent()
                self._large_path = step.path
            self._perform(step)
            self._large_path = ""
        self.drain()

    def drain(self) -> None:
        """Wait until everything sent has been answered."""
        self._stream.flush()
        while self._flight:
            self._take()

    def _urgent(self) -> None:
        """Carry out new small steps before the rest of a large file; queue new large steps.

        Skip the file in transfer: its changes are detected at the end. Otherwise the transfer of a growing log would
        start again for ever.
        """
        self._files.forget()
        for step in self.pause():
            if _is_large(step):
                if step.path != self._large_path:
                    self._later[step.path] = step._replace(operation="check")
            else:
                self._perform(step)
        self._stream.flush()

    def _perform(self, step: Step) -> None:
        wanted = step.wanted
        if step.operation == "delete":
            self._send(wire.DELETE, step.path, None)
        elif wanted is None:
            raise AssertionError(step)
        elif step.operation == "mkdir":
            made = RemoteEntry(kind="d", mode=wanted.mode | 0o700, size=0, digest="", stamp="")
            self._send(wire.MKDIR, step.path, made, mode=made.mode)
        elif step.operation == "link":
            made = RemoteEntry(
                kind="l", mode=0, size=0, digest=link_digest(wanted.target), stamp=wanted.stamp
            )
            self._send(wire.LINK, step.path, made, target=wanted.target, stamp=wanted.stamp)
        elif step.operation == "mode":
            self._mode(step.path, wanted.mode, wanted.stamp)
        elif step.operation == "adopt":
            self._adopt(step.path, wanted.stamp)
        else:
            self._file(step)
        self._keep_window()

    def _file(self, step: Step) -> None:
        began = time.monotonic()
        try:
            growing = step.path in self.growing
            content = reading.read(self._files, step.path, growing=growing, between=self._urgent)
        except FileChangedError:
            self.changed.add(step.path)
            return
        except OSError as error:
            self.fail(step.path, f"cannot be read here: {error.strerror}", "")
            return
        if not content.entry.stamp:
            self.racy.add(step.path)
        remote_entry = self._view.get(step.path)
        if step.operation == "check" and remote_entry is not None and remote_entry.digest == content.digest:
            self._found_equal(step.path, remote_entry, content)
        elif content.body is not None:
            self._send(wire.PUT, step.path, _remote_entry(content), content.body, **_head(content))
        else:
            self._large(step, content, growing=growing)
        grown = content.grown or (growing and self._is_longer(step.path, content))
        if step.path not in self.changed and (grown or self._grows_again(step.path, content)):
            self.grew[step.path] = time.monotonic() - began
            if step.path not in self._reported:
                self._reported.add(step.path)
                self._report(event("grows", path=step.path, bytes=content.entry.size))

    def _is_longer(self, path: str, content: Content) -> bool:
        """Return whether a file has grown while it was sent."""
        try:
            return self._files.lstat(path).st_size > content.entry.size
        except OSError:
            return False

    def _grows_again(self, path: str, content: Content) -> bool:
        """Return whether a large file has grown each time it was sent lately: a log, sent whole for each new line."""
        if content.body is not None:
            return False
        now = time.monotonic()
        size, times, sent = self._growth.get(path, (0, 0, now))
        if content.entry.size < size or now - sent > _GROWN_WITHIN_S:
            times = 0
        elif content.entry.size > size:
            times += 1
        self._growth[path] = content.entry.size, times, now
        return times > _MAX_GROWN

    def _found_equal(self, path: str, remote_entry: RemoteEntry, content: Content) -> None:
        mode, stamp = content.entry.mode, content.entry.stamp
        if not remote_entry.held or (remote_entry.mode == mode and remote_entry.stamp != stamp):
            self._adopt(path, stamp)
        if remote_entry.mode != mode:
            self._mode(path, mode, stamp)
        self.progress(1, remote_entry.size)

    def _adopt(self, path: str, stamp: str) -> None:
        remote_entry = self._view[path]
        self._send(
            wire.ADOPT, path, remote_entry._replace(stamp=stamp, held=True),
            kind=remote_entry.kind, mode=remote_entry.mode, size=remote_entry.size, digest=remote_entry.digest, stamp=stamp,
        )  # fmt: skip

    def _mode(self, path: str, mode: int, stamp: str) -> None:
        made = self._view[path]._replace(mode=mode, stamp=stamp, held=True)
        self._send(wire.MODE, path, made, mode=mode, stamp=stamp)

    def _large(self, step: Step, content: Content, *, growing: bool) -> None:
        """Send a file in pieces, from the offset at which the receiver resumes it, with small files in between."""
        made = _remote_entry(content)
        number = self._send(wire.BEGIN, step.path, made, **_head(content))
        self._stream.flush()
        while number not in self._offsets and number in self._flight:
            self._take()
        offset = min(self._offsets.pop(number, 0), made.size)
        if number not in self._flight:
            return
        whole, sent = self._pieces(number, step.path, content, offset, growing=growing)
        if (
            number not in self._flight
        ):  # the receiver has reported a failure meanwhile, for example on a full disk
            return
        if whole:
            self._view[step.path] = made  # a delete between the pieces may have removed it
        else:
            self.changed.add(step.path)
            self._flight.abandon(number)
            if (
                sent == content.entry.size
            ):  # outdated but complete: send one byte too many, so that the receiver rejects the file
                self._stream.send(wire.DATA, {"id": number}, b"\0")
        self._stream.send(wire.END, {"id": number})

    def _pieces(
        self, number: int, path: str, content: Content, sent: int, *, growing: bool
    ) -> tuple[bool, int]:
        """Send the content from offset `sent` on.

        Return whether the file still has this content, and the offset reached.

        Args:
            growing: whether to allow the file to grow meanwhile.
        """
        self._streaming += 1
        try:
            for piece in reading.pieces(self._files, path, content.entry, offset=sent, growing=growing):
                self._stream.send(wire.DATA, {"id": number}, piece)
                sent += len(piece)
                self._stream.flush()
                self.hear()
                if number not in self._flight:
                    return False, sent
                self._urgent()
            status = self._files.lstat(path)
        except (FileChangedError, OSError):
            return False, sent
        finally:
            self._streaming -= 1
        grown = growing and status.st_size > content.entry.size  # a growing file is checked again later
        if not grown and content.entry.stamp and content.entry.stamp != stamp(status):
            # The file, or only its mode, has changed; `_urgent` ignores the file in transfer, so check it later.
            self.changed.add(path)
        if growing:
            return status.st_size >= content.entry.size, sent
        return (status.st_size, status.st_mtime_ns) == (content.entry.size, content.entry.mtime_ns), sent

    def _send(self, kind: int, path: str, made: RemoteEntry | None, body: bytes = b"", /, **head: Any) -> int:  # noqa: ANN401
        """Send one operation and record its effect on the view; return its id."""
        self._id += 1
        try:
            self._stream.send(kind, {"id": self._id, "path": path, **head}, body)
        except wire.WireError as error:
            self.fail(path, str(error), "")
            return self._id
        self._flight.send(self._id, kind, path, made, len(body))
        return self._id

    def _keep_window(self) -> None:
        self.hear()
        if self._flight.full and not self._streaming:  # no DONE until the large file ends
            self._stream.flush()
            while not self._flight.low:
                self._take()

    def _take(self) -> None:
        frame = self._stream.take(SILENCE_S)
        if frame is None:
            raise no_answer()
        self.handle(frame)

    def hear(self) -> None:
        """Process everything that has arrived."""
        while (frame := self._stream.take()) is not None:
            self.handle(frame)

    def ping(self) -> None:
        """Request an answer, which updates `heard`."""
        self._stream.send(wire.PING, {"n": self._id})
        self._stream.flush()

    def handle(self, frame: Frame) -> None:
        """Process one answer. Raises DkdbgError: the receiver gave up."""
        kind, head, _ = frame
        self.heard = time.monotonic()
        if kind == wire.DONE:
            self._done(head["upto"])
        elif kind == wire.FAILED:
            self._failed(head)
        elif kind == wire.KEPT:
            self._report(event("kept", path=head["path"], where=head["where"]))
        elif kind == wire.RESUME and head["id"] in self._flight:
            self._offsets[head["id"]] = head["offset"]
        elif kind == wire.ERROR:
            raise refused(head)

    def _done(self, upto: int) -> None:
        files = size = 0
        for done in self._flight.done(upto):
            self.failed.pop(done.path, None)
            if not done.abandoned:
                self.counts.add(done)
                files += done.kind in {wire.PUT, wire.BEGIN}
                size += done.size
        self.progress(files, size)

    def _failed(self, head: dict[str, Any]) -> None:
        sent = self._flight.failed(head["id"])
        if sent is not None and not sent.abandoned:
            self.fail(sent.path, head["reason"], head["hint"])

    def fail(self, path: str, reason: str, hint: str) -> None:
        """Record that `path` could not be synced, and report a new failure."""
        self.counts.failed += 1
        if self.failed.get(path) != (reason, hint):
            self._report(event("failed", path=path, reason=reason, hint=hint))
        self.failed[path] = (reason, hint)


def _is_large(step: Step) -> bool:
    return step.wanted is not None and step.wanted.size > LARGE_BYTES and step.operation in {"check", "put"}


def _remote_entry(content: Content) -> RemoteEntry:
    entry = content.entry
    return RemoteEntry("f", entry.mode, entry.size, content.digest, entry.stamp)


def _head(content: Content) -> dict[str, Any]:
    entry = content.entry
    return {
        "mode": entry.mode, "size": entry.size, "mtime_ns": wire.time_of(entry.mtime_ns), "digest": content.digest, "stamp": entry.stamp,
    }  # fmt: skip
