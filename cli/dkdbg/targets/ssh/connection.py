"""Share one OpenSSH connection among all commands: a control master process, and its socket in a private folder.

The user's own control master is used where `ssh -O check` finds one, so that a second factor is needed only once.
Otherwise all dkdbg processes of a user share their own, which exits some seconds after its last command, and at
`close`.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import math
import os
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from dkdbg import process
from dkdbg.agent.state import runtime_dir
from dkdbg.errors import EXIT_TIMEOUT, DkdbgError
from dkdbg.printable import printable_lines
from dkdbg.targets.ssh.command import PLAIN_SESSION, SshExecutor
from dkdbg.targets.ssh.errors import explain

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import BinaryIO

    from dkdbg.targets.ssh.command import SshHosts

#: Seconds that the control master stays without a command.
_PERSIST_S = 15
#: Timeouts to connect without a prompt, and for a control command to a local ssh process.
CONNECT_LIMIT, _CONTROL_TIMEOUT_S = 30.0, 5.0
#: Seconds between two polls of a starting process.
_POLL_S = 0.02
#: Seconds until the user gets a message that connecting takes long, or that another process is connecting.
_REPORT_AFTER_S, _REPORT_LOCK_AFTER_S = 20.0, 1.0
#: Maximum bytes of ssh's output to read.
_MAX_OUTPUT_BYTES = 1 << 16
#: Maximum bytes of the folder's path: the limit for a socket is 107, and ssh appends 17 while it creates one.
_MAX_FOLDER_BYTES = 60


class SharedConnection:
    """The connection to one host; thread-safe."""

    def __init__(self, hosts: SshHosts) -> None:
        self._hosts = hosts
        self._lock = threading.Lock()
        self._options: tuple[str, ...] | None = None
        self._folder = ""
        self._socket = ""
        self._avoids_users = False
        self._closed = False

    def executor(self, *, asks: bool = True, limit: float = CONNECT_LIMIT) -> SshExecutor:
        """Connect if necessary, and return an executor over this connection.

        Args:
            asks: whether ssh may ask for a password or a host key if there is a terminal; otherwise it fails.
            limit: timeout in seconds without a prompt.

        Raises:
            DkdbgError: connecting failed, with ssh's reason; or `close` was called.
        """
        with self._lock:
            if self._closed:
                raise DkdbgError(f"ssh://{self._hosts.name}: the connection was closed")
            if self._options is None and not self._avoids_users and self._is_running(()):
                self._options = ()  # the user's own connection, which ssh finds by its settings
            if self._options is None or (self._options and not self._is_running(self._options)):
                self._options = self._own(asks=asks, limit=limit)
            return SshExecutor(hosts=self._hosts, options=self._options, label=self._hosts.name)

    def drop(self) -> None:
        """Give up a dead connection: stop dkdbg's own, or leave the user's own alone and use dkdbg's from now on."""
        with self._lock:
            if self._options:
                self._control("exit", self._options)
            self._avoids_users = True
            self._options = None

    def is_connected(self) -> bool:
        """Return whether the control master runs; the network may be down."""
        options = self._options
        return options is not None and self._is_running(options)

    def close(self) -> None:
        """Stop dkdbg's own connection after the last command over it, of any process, and remove its folder."""
        self._closed = True  # before the lock, which a connecting `executor` holds: that now ends
        with self._lock:
            if self._options:
                self._control("stop", self._options)
            # Keep the folder while another dkdbg process creates its socket in it.
            if self._folder and (lock := _lock(self._folder)) is not None:
                with contextlib.suppress(OSError):
                    Path(self._folder).rmdir()
                    Path(self._folder).parent.rmdir()
                os.close(lock)

    def _own(self, *, asks: bool, limit: float) -> tuple[str, ...]:
        """Return the options of ssh for dkdbg's own control master; start it if it does not run."""
        asks = asks and _has_terminal()
        # Only one process at a time connects to a host. If two start together, the second finds the socket in use, and
        # its connection can be neither shared nor stopped. There is no timeout while the user is prompted.
        end = math.inf if asks else time.monotonic() + limit
        name = self._hosts.name
        self._folder, lock = _locked_folder(name, lambda: self._closed or time.monotonic() > end, tells=asks)
        try:
            self._socket = str(Path(self._folder, "s"))
            options = ("-o", "ControlMaster=no", "-S", self._socket)
            if not self._is_running(options):
                with contextlib.suppress(OSError):  # left by a process that was killed
                    Path(self._socket).unlink()
                self._start(asks=asks, limit=limit)
        finally:
            os.close(lock)
        return options

    def _start(self, *, asks: bool, limit: float) -> None:
        batch = () if asks or os.environ.get("SSH_ASKPASS") else ("-o", "BatchMode=yes")
        argv = (
            "ssh", "-f", "-N", "-T", "-S", self._socket, "-o", "ControlMaster=yes", "-o", f"ControlPersist={_PERSIST_S}",
            "-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3", *self._connect_timeout(), *batch,
            *PLAIN_SESSION, *self._hosts.destination(),
        )  # fmt: skip
        with tempfile.TemporaryFile("w+b") as stderr:  # the control master would keep a pipe open
            # An ssh that may prompt stays in this process's session: it needs the terminal and must receive Ctrl-C.
            running = process.start(
                argv, stdout=process.DISCARD, stderr=stderr.fileno(), new_session=not asks
            )
            shown, is_reported, begun = 0, False, time.monotonic()
            deadline = begun + limit
            try:
                while running.poll() is None:
                    if self._closed or (not asks and time.monotonic() > deadline):
                        raise DkdbgError(
                            f"ssh://{self._hosts.name} does not answer within {limit:g} s",
                            hint="is the network or the VPN up? ssh -v shows how far it gets",
                            exit_code=EXIT_TIMEOUT,
                        )
                    shown += self._show(stderr, shown) if asks else 0
                    if asks and not is_reported and time.monotonic() > begun + _REPORT_AFTER_S:
                        is_reported = True
                        sys.stderr.write(
                            f"\r\ndkdbg: ssh://{self._hosts.name}: still connecting; is the VPN up? Ctrl-C ends\r\n"
                        )
                    time.sleep(_POLL_S)
            except BaseException:
                _end(running.pid, whole_session=not asks)
                running.wait()
                raise
            text = _read(stderr, 0)
        if running.returncode:
            raise explain(self._hosts, text + self._said_by_a_hop())

    def _connect_timeout(self) -> tuple[str, ...]:
        """Return ssh options for a connect timeout; empty behind a hop, or if the user has set a timeout.

        `ConnectTimeout` on the command line overrides that of ~/.ssh/config. Behind a hop it covers the whole login at
        the hop, including a passphrase or a one-time password.
        """
        with contextlib.suppress(DkdbgError):
            answer = process.run(["ssh", "-G", *self._hosts.destination()], timeout=_CONTROL_TIMEOUT_S).stdout
            settings = dict(line.partition(" ")[::2] for line in answer.splitlines())
            if all(
                settings.get(name, "none") == "none"
                for name in ("connecttimeout", "proxyjump", "proxycommand")
            ):
                return ("-o", "ConnectTimeout=10")
        return ()

    def _said_by_a_hop(self) -> str:
        """Return the messages of the ssh that connects to a hop: ssh discards them for a shared connection."""
        if len(self._hosts.hops) < 2:
            return ""
        argv = ["ssh", "-T", "-S", "none", "-o", "BatchMode=yes", *PLAIN_SESSION]
        with contextlib.suppress(DkdbgError):
            asking = [*argv, *self._hosts.destination(), "exit"]
            return "\n" + process.read(asking, max_bytes=_MAX_OUTPUT_BYTES, timeout=CONNECT_LIMIT).stderr
        return ""

    @staticmethod
    def _show(stderr: BinaryIO, start: int) -> int:
        """Print ssh's new output around a prompt, such as a server's banner; return its bytes."""
        text = _read(stderr, start)
        sys.stderr.write(printable_lines(text))
        return len(text.encode())

    def _is_running(self, options: tuple[str, ...]) -> bool:
        return self._control("check", options)

    def _control(self, word: str, options: tuple[str, ...]) -> bool:
        """Send a control command to the master; return whether it succeeds."""
        try:
            done = process.run(
                ["ssh", *options, "-O", word, *self._hosts.destination()], timeout=_CONTROL_TIMEOUT_S
            )
        except DkdbgError as error:
            if error.exit_code == EXIT_TIMEOUT:
                return False
            raise
        return done.code == 0


