"""The host that has a batch system's commands: behind ssh, or this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dkdbg import process
from dkdbg.core.target import Local
from dkdbg.targets.ssh.command import FAILED
from dkdbg.targets.ssh.connection import CONNECT_LIMIT, SharedConnection
from dkdbg.targets.ssh.errors import explain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dkdbg.core.target import Executor
    from dkdbg.targets.ssh.command import SshHosts

#: Maximum bytes of a batch system's answer.
_MAX_ANSWER_BYTES = 1 << 22


class Login:
    """Shared access to the host of a batch system's commands; thread-safe. `enter` and `close` count its users."""

    def __init__(self, hosts: SshHosts | None) -> None:
        self._hosts = hosts
        self._connection = SharedConnection(hosts) if hosts is not None else None
        self._users = 0

    def enter(self) -> Login:
        """Add a user of this object."""
        self._users += 1
        return self

    def executor(self, *, asks: bool = True, limit: float = CONNECT_LIMIT) -> Executor:
        """Connect to the host.

        Args:
            asks, limit: see `SharedConnection.executor`.

        Raises:
            DkdbgError: connecting failed.
        """
        if self._hosts is None or self._connection is None:
            return Local(label="this machine")
        return self._connection.executor(asks=asks, limit=limit)

    def read(self, argv: Sequence[str], *, limit: float) -> process.Result:
        """Run a command line from the host's `Executor` on this machine, and return its result.

        Raises:
            DkdbgError: ssh has lost the connection, or the command does not exit within `limit` seconds.
        """
        done = process.read(argv, max_bytes=_MAX_ANSWER_BYTES, timeout=limit)
        if done.code == FAILED and self._hosts is not None and not self.is_connected():
            raise explain(self._hosts, done.stderr)
        return done

    def is_connected(self) -> bool:
        """Return whether the connection exists, as far as this machine knows."""
        return self._connection is None or self._connection.is_connected()

    def drop(self) -> None:
        """Give up a dead connection, so that the next `executor` connects again."""
        if self._connection is not None:
            self._connection.drop()

    def close(self) -> None:
        """Remove a user; the last one closes the connection, after its last command."""
        self._users -= 1
        if self._connection is not None and self._users <= 0:
            self._connection.close()
