"""Runs the adapter process with the root session stub, and starts a new pair if the adapter dies."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import socket
import subprocess
import sys
import threading
import time

from dkdbg.agent import sockets
from dkdbg.agent.inprocess import adapter, duration
from dkdbg.agent.inprocess.pydevd_patches import privates

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Optional

    from dkdbg.agent.proxy.adapter import root_stub

#: Seconds until the adapter must report that it serves. A cold start from a slow disk takes 2.
START_TIMEOUT_S = 30.0
#: Maximum restarts in a row; seconds of life after which the count starts again.
MAX_RESTARTS = 5
HEALTHY_AFTER_S = 60.0


class BackendError(RuntimeError):
    """The adapter did not start; the message has the reason in one line."""


class Backend:
    """Adapter behind the listener.

    Args:
        debugpy_dir: folder that holds the `debugpy` package.
        processes: path of the socket for the user's processes, in the folder where they announce themselves.
        announce: the listener's port, which the adapter announces as its own.
        make_stub: makes the root session stub from a connection to the adapter and `on_lost`.
        on_lost: called when the adapter has died.
        on_restart: called after a new adapter has taken over; processes have to join again.
        log: takes one line for the user.

    Attributes:
        token: the adapter shows it to a process that joins.
        up: whether an adapter serves now. gone: no adapter will be started any more.
    """

    def __init__(
        self,
        debugpy_dir: str,
        processes: str,
        announce: int,
        *,
        make_stub: Callable[..., root_stub.RootStub],
        on_lost: Callable[[], None],
        on_restart: Callable[[], None],
        log: Callable[[str], None],
    ) -> None:
        self.token = secrets.token_hex(16)
        self.up = False
        self.gone = False
        self._debugpy_dir = debugpy_dir
        self._processes = processes
        self._announce = announce
        self._make_stub = make_stub
        self._on_lost = on_lost
        self._on_restart = on_restart
        self._log = log
        self._restarts = 0
        self._started = 0.0
        self._stopping = False
        self._process: Optional[subprocess.Popen[bytes]] = None
        self._adapter: Optional[socket.socket] = None
        self._root_stub: Optional[root_stub.RootStub] = None

    @property
    def attached(self) -> bool:
        """Return whether an editor has finished attaching and has not left."""
        return self._root_stub is not None and self._root_stub.attached.is_set()

    def start(self) -> None:
        """Start the adapter and connect the root session stub. Raises BackendError: the adapter did not come up."""
        command = [sys.executable, "-I", "-S", os.path.abspath(adapter.__file__)]
        environment = {k: v for k, v in os.environ.items() if k != "DEBUGPY_ADAPTER_ENDPOINTS"}
        own_end, peer_end = socket.socketpair()
        try:
            with peer_end:
                process = subprocess.Popen(
                    command,
                    env=environment,
                    stdin=peer_end.fileno(),
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,  # so that a Ctrl-C in the terminal reaches only the program
                )
        except OSError as error:
            own_end.close()
            raise BackendError("cannot start %s: %s" % (sys.executable, error)) from error
        self._process, self._adapter = process, own_end
        self._started = time.monotonic()
        options = {
            "debugpy": self._debugpy_dir,
            "token": self.token,
            "announce": self._announce,
            "processes": self._processes,
            "privates": os.path.abspath(privates.__file__),
        }
        _exchange(process, own_end, options)
        self._root_stub = self._make_stub(sockets.ask(own_end, b"p"), on_lost=self._restart_later)
        self.up = True

    def dial(self) -> Optional[socket.socket]:
        """Return a connection to the adapter for a client, None while it does not serve."""
        adapter = self._adapter
        if not self.up or adapter is None:
            return None
        try:
            return sockets.ask(adapter, b"c")
        except OSError:  # the adapter has died
            return None

    def say(self, text: str, category: str = "console") -> None:
        """Print a line into the editor's debug console."""
        if self._root_stub is not None:
            self._root_stub.say(text, category)

    def end(self, exit_code: Optional[int]) -> None:
        """End the editor's session; see `RootStub.end`."""
        self._stopping = True
        if self._root_stub is not None:
            self._root_stub.end(exit_code)

    def stop(self) -> None:
        """End the adapter process."""
        self._stopping = True
        if self._root_stub is not None:
            self._root_stub.close()
        self._end_process()

    def _end_process(self) -> None:
        if self._process is not None:
            self._process.kill()
            with self._process:  # closes its pipe too
                pass
        if self._adapter is not None:
            self._adapter.close()

    def _restart_later(self) -> None:
        if not self._stopping:
            self.up = False
            self._on_lost()
            threading.Thread(target=self._restart, name="dkdbg restart", daemon=True).start()

    def _restart(self) -> None:
        self._restarts = 0 if time.monotonic() - self._started > HEALTHY_AFTER_S else self._restarts
        why = ""
        while not self._stopping:
            self.up = False
            self._end_process()
            self._restarts += 1
            if self._restarts > MAX_RESTARTS:
                self.gone = True
                self._log(
                    "debugpy's adapter died %d times: debugging is off for the rest of this run%s"
                    % (self._restarts, why)
                )
                return
            time.sleep(0.1 * self._restarts)
            try:
                self.start()
            except (OSError, RuntimeError) as error:  # it died again, or no thread can be started
                why = " (%s)" % error
                continue
            self._log("debugpy's adapter died; a new one is ready, and an attached editor stays attached")
            self._on_restart()
            return


class WarmUp:
    """Writes debugpy's .pyc files once, in parallel with the program and at the lowest priority.

    The zip contains only sources, and images often set PYTHONDONTWRITEBYTECODE: without these files the first stop of
    each run would take 0.2 s longer.
    """

    def __init__(self, debugpy_dir: str) -> None:
        self._process: Optional[subprocess.Popen[bytes]] = None
        parts = ("debugpy", "_vendored", "pydevd", "_pydevd_bundle", "_debug_adapter", "__pycache__")
        largest = "pydevd_schema.%s.pyc" % sys.implementation.cache_tag
        if os.path.exists(os.path.join(debugpy_dir, *parts, largest)):
            return
        code = "import os, sys; os.nice(19); sys.path.insert(0, sys.argv[1]); import debugpy.server.api"
        with contextlib.suppress(OSError):
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", code, debugpy_dir],
                env=dict(os.environ, PYDEVD_DISABLE_FILE_VALIDATION="1"),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )

    def stop(self) -> None:
        """End the process, even if unfinished: each file is written atomically."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()


def _exchange(process: subprocess.Popen[bytes], adapter: socket.socket, options: dict[str, object]) -> None:
    """Send the adapter its options and wait until it serves. Raises BackendError: it does not serve."""
    if process.stdout is None:
        raise BackendError("no pipe to debugpy's adapter")
    limit = duration.later(START_TIMEOUT_S, process.kill)
    try:
        adapter.sendall(json.dumps(options).encode() + b"\n")
        line = process.stdout.readline()
    except OSError:
        line = b""
    limit.cancel()
    answer: dict[str, object] = {}
    with contextlib.suppress(ValueError):
        answer = json.loads(line.decode())
    if answer.get("serves") is True:
        return
    process.kill()
    process.wait()
    message = "debugpy's adapter ended with code %s before it listened" % process.returncode
    missing = answer.get("missing")
    if isinstance(missing, list):
        version = os.path.basename(str(options["debugpy"]))
        message = "%s is incompatible with this dkdbg: it lacks %s" % (version, ", ".join(missing))
    raise BackendError(message)