def _locked_folder(name: str, is_over: Callable[[], bool], *, tells: bool) -> tuple[str, int]:
    """Return the folder for a host's socket, and a descriptor that locks it against other dkdbg processes until closed.

    Args:
        name: name of the host.
        is_over: returns whether to stop waiting for a process that is connecting.
        tells: whether to report such a process to the user.

    Raises:
        DkdbgError: there is no usable folder, or the lock was not released until `is_over`.
    """
    report_at = time.monotonic() + _REPORT_LOCK_AFTER_S if tells else math.inf
    while (lock := _lock(folder := _private_folder(name))) is None:
        if is_over():
            raise DkdbgError(
                "another dkdbg is still connecting to this host", hint="try again once it has connected or ended",
                exit_code=EXIT_TIMEOUT,
            )  # fmt: skip
        if time.monotonic() > report_at:
            report_at = math.inf
            sys.stderr.write(f"dkdbg: waiting for another dkdbg that is connecting to ssh://{name}\n")
        time.sleep(_POLL_S)
    return folder, lock


def _lock(folder: str) -> int | None:
    """Return a descriptor that locks the folder; None while another process holds it, or has removed the folder."""
    lock = None
    try:
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(lock), Path(folder).stat()):
            return lock
    except (FileNotFoundError, BlockingIOError):
        pass
    if lock is not None:
        os.close(lock)
    return None


