"""Run a program on a remote machine with our standard streams; both survive a cut of the connection.

The program's streams are two sockets of a relay, and three threads copy between them and our own. A terminal is set to
raw mode, as by ssh, so that the program receives each key. While disconnected, two Ctrl-C within DETACH_WITHIN_S
seconds detach, and the program continues. Before the first connection one Ctrl-C cancels the start.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sys
import termios
import threading
import time
import tty as raw_terminal
from typing import TYPE_CHECKING

from dkdbg import signals
from dkdbg.agent import sockets
from dkdbg.agent.relay import wire
from dkdbg.core.brought import relay_words
from dkdbg.errors import EXIT_INTERRUPTED, EXIT_TIMEOUT, DkdbgError, GoneError
from dkdbg.relay.relay import Relay

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import FrameType

    from dkdbg.core.target import Target

#: Timeout in seconds of the first connection, and seconds until a later loss of the connection is reported.
CONNECT_TIMEOUT_S, REPORT_AFTER_S = 90.0, 2.0
#: Seconds within which a second Ctrl-C detaches.
DETACH_WITHIN_S = 1.0
#: Seconds between two checks of the connection.
_POLL_S = 0.2
_CHUNK = 1 << 16
_CTRL_C = 3
#: Exit code after the user has detached, or when the program's keeper is gone.
_LOST_EXIT_CODE = 255
#: Variables that describe our terminal, passed to the program.
_TERMINAL_VARIABLES = ("TERM",)


def run(
    target: Target, agent: Sequence[str], argv: Sequence[str], *, label: str, tty: bool, hint: str,
    over: Sequence[str] = (),
) -> int:  # fmt: skip
    """Run a remote `argv` to its end with our standard streams; return its exit code, as a shell shows it.

    Args:
        agent: command line of the remote agent, without its verb; its last argument is the agent's file.
        argv: the program and its arguments.
        label: name of the target, for messages.
        tty: give the program our terminal.
        hint: command to type for a program that still runs.
        over: remote command that exits with 0 when the program has to end; empty if the program ends on its own.

    Raises:
        DkdbgError: the program cannot be started, its keeper is gone, or the user detached while disconnected.
    """
    size = os.get_terminal_size(0) if tty else None
    order = json.dumps({
        "argv": list(argv), "terminal": None if size is None else [size.lines, size.columns],
        "environment": {name: os.environ[name] for name in _TERMINAL_VARIABLES if tty and name in os.environ},
        **({"watch": list(over)} if over else {}),
    }).encode()  # fmt: skip
    if len(order) > wire.LARGEST:
        raise DkdbgError(
            "the command line is too long", hint=f"at most {wire.LARGEST} bytes; use a script there"
        )
    return _RemoteProgram(target, agent, order, label=label, tty=tty, hint=hint).run()


class _RemoteProgram:
    """A running remote program, see `run`; used by the main thread."""

    def __init__(
        self, target: Target, agent: Sequence[str], order: bytes, *, label: str, tty: bool, hint: str
    ) -> None:
        self._target, self._agent = target, agent
        self._order, self._label, self._tty, self._hint = order, label, tty, hint
        self._code: int | None = None
        self._is_lost = False
        self._gone: GoneError | None = None
        self._is_detached = threading.Event()
        self._news = threading.Event()
        self._was_connected = self._is_cancelled = False
        self._last_ctrl_c = 0.0
        self._relay = Relay(self._relayed, self)

    # -- called by the relay, on its threads --------------------------------------------------------------------

    def _relayed(self, word: str, silent: bool, limit: float) -> Sequence[str]:
        """Return the command line of the relay.

        From the first connection on, the keeper owns the agent's file: if the file is missing, the keeper is gone.
        """
        relay = (*self._agent, "relay", word)
        # Until the first connection, the target removes the agent's file when the connection of its upload ends.
        try:
            executor = self._target.again(silent=silent and self._was_connected, limit=limit)
        except GoneError as error:
            self._gone = error
            self.lost()
            raise
        if not self._was_connected:
            return executor.starting(relay)
        return executor.wrap(relay_words(self._agent, word, "again"))

    def exited(self, code: int) -> None:
        """Record the exit code."""
        self._code = code
        self._news.set()

    def lost(self) -> None:
        """Record that the keeper is gone."""
        self._is_lost = True
        self._news.set()

    # -- on the main thread -------------------------------------------------------------------------------------

    def run(self) -> int:
        """Run the program; see the module's `run`."""
        outputs = []
        with contextlib.closing(self._relay), self._signals(), self._raw():
            stdio, theirs = socket.socketpair()
            stderr, their_errors = socket.socketpair()
            stderr.shutdown(socket.SHUT_WR)
            self._relay.start(self._order, theirs, their_errors)
            sys.stdout.flush()
            for source, target in ((stdio, 1), (stderr, 2)):
                outputs.append(threading.Thread(target=_copy_out, args=(source, target), daemon=True))
            for each in (*outputs, threading.Thread(target=self._copy_in, args=(stdio,), daemon=True)):
                each.start()
            self._watch()
            if self._code is not None:
                for each in outputs:
                    each.join()
                return self._code
        if self._is_detached.is_set():
            raise DkdbgError(
                f"detached while {self._label} was disconnected; the program is still running",
                hint=self._hint,
                exit_code=_LOST_EXIT_CODE,
            )
        if self._gone is not None:
            raise DkdbgError(self._gone.message, hint=self._gone.hint, exit_code=_LOST_EXIT_CODE)
        raise DkdbgError(
            f"the process that kept the program on {self._label} is gone: the machine was restarted, or its processes were killed",
            hint=self._hint, exit_code=_LOST_EXIT_CODE,
        )  # fmt: skip

    def _watch(self) -> None:
        """Wait for the end of the program, and report cuts meanwhile."""
        began, cut, is_reported = time.monotonic(), 0.0, False
        while self._code is None and not self._is_lost and not self._is_detached.is_set():
            why, now = self._relay.why, time.monotonic()
            if not why:
                self._was_connected = True
                if is_reported:
                    self._say("connected again")
                cut, is_reported = 0.0, False
            elif self._is_cancelled and self._relay.withdraw():
                raise DkdbgError(
                    f"interrupted while connecting to {self._label}; nothing was started",
                    exit_code=EXIT_INTERRUPTED,
                )
            elif not self._was_connected and now - began > CONNECT_TIMEOUT_S and self._relay.withdraw():
                raise DkdbgError(f"cannot start anything on {self._label}: {why}", exit_code=EXIT_TIMEOUT)
            else:
                cut = cut or now
                if self._was_connected and not is_reported and now - cut > REPORT_AFTER_S:
                    is_reported = True
                    self._say(
                        f"{self._label}: {why}. Reconnecting; if the program still runs, its output will follow"
                    )
            self._news.wait(_POLL_S)

    def _ctrl_c(self) -> None:
        """Handle Ctrl-C: cancel a start that has not connected yet; while disconnected, detach at the second one.

        While connected, do nothing: the program receives it.
        """
        if not self._relay.connections:
            self._is_cancelled = True
            return
        if not self._relay.why:
            return
        before, now = self._last_ctrl_c, time.monotonic()
        self._last_ctrl_c = now  # set before the message, which the next Ctrl-C may interrupt
        if now - before < DETACH_WITHIN_S:
            self._is_detached.set()
            self._news.set()
        else:
            self._say(
                "disconnected: the program receives your Ctrl-C later. Press it again to detach; the program keeps running"
            )

    def _say(self, text: str) -> None:
        with contextlib.suppress(OSError):  # this process's terminal may be closed
            sys.stderr.write(f"dkdbg: {text}" + ("\r\n" if self._tty else "\n"))
            sys.stderr.flush()

    def _copy_in(self, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := os.read(0, _CHUNK):
                if self._tty and _CTRL_C in data:
                    self._ctrl_c()
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        """Pass terminating signals and terminal sizes on to the program."""

        def passed_on(number: int, _frame: FrameType | None) -> None:
            if number == signal.SIGINT:
                self._ctrl_c()
            elif not self._relay.connections:
                self._is_cancelled = True
            elif self._relay.why:  # SIGHUP or SIGTERM: do not wait for the network
                self._is_detached.set()
                self._news.set()
            if number == signal.SIGHUP and self._tty and not os.isatty(0):
                # The window was closed, but the remote terminal stays open. SIGTERM is sent as well, because a
                # supervisor takes SIGHUP alone for a restart.
                self._relay.tell(wire.SIGNAL, bytes([signal.SIGTERM]))
            self._relay.tell(wire.SIGNAL, bytes([number]))

        def resized(_number: int, _frame: FrameType | None) -> None:
            with contextlib.suppress(OSError):
                size = os.get_terminal_size(0)
                self._relay.tell(wire.SIZE, size.lines.to_bytes(2, "big") + size.columns.to_bytes(2, "big"))

        sizes = [signal.SIGWINCH] if self._tty else []
        with signals.handled(passed_on), signals.handled(resized, sizes):
            yield

    @contextlib.contextmanager
    def _raw(self) -> Iterator[None]:
        """Set our terminal to raw mode; the program's terminal interprets the keys."""
        if not self._tty:
            yield
            return
        former = termios.tcgetattr(0)
        raw_terminal.setraw(0)
        try:
            yield
        finally:
            with contextlib.suppress(termios.error):  # the terminal may be closed
                termios.tcsetattr(0, termios.TCSADRAIN, former)


def _copy_out(source: socket.socket, target: int) -> None:
    try:
        while data := source.recv(_CHUNK):
            left = memoryview(data)
            while left:
                left = left[os.write(target, left) :]
    except OSError:  # standard output is closed: pass that on, so that the program gets EPIPE
        sockets.shut(source)
