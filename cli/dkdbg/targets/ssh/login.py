"""The host where a batch system's commands are: behind ssh, or this machine."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from dkdbg import process
from dkdbg.core.local_commands import Local
from dkdbg.targets.ssh.command import FAILED, SshReach
from dkdbg.targets.ssh.connection import CONNECT_LIMIT, SharedConnection
from dkdbg.targets.ssh.errors import explain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dkdbg.core.target import Reach
    from dkdbg.targets.ssh.command import SshHosts

#: Bytes of what a batch system answers.
_MOST = 1 << 22


class Login:
    """Runs commands there; from any thread. `enter` and `close` count who needs it."""

    def __init__(self, hosts: SshHosts | None) -> None:
        self._hosts = hosts
        self._connection = SharedConnection(hosts) if hosts is not None else None
        self._users = 0

    def enter(self) -> Login:
        """One more needs it."""
        self._users += 1
        return self

    def reach(self, *, asks: bool = True, limit: float = CONNECT_LIMIT) -> Reach:
        """The host, connected to.

        Args:
            asks, limit: see `SharedConnection.options`.

        Raises:
            DkdbgError: it cannot be.
        """
        if self._hosts is None or self._connection is None:
            return Local(python=sys.executable, label="this machine")
        options = self._connection.options(asks=asks, limit=limit)
        return SshReach(hosts=self._hosts, options=options, label=self._hosts.name)

    def read(self, argv: Sequence[str], *, limit: float) -> process.Result:
        """Run a local command line that leads there to its end.

        Raises:
            DkdbgError: ssh has lost its way, or it does not end within `limit` seconds.
        """
        done = process.read(argv, most=_MOST, timeout=limit)
        if done.code == FAILED and self._hosts is not None and not self.is_there():
            raise explain(self._hosts, done.stderr)
        return done

    def is_there(self) -> bool:
        """Whether the connection stands, as far as this machine knows."""
        return self._connection is None or self._connection.is_there()

    def drop(self) -> None:
        """Make the connection anew: nothing comes through it any more."""
        if self._connection is not None:
            self._connection.drop()

    def close(self) -> None:
        """One less needs it: the last one ends the connection, with its last command."""
        self._users -= 1
        if self._connection is not None and self._users <= 0:
            self._connection.close()
