"""A stand-in for the host's side of sync: it says whatever a test wants said, to a real receiver."""

from __future__ import annotations

import contextlib
import hashlib
import os
import queue
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

from dkdbg.sync.receiver import boot, wire
from dkdbg.sync.receiver.ledger import Ledger
from dkdbg.sync.receiver.operations import Operations
from dkdbg.sync.receiver.state import State
from dkdbg.sync.receiver.tree import Tree

if TYPE_CHECKING:
    from pathlib import Path

NOW = time.time_ns() - 3600 * 10**9
SECONDS = 300.0


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def entry(path: str, data: bytes, **more: Any) -> dict[str, Any]:
    head = {
        "path": path,
        "mode": 0o644,
        "size": len(data),
        "mtime_ns": NOW,
        "digest": digest(data),
        "stamp": "s",
    }
    return {**head, **more}


def operations(root: Path) -> tuple[Operations, State, Ledger]:
    """What a receiver does with `root`, without the stream."""
    state = State(Tree(os.open(root, os.O_RDONLY)), str(root), write=True)
    book = Ledger(state.folder)
    return Operations(state, book, lambda _path, _where: None), state, book


class Host:
    """One receiver, started as on a target, and what it has said."""

    def __init__(self, python: str = sys.executable, user: int | None = None) -> None:
        argv, start = boot.command(python), boot.payload()
        groups = None if user is None else []
        self.process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={"PATH": os.environ["PATH"]},
            cwd="/", user=user, group=user, extra_groups=groups,
        )  # fmt: skip
        self.frames: queue.Queue[wire.Frame | None] = queue.Queue()
        self.number = 0
        self.failed: list[dict[str, Any]] = []
        self.kept: list[dict[str, Any]] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.raw(start)

    def _read(self) -> None:
        parser = wire.Parser()
        while data := os.read(self.process.stdout.fileno(), 1 << 16):
            parser.feed(data)
            while frame := parser.take():
                self.frames.put(frame)
        self.frames.put(None)

    def raw(self, data: bytes) -> None:
        """Write bytes; a receiver that has ended is noticed by who reads."""
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(data)
            self.process.stdin.flush()

    def send(self, kind: int, head: dict[str, Any] | None = None, body: bytes = b"") -> None:
        self.raw(wire.encode(kind, head, body))

    def next(self) -> wire.Frame:
        frame = self.frames.get(timeout=SECONDS)
        assert frame is not None, f"the receiver ended: {self.process.stderr.read().decode()}"
        return frame

    def expect(self, kind: int) -> dict[str, Any]:
        """Return the head of the next frame of a kind; FAILED and KEPT before it are noted."""
        while True:
            got, head, _ = self.next()
            if got == kind:
                return head
            if got == wire.FAILED:
                self.failed.append(head)
            elif got == wire.KEPT:
                self.kept.append(head)
            else:
                assert got == wire.DONE, (wire.NAMES[got], head)

    def hello(self, root: Path | str, **more: Any) -> dict[str, Any]:
        self.send(wire.HELLO, {"version": wire.VERSION, "root": str(root), **more})
        return self.expect(wire.READY)

    def entries(self, kind: int) -> list[wire.Entry]:
        found: list[wire.Entry] = []
        while True:
            head = self.expect(kind)
            found += head["entries"]
            if head["end"]:
                return found

    def open(self, root: Path | str, **more: Any) -> dict[str, wire.Entry]:
        """Say HELLO and return the listing by path."""
        self.hello(root, **more)
        return {one[0]: one for one in self.entries(wire.LISTING)}

    def begin(self, kind: int, head: dict[str, Any], body: bytes = b"") -> int:
        self.number += 1
        self.send(kind, {"id": self.number, **head}, body)
        return self.number

    def settle(self) -> None:
        """Wait until everything so far has been done or reported."""
        while self.expect(wire.DONE)["upto"] < self.number:
            pass

    def do(self, kind: int, head: dict[str, Any], body: bytes = b"") -> list[dict[str, Any]]:
        before = len(self.failed)
        self.begin(kind, head, body)
        self.settle()
        return self.failed[before:]

    def large(self, path: str, data: bytes, *pieces: bytes) -> int:
        """Send a file in pieces, by default its content from where the receiver has it, and return that offset."""
        number = self.begin(wire.BEGIN, entry(path, data))
        offset = int(self.expect(wire.RESUME)["offset"])
        for piece in pieces or [data[at : at + (1 << 20)] for at in range(offset, len(data), 1 << 20)]:
            self.send(wire.DATA, {"id": number}, piece)
        self.send(wire.END, {"id": number})
        self.settle()
        return offset

    def verify(self) -> dict[str, wire.Entry]:
        """Return what is there of what sync holds, read anew, by path; REMOTE follows."""
        self.send(wire.VERIFY)
        return {one[0]: one for one in self.entries(wire.LISTING)}

    def refused(self, root: Path | str, **more: Any) -> str:
        self.send(wire.HELLO, {"version": wire.VERSION, "root": str(root), **more})
        return self.error()

    def put(self, path: str, data: bytes, **more: Any) -> list[dict[str, Any]]:
        return self.do(wire.PUT, entry(path, data, **more), data)

    def put_all(self, files: dict[str, bytes], **more: Any) -> list[dict[str, Any]]:
        """Send files without waiting for an answer to each, as a host does, and return how some failed."""
        before = len(self.failed)
        for path, data in files.items():
            self.begin(wire.PUT, entry(path, data, **more), data)
        self.settle()
        return self.failed[before:]

    def error(self) -> str:
        """Return the reason of the ERROR that ends the stream; it comes with exit code 1 and without a traceback."""
        head = self.expect(wire.ERROR)
        assert self.frames.get(timeout=SECONDS) is None
        assert self.process.wait(SECONDS) == 1
        assert self.process.stderr.read() == b""
        assert "\n" not in head["reason"]
        return head["reason"]

    def bye(self) -> None:
        """End the stream as a host does, and see that the receiver says nothing more."""
        self.send(wire.BYE)
        assert self.process.wait(SECONDS) == 0, self.process.stderr.read()
        assert self.process.stderr.read() == b""

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._reader.join()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            with contextlib.suppress(OSError):
                pipe.close()
