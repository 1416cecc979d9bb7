"""Shows the attached editor what this process prints, beside where it went before.

The text is taken where Python's own streams of the descriptors 1 and 2 are written to: `write` of these objects is
shadowed by an attribute of the object, and taken away again when the editor leaves. So `sys.stdout` stays the object
that it was, with its descriptor, its terminal and its buffering; what holds it since before the attach (handlers of
`logging`, progress bars) is seen too. What does not pass these objects is not: libraries that write to the descriptor,
programs that are not Python.

pydevd's own way (`redirectOutput` of debugpy) sends two messages a line: 100,000 lines took 66 s, and 3 of 100 came
(docs/adr/0014). Here a print appends to a list, and pydevd's writer takes all that has gathered, at most fifty times a
second. The program waits for nobody: no lock, and what an editor does not read is left out beyond LIMIT.
"""

# debugpy has no types, and this is where it is touched.
# ruff: noqa: ANN401
# mypy: disable-error-code="import-not-found"

from __future__ import annotations

import codecs
import collections
import contextlib
import itertools
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Deque, Dict, Iterator, List, Tuple

#: Characters, and as many for each piece as Python needs for it, that wait for the editor; older ones are left out.
LIMIT = 32 << 20
PIECE = 64
#: Characters in one event.
EVENT = 48 << 10
#: Pieces that are put together at a time, and about how many characters: there are three copies of them for that time.
BATCH = 4096
TOGETHER = 1 << 20
#: Seconds between two looks, so that a loop of prints costs fifty events a second and not a hundred thousand.
INTERVAL = 0.02
#: Seconds for which the end of the program waits, after the last print, for an editor that does not read.
END_LIMIT = 10.0
_DESCRIPTORS = ((1, "stdout"), (2, "stderr"))


