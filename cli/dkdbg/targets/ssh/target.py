"""Target for a host behind ssh, through any number of hops: `ssh://me@login,node1/home/me/code`."""

from __future__ import annotations

import secrets
import threading
from dataclasses import replace
from typing import TYPE_CHECKING

from dkdbg import process
from dkdbg.core import sessions
from dkdbg.core.address import Address
from dkdbg.core.brought import LISTING, is_agent, relay_words
from dkdbg.core.known_errors import last_line
from dkdbg.core.mapping import Workspace
from dkdbg.core.record import BadRecord, SeenRecord
from dkdbg.core.target import Capability, Endpoint, Kind, Target
from dkdbg.delivery.bring import bring
from dkdbg.errors import EXIT_USAGE, DkdbgError, GoneError
from dkdbg.printable import printable
from dkdbg.relay import remote_sessions
from dkdbg.relay.remote_sessions import RelayedEndpoint
from dkdbg.targets.ssh.command import FAILED, SshExecutor, hosts_of, quoted
from dkdbg.targets.ssh.connection import CONNECT_LIMIT, SharedConnection
from dkdbg.targets.ssh.errors import explain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dkdbg.core.sessions import SeenSession
    from dkdbg.core.target import Executor
    from dkdbg.delivery.bring import Brought

SCHEME = "ssh"
#: Folder below the remote user's home, for repositories whose target names no folder.
HOME_FOLDER = "dkdbg"
#: Timeouts for the answers of the remote shell and of an agent; maximum bytes of the shell's answer.
_SHELL_TIMEOUT_S, _AGENT_TIMEOUT_S = 30.0, 30.0
_MAX_ANSWER_BYTES = 1 << 20
#: Query for any login shell. Its answer: a mark, because other output may precede it, then user, host, folder, and the
#: user's agents.
_PROBE_SCRIPT = """\
cd {folder} 2>/dev/null || {{ printf '\\n%s gone\\n' {marker}; exit 0; }}
printf '\\n%s there\\n%s\\n%s\\n%s\\n' {marker} "$(id -un)" "$(uname -n)" "$PWD"
{listing}"""