def _read(stderr: BinaryIO, start: int) -> str:
    return os.pread(stderr.fileno(), _MAX_OUTPUT_BYTES, start).decode("utf-8", "replace")


def _end(pid: int, *, whole_session: bool) -> None:
    """Stop ssh; with `whole_session` also its ssh to a hop, which could outlive it while connecting."""
    with contextlib.suppress(OSError):
        if whole_session:
            os.killpg(pid, signal.SIGKILL)
        else:
            os.kill(pid, signal.SIGTERM)


def _has_terminal() -> bool:
    """Return whether ssh can prompt the user: it uses the terminal, regardless of its standard input."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR))
    except OSError:
        return False
    return True


def _private_folder(name: str) -> str:
    """Return a folder for a host's socket that other users cannot enter. Raises DkdbgError: none can be created."""
    session = os.environ.get("XDG_RUNTIME_DIR", "")
    try:
        if session and Path(session).is_dir() and len(os.fsencode(session)) < _MAX_FOLDER_BYTES:
            found = runtime_dir.open_runtime_dir(str(Path(session, "dkdbg")))
        else:
            found = runtime_dir.private_folder(f"dkdbg-ssh-{os.getuid()}")
        folder = Path(found, hashlib.sha256(name.encode()).hexdigest()[:12])
        # Another dkdbg may just have removed the folder above; then the caller cannot lock this one, and tries again.
        with contextlib.suppress(FileNotFoundError):
            folder.mkdir(mode=0o700, exist_ok=True)
    except (OSError, runtime_dir.RuntimeDirError) as error:
        raise DkdbgError(f"cannot create a private folder for ssh's socket: {error}") from error
    return str(folder)