class Pending:
    """What was printed and has not been sent, in order. Any thread may add, and pydevd's writer takes.

    Nothing here waits or locks: a signal handler or a finalizer may print in the middle of anything.

    Attributes:
        pieces: texts of stdout, bytes of stdout, and either of stderr in a tuple: most is stdout.
        size: about how much that is, with PIECE for each. Threads that print at the same time may count wrong.
        is_idle: the writer has taken all, and nobody has woken it since.
        wake: has it look.
        last: when something was added to nothing, in monotonic seconds.
    """

    __slots__ = ("_decoders", "_left_out", "is_idle", "last", "pieces", "size", "wake")

    def __init__(self) -> None:
        self.pieces: Deque[Any] = collections.deque()
        self.size = 0
        self.is_idle = True
        self.wake: Callable[[], None] = lambda: None
        self.last = 0.0
        self._left_out = 0
        #: For bytes: a letter may come in two pieces.
        self._decoders: Dict[str, codecs.IncrementalDecoder] = {}

    def ring(self) -> None:
        """Have the writer look, after something was added to nothing."""
        self.is_idle = False
        self.last = time.monotonic()
        self.wake()

    def clear(self) -> None:
        """Forget everything."""
        self.pieces.clear()
        self._decoders.clear()
        self.size = self._left_out = 0
        self.is_idle = True

    def take(self) -> Iterator[Tuple[str, str]]:
        """Yield what is there now as texts of EVENT characters at most, each with its category."""
        left = len(self.pieces)
        while left > 0:
            if self._left_out:
                lines, self._left_out = self._left_out, 0
                text = "dkdbg: %d lines are left out here, because the editor was not reading; the program's log has them\n"
                yield "console", text % lines
            batch: List[Any] = []
            most = min(left, BATCH, max(1, TOGETHER * len(self.pieces) // max(1, self.size)))
            with contextlib.suppress(IndexError):  # left out meanwhile
                batch.extend(itertools.starmap(self.pieces.popleft, itertools.repeat((), most)))
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
            self.size -= len(content) + PIECE * len(parts)
            text = content if isinstance(content, str) else self._decoded(category, content)
            for start in range(0, len(text), EVENT):
                yield category, text[start : start + EVENT]

    def leave_out(self) -> None:
        """Make room: the end, which says why a program fails, is worth more than the middle."""
        with contextlib.suppress(IndexError):
            while self.size > LIMIT * 3 // 4:
                piece = self.pieces.popleft()
                content = piece[0] if isinstance(piece, tuple) else piece
                self.size -= len(content) + PIECE
                self._left_out += content.count("\n" if isinstance(content, str) else b"\n")

    def _decoded(self, category: str, content: bytes) -> str:
        decoder = self._decoders.get(category)
        if decoder is None:
            stream = getattr(sys, "__%s__" % category)
            encoding = getattr(stream, "encoding", None) or "utf-8"
            decoder = self._decoders[category] = codecs.getincrementaldecoder(encoding)("replace")
        return decoder.decode(content)


_pending = Pending()
#: The objects whose `write` is shadowed.
_shadowed: List[Any] = []


def watch(debugger_class: Any, api_class: Any, writer_class: Any, options_class: Any) -> None:
    """Do it from the next attach on, unless the editor says `"redirectOutput": false`; once for each process.

    Args:
        debugger_class: pydevd's PyDB. api_class: its PyDevdAPI. writer_class: its WriterThread.
        options_class: its DebugOptions.
    """
    if getattr(debugger_class, "dkdbg_shows_output", False):
        return
    debugger_class.dkdbg_shows_output = True
    begin, update = writer_class.__init__, options_class.update_from_args
    dispose, run = debugger_class.dispose_and_kill_all_pydevd_threads, api_class.run

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
        # Not before: until an editor has sent configurationDone the adapter keeps what is to go there.
        if debugger.redirect_output and not _shadowed:
            _show()
        return run(self, debugger)

    def dispose_and_kill_all_pydevd_threads(self: Any, *args: Any, **kwargs: Any) -> None:
        try:
            dispose(self, *args, **kwargs)
        finally:
            _restore()

    writer_class.__init__ = begin_with_output
    api_class.run = run_and_show
    options_class.update_from_args = update_from_args
    debugger_class.enable_output_redirection = enable_output_redirection
    debugger_class.dispose_and_kill_all_pydevd_threads = dispose_and_kill_all_pydevd_threads


def is_shown() -> bool:
    """Tell whether what is printed reaches the editor."""
    return bool(_shadowed)


def forget() -> None:
    """In a forked child: what the parent has printed is the parent's to send."""
    _pending.wake = lambda: None
    _pending.clear()
    _restore()


class _Command:
    """What pydevd's writer sends when it comes to it: all that is pending then."""

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
    """Return the class of pydevd's queue of commands, with the pending output in it."""
    from _pydev_bundle._pydev_saved_modules import _queue

    class Commands(_queue.Queue):  # type: ignore[misc]
        """The commands that pydevd's writer sends; what was printed before one of them is sent before it.

        Attributes:
            sending_since: when the writer has begun to send what it sends now, 0 while it waits.
        """

        def __init__(self, writer: Any) -> None:
            super().__init__()
            self._output = _Command(writer)
            self._sent = 0.0
            self.sending_since = 0.0
            #: Held while there is nothing for the writer to look at.
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
            """Return a command, or what says that something was printed; that may be more after a moment."""
            with contextlib.suppress(_queue.Empty):
                return super().get(False)
            if not _pending.pieces and self._bell.acquire(True, seconds):
                with contextlib.suppress(_queue.Empty):
                    return super().get(False)
            if not _pending.pieces:
                raise _queue.Empty
            if self._bell.acquire(True, max(0, self._sent + INTERVAL - time.monotonic())):
                with contextlib.suppress(_queue.Empty):
                    return super().get(False)
            return self._output

        def empty(self) -> bool:
            """Tell whether all was sent. An editor that does not read keeps no program from ending."""
            if super().empty() and not _pending.pieces:
                return True
            now = time.monotonic()
            stuck = 0 < self.sending_since < now - END_LIMIT
            return stuck and _pending.last < now - END_LIMIT

        def _wake(self) -> None:
            """Have the writer look. Whoever prints may be in the middle of `put` in this thread.

            Nothing here is a call of Python code, which pydevd would look at while a step goes into it: what it finds
            it puts into this queue, and a queue that is held for the print would be held for ever.
            """
            try:  # noqa: SIM105  contextlib is Python code
                self._bell.release()
            except RuntimeError:  # it rings already
                pass

    return Commands


def _show() -> None:
    """Shadow `write` of the streams."""
    found: List[Any] = []
    for number, category in _DESCRIPTORS:
        for stream in (getattr(sys, "__%s__" % category), getattr(sys, category)):
            with contextlib.suppress(Exception):  # closed, detached, of another kind
                if stream is not None and stream.fileno() == number and stream not in found:
                    found.append(stream)
                    _shadow(stream, category)


def _shadow(stream: Any, category: str) -> None:
    """Take the bytes where they leave at once; a stream that keeps them back is asked for its text."""
    at_once = getattr(stream, "write_through", False) or stream.line_buffering
    layer = stream.buffer if at_once else stream
    if not any(each is layer for each in _shadowed):
        layer.write = _taken(layer.write, category, bytes if at_once else str)
        _shadowed.append(layer)


def _restore() -> None:
    while _shadowed:
        _shadowed.pop().__dict__.pop("write", None)


def _taken(write: Callable[[Any], int], category: str, kind: type) -> Callable[[Any], int]:
    """Return a `write` that keeps what was written for the editor.

    All in one function: up to Python 3.11 each call in it would be a call that pydevd looks at.
    """
    pending, append = _pending, _pending.pieces.append
    in_tuple = category == "stderr"

    def write_and_take(data: Any) -> int:
        written = write(data)
        if data.__class__ is not kind:  # a bytearray may change
            data = kind(data)
        append((data,) if in_tuple else data)
        pending.size += len(data) + PIECE
        if pending.is_idle:
            pending.ring()
        if pending.size > LIMIT:
            pending.leave_out()
        return written

    return write_and_take
