"""Sends this process's output to the attached editor, in addition to its usual destination.

It captures what is written to Python's stream objects of the descriptors 1 and 2: while an editor is attached, an
instance attribute shadows the object's `write`. So `sys.stdout` stays the same object, with its descriptor, terminal
and buffering, and writes through older references (handlers of `logging`, progress bars) are captured too. Not
captured: libraries that write to the descriptor, and child processes that are not Python.

debugpy's own `redirectOutput` sends two messages a line: 100,000 lines took 66 s, and 3 of 100 arrived
(docs/adr/0014). Here a print appends to a list, and pydevd's writer thread sends everything collected, at most fifty
times a second. The program never waits: there is no lock, and output beyond MAX_PENDING_CHARS that an editor has not
read is dropped.
"""

# debugpy is untyped.
# ruff: noqa: ANN401
# mypy: disable-error-code="import-not-found"

from __future__ import annotations

import codecs
import collections
import contextlib
import itertools
import sys
import time
from types import CodeType

from . import compiling

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Deque, Dict, Iterator, List, Tuple

#: Maximum characters that wait for the editor before the oldest are dropped, and the characters that each piece counts
#: in addition to its length.
MAX_PENDING_CHARS = 32 << 20
PIECE_OVERHEAD = 64
#: Maximum characters in one event.
MAX_EVENT_CHARS = 48 << 10
#: Maximum pieces, and approximate maximum characters, to join at a time: each step keeps three copies of them.
MAX_BATCH_PIECES = 4096
MAX_BATCH_CHARS = 1 << 20
#: Minimum seconds between two sends, so that a loop of prints costs fifty events a second, not a hundred thousand.
INTERVAL_S = 0.02
#: Seconds after the last print for which the program's end waits for an editor to read the rest.
END_TIMEOUT_S = 10.0
_DESCRIPTORS = ((1, "stdout"), (2, "stderr"))