class SshTarget(Target):
    """A host behind ssh; see `core/target.py`."""

    capabilities = frozenset({Capability.REMOTE, Capability.NEEDS_WORKDIR})

    def __init__(self, address: Address) -> None:
        super().__init__(address)
        self._hosts = hosts_of(address)
        self._connection = SharedConnection(self._hosts)
        self._lock = threading.RLock()
        self._executor: SshExecutor | None = None
        self._folder = ""
        self._agents: tuple[str, ...] = ()
        self._host = ""
        self._brought: Brought | None = None
        self._endpoint = RelayedEndpoint(self._relayed)

    @property
    def label(self) -> str:
        """Return the hosts."""
        return self._hosts.name

    def find(self) -> Executor:
        """Connect, and find out the user name and the folder on the host."""
        with self._lock:
            self._executor = self._probe_again(asks=True)
            return self._executor

    @property
    def names_workdir(self) -> bool:
        """Return whether the address names a folder."""
        return bool(self._hosts.folder)

    def in_workdir(self, folder: str) -> SshTarget:
        """Return the target with the folder appended to its address."""
        return SshTarget(Address(scheme=SCHEME, rest=f"{self.address.rest}{folder}"))

    def planned_workdir(self, name: str) -> Workspace:
        """Return the folder of the address, or one below the user's home."""
        home, _, below = self._hosts.folder.partition("/")
        if self._hosts.folder and home != "~":
            return Workspace(local=".", remote=self._hosts.folder, why="the target names it")
        with self._lock:
            _, _, found, *_ = self._probe(self._connection.executor(), at="")
        why = "the target names it" if home else "dkdbg run --sync uses it"
        return Workspace(
            local=".", remote=f"{found}/{below if home else f'{HOME_FOLDER}/{name}'}".rstrip("/"), why=why
        )

    def with_workdir(self, name: str) -> SshTarget:
        """Create the working directory with `mkdir -p`; return the target with it."""
        if not self._hosts.folder:
            return SshTarget(
                Address(scheme=SCHEME, rest=f"{self.address.rest}/~/{HOME_FOLDER}/{name}")
            ).with_workdir(name)
        outside = self._connection.executor()
        making = outside.script(f"mkdir -p -- {quoted(self._hosts.folder)}")
        done = process.read(making, max_bytes=_MAX_ANSWER_BYTES, timeout=_SHELL_TIMEOUT_S)
        if done.code == FAILED:
            raise explain(self._hosts, done.stderr)
        if done.code:
            self._probe(outside, at="")  # raises if no command can be run at all
            why = last_line(done.stderr) or f"exit code {done.code}"
            raise DkdbgError(
                f"the folder {self._hosts.folder} cannot be created on {self.label}: {why}",
                hint=f"name another: {SCHEME}://{self.label}/FOLDER",
            )
        return self

    def wrap(self, argv: Sequence[str], *, tty: bool = False) -> tuple[str, ...]:
        """Wrap a command with `ssh`."""
        return self._found().wrap(argv, tty=tty)

    def agent(self) -> tuple[str, ...] | None:
        """Return the command of an agent on the host: that of a session, or an agent sent to the host until `close`."""
        with self._lock:
            self._found()
            if self._agents:
                return ("sh", self._agents[-1])
            if self._brought is None:
                self._brought = bring(self._found())
            return self._brought.argv

    def workspace(self) -> Workspace:
        """Return the folder of the address."""
        if not self._hosts.folder:
            raise DkdbgError(
                f"{self.address} names no folder, so the location of the code is unknown",
                hint=f"{self.address}/home/me/code, or --to /home/me/code",
                exit_code=EXIT_USAGE,
            )
        self._found()
        return Workspace(local=".", remote=self._folder, why="the target names it")

    def endpoint(self) -> Endpoint:
        """Return the endpoint of the newest session on the host, through a relay, which survives a loss of ssh."""
        with self._lock:
            if why := self._endpoint.why:  # the relay reconnects on its own
                return Endpoint(address=None, why=f"{self.label}: {why}")
            try:
                self._executor = self._probe_again(asks=self._executor is None)
                found = self._records()
            except DkdbgError as error:
                return Endpoint.failed(error)
            return self._endpoint.of(found, why_none=f"no session runs on {self.label}", run=self.run)

    def sessions(self) -> list[SeenSession]:
        """Return the sessions that the host's agents report, without sending an agent."""
        self.find()
        where = f"{SCHEME} {self.label}"
        return sessions.of_records(self._records(), target=where, address=str(self.address), label=self.label)

    def lost(self) -> str:
        """Return why a command that exited with ssh's own code 255 lost its connection; empty if it did not lose it."""
        return "" if self._connection.is_connected() else f"the connection to {self.label} was lost"

    def again(self, *, silent: bool, limit: float) -> SshExecutor:
        """Return an executor over the shared connection, or over a new one if the shared one is lost or went silent."""
        if silent:
            self._connection.drop()
        return self._connection.executor(asks=False, limit=limit)

    def close(self) -> None:
        """Close the relay, release the agent, and close the connection; wait for no query."""
        self._endpoint.close()
        brought, self._brought = self._brought, None
        if brought is not None:
            brought.close()
        self._connection.close()

    def _found(self) -> SshExecutor:
        with self._lock:
            if self._executor is None:
                self.find()
            assert self._executor is not None  # noqa: S101 - or `find` has raised
            return self._executor

    def _probe_again(self, *, asks: bool) -> SshExecutor:
        asking = self._connection.executor(asks=asks, limit=CONNECT_LIMIT)
        user, host, self._folder, *agents = self._probe(asking)
        self._host = host
        self._agents = tuple(agents)
        return replace(asking, label=f"{SCHEME}://{self._hosts.name} ({printable(user)}@{printable(host)})")

    def _relayed(self, word: str, silent: bool, limit: float) -> tuple[str, ...]:
        """Return the relay's command line; called on the relay's thread, concurrently with `endpoint`."""
        is_new = silent or not self._connection.is_connected()
        executor = self.again(silent=silent, limit=limit)
        agents = self._agents
        if is_new:
            _, host, _, *found = self._probe(executor)
            if host != self._host:  # several login nodes share the name; the session runs on another one
                self._connection.drop()
                raise DkdbgError(
                    f"{self._hosts.name} now leads to {printable(host)}, but the session runs on {printable(self._host)}"
                )
            agents = tuple(found)
        if not agents:
            raise GoneError(f"no session runs on {self.label}")
        return executor.wrap(relay_words(("sh", agents[-1]), word))

    def _probe(self, executor: SshExecutor, at: str | None = None) -> list[str]:
        """Return user, host name, folder, and the paths of the agents on the host.

        Args:
            at: the folder, empty for the user's home; None for the folder of the address.
        """
        at = self._hosts.folder if at is None else at
        marker = f"dkdbg-{secrets.token_hex(8)}"
        folder = quoted(at) if at else "."
        looking = executor.script(_PROBE_SCRIPT.format(marker=marker, folder=folder, listing=LISTING))
        done = process.read(looking, max_bytes=_MAX_ANSWER_BYTES, timeout=_SHELL_TIMEOUT_S)
        text = done.stdout.rpartition(f"\n{marker} ")[2].splitlines() if f"\n{marker} " in done.stdout else []
        if text[:1] == ["gone"]:
            raise DkdbgError(
                f"there is no folder {printable(self._hosts.folder)} on {self.label}, or you may not enter it",
                hint=f"name another: {SCHEME}://{self.label}/FOLDER; without a folder, dkdbg uses your home",
            )
        if text[:1] == ["there"] and len(text) >= 4:
            return [*text[1:4], *dict.fromkeys(filter(is_agent, text[4:]))]
        if done.code == FAILED:
            raise explain(self._hosts, done.stderr)
        last = last_line(done.stderr) or last_line(done.stdout) or f"exit code {done.code}"
        raise DkdbgError(
            f"no command can be run on {self.label}: {last}",
            hint="dkdbg needs a login shell and sh on the host: ssh HOST true must work",
        )

    def _records(self) -> list[SeenRecord | str]:
        """Return the records of the host's sessions, oldest first; for an unreadable record, the reason as text."""
        if not self._agents:
            return []
        try:
            return remote_sessions.records(self._found(), ("sh", self._agents[-1]), limit=_AGENT_TIMEOUT_S)
        except BadRecord as error:
            return [str(error)]


KIND = Kind(target=lambda address, _root: SshTarget(address))