class Pending:
    """Printed output that has not been sent, in order. Any thread may add to it; pydevd's writer thread takes.

    Nothing here waits or locks, because a signal handler or a finalizer may print in the middle of anything.

    Attributes:
        pieces: str or bytes for stdout; for stderr, which is rarer, a tuple with either.
        size: their approximate size in characters, with PIECE_OVERHEAD for each; threads that print at the same time
            may make it wrong.
        is_idle: whether the writer has taken everything, and has not been woken since.
        wake: wakes the writer.
        is_on: whether output is collected now.
        last: when output was last added to an empty queue, in monotonic seconds.
    """

    __slots__ = ("_decoders", "_left_out", "is_idle", "is_on", "last", "pieces", "size", "wake")

    def __init__(self) -> None:
        self.pieces: Deque[Any] = collections.deque()
        self.size = 0
        self.is_idle = True
        self.is_on = False
        self.wake: Callable[[], None] = lambda: None
        self.last = 0.0
        self._left_out = 0
        #: Decoders for bytes, by category; incremental, because a character may be split over two pieces.
        self._decoders: Dict[str, codecs.IncrementalDecoder] = {}

    def ring(self) -> None:
        """Wake the writer, after output was added while it was idle."""
        self.is_idle = False
        self.last = time.monotonic()
        self.wake()

    def clear(self) -> None:
        """Drop everything."""
        self.pieces.clear()
        self._decoders.clear()
        self.size = self._left_out = 0
        self.is_idle = True

    def take(self) -> Iterator[Tuple[str, str]]:
        """Yield the present output as texts of at most MAX_EVENT_CHARS characters, each with its category."""
        left = len(self.pieces)
        while left > 0:
            if self._left_out:
                lines, self._left_out = self._left_out, 0
                text = "dkdbg: %d lines are omitted because the editor was not reading; the program's log has them\n"
                yield "console", text % lines
            batch: List[Any] = []
            max_chars = min(
                left, MAX_BATCH_PIECES, max(1, MAX_BATCH_CHARS * len(self.pieces) // max(1, self.size))
            )
            with contextlib.suppress(IndexError):  # another thread has dropped it
                batch.extend(itertools.starmap(self.pieces.popleft, itertools.repeat((), max_chars)))
            left = left - len(batch) if batch else 0
            for kind, run in itertools.groupby(batch, type):
                yield from self._events("stderr" if kind is tuple else "stdout", list(run))
        if not self.pieces:
            self.size = 0

    def _events(self, category: str, run: List[Any]) -> Iterator[Tuple[str, str]]:
        if category == "stderr":
            run = [each for (each,) in run]
        for kind, same in itertools.groupby(run, type):
            parts = list(same)
            content = "".join(parts) if kind is str else b"".join(parts)
            self.size -= len(content) + PIECE_OVERHEAD * len(parts)
            text = content if isinstance(content, str) else self._decoded(category, content)
            for start in range(0, len(text), MAX_EVENT_CHARS):
                yield category, text[start : start + MAX_EVENT_CHARS]

    def leave_out(self) -> None:
        """Drop the oldest output: the newest, which shows why a program fails, is worth more."""
        with contextlib.suppress(IndexError):
            while self.size > MAX_PENDING_CHARS * 3 // 4:
                piece = self.pieces.popleft()
                content = piece[0] if isinstance(piece, tuple) else piece
                self.size -= len(content) + PIECE_OVERHEAD
                self._left_out += content.count("\n" if isinstance(content, str) else b"\n")

    def _decoded(self, category: str, content: bytes) -> str:
        decoder = self._decoders.get(category)
        if decoder is None:
            stream = getattr(sys, "__%s__" % category)
            encoding = getattr(stream, "encoding", None) or "utf-8"
            decoder = self._decoders[category] = codecs.getincrementaldecoder(encoding)("replace")
        return decoder.decode(content)


_pending = Pending()
#: Objects whose `write` is shadowed, each with our shadowing function and the program's own shadowing one before, if
#: any.
_shadowed: List[Any] = []
#: The same for objects where the program has shadowed our function again, and may still call it.
_covered: List[Any] = []


def watch() -> None:
    """Capture output from the next attach on, unless the editor sets `"redirectOutput": false`."""
    from _pydevd_bundle import pydevd_api
    from _pydevd_bundle.pydevd_api import PyDevdAPI
    from _pydevd_bundle.pydevd_comm import WriterThread
    from _pydevd_bundle.pydevd_json_debug_options import DebugOptions
    from pydevd import PyDB

    begin, update = WriterThread.__init__, DebugOptions.update_from_args
    lines_of = pydevd_api._get_code_lines
    dispose, run = PyDB.dispose_and_kill_all_pydevd_threads, PyDevdAPI.run

    def get_code_lines(code: Any) -> Any:
        """Return the lines with code; do not print the warnings if pydevd compiles a source for that."""
        if isinstance(code, CodeType):
            return lines_of(code)
        with compiling.without_warnings():
            return lines_of(code)

    def begin_with_output(self: Any, *args: Any, **kwargs: Any) -> None:
        begin(self, *args, **kwargs)
        self._cmd_queue = _queue_class()(self)

    def update_from_args(self: Any, args: Any) -> None:
        update(self, args)
        if "redirectOutput" not in args:
            self.redirect_output = True

    def enable_output_redirection(self: Any, redirect_stdout: bool, redirect_stderr: bool) -> None:
        self.redirect_output = redirect_stdout or redirect_stderr
        if not self.redirect_output:
            _restore()
            _pending.clear()

    def run_and_show(self: Any, debugger: Any) -> Any:
        # Not before configurationDone: until then the adapter would queue the output.
        if debugger.redirect_output and not _shadowed:
            _show()
        return run(self, debugger)

    def dispose_and_kill_all_pydevd_threads(self: Any, *args: Any, **kwargs: Any) -> None:
        try:
            dispose(self, *args, **kwargs)
        finally:
            _restore()

    pydevd_api._get_code_lines = get_code_lines
    WriterThread.__init__ = begin_with_output
    PyDevdAPI.run = run_and_show
    DebugOptions.update_from_args = update_from_args
    PyDB.enable_output_redirection = enable_output_redirection
    PyDB.dispose_and_kill_all_pydevd_threads = dispose_and_kill_all_pydevd_threads


def is_shown() -> bool:
    """Tell whether output is sent to the editor."""
    return bool(_shadowed)


def forget() -> None:
    """Drop the parent's pending output in a forked child: the parent sends it."""
    _pending.wake = lambda: None
    _pending.clear()
    _restore()


class _Command:
    """A command for pydevd's writer that sends all output pending at that time."""

    id = -1
    as_dict = None

    def __init__(self, writer: Any) -> None:
        self._writer = writer

    def send(self, sock: Any) -> None:
        make = self._writer.py_db.cmd_factory
        for category, text in _pending.take():
            if category == "console":
                make.make_console_message(text).send(sock)
            else:
                make.make_io_message(text, 1 if category == "stdout" else 2).send(sock)
            self._writer._cmd_queue.sending_since = time.monotonic()
        _pending.is_idle = True


def _queue_class() -> Any:
    """Return a subclass of pydevd's command queue that includes the pending output."""
    from _pydev_bundle._pydev_saved_modules import _queue

    class Commands(_queue.Queue):  # type: ignore[misc]
        """Queue of commands for pydevd's writer; output printed before a command is sent before it.

        Attributes:
            sending_since: monotonic time when the writer began to send its current command; 0 while it waits.
        """

        def __init__(self, writer: Any) -> None:
            super().__init__()
            self._output = _Command(writer)
            self._sent = 0.0
            self.sending_since = 0.0
            #: Lock for which the waiting writer waits; released to wake it.
            self._bell = _queue.threading.Lock()
            self._bell.acquire()
            _pending.wake = self._wake

        def put(self, item: Any, *args: Any, **kwargs: Any) -> None:
            if _pending.pieces:
                super().put(self._output, False)
            super().put(item, *args, **kwargs)
            self._wake()

        def get(self, block: bool = True, timeout: Any = None) -> Any:
            self.sending_since = 0.0
            item = self._next((-1 if timeout is None else timeout) if block else 0)
            self.sending_since = time.monotonic()
            if item is self._output:
                self._sent = self.sending_since
            return item

        def _next(self, seconds: float) -> Any:
            """Return the next command; for output, wait up to INTERVAL_S for more, then return the one to send it."""
            with contextlib.suppress(_queue.Empty):
                return super().get(False)
            if not _pending.pieces and self._bell.acquire(True, seconds):
                with contextlib.suppress(_queue.Empty):
                    return super().get(False)
            if not _pending.pieces:
                raise _queue.Empty
            if self._bell.acquire(True, max(0, self._sent + INTERVAL_S - time.monotonic())):
                with contextlib.suppress(_queue.Empty):
                    return super().get(False)
            return self._output

        def empty(self) -> bool:
            """Tell whether everything was sent, or an editor that does not read has had END_TIMEOUT_S for it."""
            if super().empty() and not _pending.pieces:
                return True
            now = time.monotonic()
            stuck = 0 < self.sending_since < now - END_TIMEOUT_S
            return stuck and _pending.last < now - END_TIMEOUT_S

        def _wake(self) -> None:
            """Wake the writer.

            Call no Python function here: while this thread is stepping, pydevd would trace it and put a command into
            this queue. If a print has interrupted a `put` of this thread, which holds the queue's lock, that would
            deadlock.
            """
            try:  # noqa: SIM105  contextlib is Python code
                self._bell.release()
            except RuntimeError:  # the bell is released already
                pass

    return Commands


def _show() -> None:
    """Shadow `write` of stdout's and stderr's stream objects."""
    found: List[Any] = []
    _pending.is_on = True
    for number, category in _DESCRIPTORS:
        for stream in (getattr(sys, "__%s__" % category), getattr(sys, category)):
            with contextlib.suppress(Exception):  # the stream is closed, detached or of another kind
                if stream is not None and stream.fileno() == number and stream not in found:
                    found.append(stream)
                    _shadow(stream, category)


def _shadow(stream: Any, category: str) -> None:
    """Capture bytes at the buffer of an unbuffered or line-buffered stream, else text at the stream itself."""
    at_once = getattr(stream, "write_through", False) or stream.line_buffering
    layer = stream.buffer if at_once else stream
    if not any(each[0] is layer for each in _shadowed):
        former = vars(layer).get("write")
        for covered in [each for each in _covered if each[0] is layer]:
            _covered.remove(covered)
            if former is not None:
                _shadowed.append(covered)
                return
        layer.write = capturing = _taken(layer.write, category, bytes if at_once else str)
        _shadowed.append((layer, capturing, former))


def _restore() -> None:
    _pending.is_on = False
    while _shadowed:
        layer, capturing, former = _shadowed.pop()
        if vars(layer).get("write") is not capturing:
            _covered.append((layer, capturing, former))
        elif former is None:
            del layer.write
        else:
            layer.write = former


def _taken(write: Callable[[Any], int], category: str, kind: type) -> Callable[[Any], int]:
    """Return a `write` that also keeps the written data for the editor.

    It calls no further Python function, because up to Python 3.11 pydevd would trace each call.
    """
    pending, append = _pending, _pending.pieces.append
    in_tuple = category == "stderr"

    def write_and_take(data: Any) -> int:
        written = write(data)
        if not pending.is_on:
            return written
        if data.__class__ is not kind:  # a bytearray may change
            data = kind(data)
        append((data,) if in_tuple else data)
        pending.size += len(data) + PIECE_OVERHEAD
        if pending.is_idle:
            pending.ring()
        if pending.size > MAX_PENDING_CHARS:
            pending.leave_out()
        return written

    return write_and_take
