"""Connect to one node of a job, by ssh or by a job step. Each reconnect looks up the node: the job may have moved."""

from __future__ import annotations

import dataclasses
import secrets
import shlex
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from dkdbg.agent.state import deadlines
from dkdbg.core.brought import LISTING, is_agent, relay_words
from dkdbg.core.known_errors import last_line
from dkdbg.core.target import Executor
from dkdbg.errors import DkdbgError, GoneError
from dkdbg.printable import printable
from dkdbg.relay.relay import Relay
from dkdbg.targets.batch.job import choose_node
from dkdbg.targets.ssh.command import PLAIN_SESSION, enter, for_any_shell
from dkdbg.targets.ssh.connection import CONNECT_LIMIT

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dkdbg.agent.contract import Deadline
    from dkdbg.core.jobs import Job
    from dkdbg.targets.batch.job import BatchSystem, JobAddress
    from dkdbg.targets.ssh.login import Login

#: Timeouts for an answer of the batch system, which may be busy, and of a node.
_SYSTEM_TIMEOUT_S, _NODE_TIMEOUT_S = 45.0, 45.0
Way = Literal["ssh", "step"]
#: Connect timeout for the sshd of a node.
_CONNECT_TIMEOUT_S = 5
#: Query of a node. Its answer: a mark, because other output may precede it, then user and host, and the files of the
#: user's agents.
_NODE_SCRIPT = """\
printf '\\n%s there\\n%s\\n%s\\n' {marker} "$(id -un)" "$(uname -n)"
{listing}"""


#: Script that starts the keeper and the process that talks to it, and gives both the first input line, which holds a
#: secret. `read` and `printf` are shell builtins, so the line appears in no list of processes.
_STARTING = """\
IFS= read -r line || exit 1
printf '%s\\n' "$line" | setsid {kept} >/dev/null 2>&1 &
exec 3<&0
{{ printf '%s\\n' "$line"; exec cat <&3; }} | {spoken} 3<&-
"""


@dataclass(frozen=True, kw_only=True)
class Node:
    """A node of a job, and how to reach it.

    Attributes:
        agents: files of the user's agents on the node.
    """

    job: Job
    executor: JobNode
    agents: tuple[str, ...]


class JobLine:
    """One node of a job, shared by any number of targets; thread-safe. `enter` and `leave` count the targets.

    Args:
        address: address of the node, or of the job for its first node.
        shown: the address, for messages.

    Attributes:
        nodes: the job's nodes, as of the last query.
    """

    def __init__(self, system: BatchSystem, login: Login, address: JobAddress, shown: str) -> None:
        self._system = system
        self.login = login.enter()
        self._address = address
        self._shown = shown
        self._lock = threading.RLock()
        self._node: Node | None = None
        self._way: tuple[str, Way] | None = None
        self._relay: Relay | None = None
        self._ports: dict[str, int] = {}
        self._deadlines: tuple[Deadline, ...] = ()
        self.nodes: tuple[str, ...] = ()
        self._users = 0

    def enter(self) -> JobLine:
        """Add a user of this object."""
        self._users += 1
        return self

    def leave(self) -> None:
        """Remove a user; the last one closes the connections."""
        self._users -= 1
        if self._users <= 0:
            if self._relay is not None:
                self._relay.close()
            self.login.close()

    def ask(self, *, asks: bool = False, limit: float = CONNECT_LIMIT) -> Job:
        """Query the batch system for the job. Raises DkdbgError: the query fails, or the job does not exist."""
        asking = ("sh", "-c", self._system.show(self._address.job))
        login = self.login.executor(asks=asks, limit=limit)
        done = self.login.read(login.wrap(asking), limit=_SYSTEM_TIMEOUT_S)
        job = self._system.read(self._address.job, done.code, done.stdout, done.stderr)
        self.nodes = job.nodes
        ends = None if job.left_s is None else time.time() + job.left_s
        self._deadlines = () if ends is None else (deadlines.of_job(self._system.name, job.id, ends),)
        return job

    @property
    def deadlines(self) -> tuple[Deadline, ...]:
        """Return the time limit of the job, as of the last query."""
        return self._deadlines

    def locate(self, *, asks: bool = False, limit: float = CONNECT_LIMIT) -> Node:
        """Find the node that the address selects now.

        Raises:
            DkdbgError: there is no such node, or no command can be run on it.
        """
        with self._lock:
            job = self.ask(asks=asks, limit=limit)
            name = choose_node(job, self._address, self._shown)
            former, found = self._node, self._enter(self.login.executor(asks=asks, limit=limit), job, name)
            self._node = found
            if self._relay is not None and former is not None and former.executor.node != name:
                self._relay.move()  # a connection by ssh may outlive the job's time on that node
            return found

    def found(self) -> Node:
        """Return the node found last; look it up if necessary."""
        return self._node or self.locate(asks=True)

    def again(self, *, silent: bool, limit: float) -> Node:
        """Find the node again after a lost connection, without a password prompt."""
        if silent:
            self.login.drop()
            self._way = None
        return self.locate(limit=limit)

    def lost(self) -> str:
        """Return why a command that exited with 255 lost its connection; empty if 255 is its own exit code."""
        if not self.login.is_connected():
            return f"the connection to {self._address.name} was lost"
        try:
            choose_node(self.ask(), self._address, self._shown)
        except DkdbgError as error:
            return error.message
        return ""

    @property
    def why(self) -> str:
        """Return why the relay is disconnected; empty if it is connected or not started."""
        return "" if self._relay is None else self._relay.why

    def lead(self, key: str, port: int) -> int:
        """Return the local port that forwards to `port` on the node's loopback, always the same for a `key`."""
        with self._lock:
            if self._relay is None:
                self._relay = Relay(self._relayed)
            if key not in self._ports:
                self._ports[key] = self._relay.listen(port)
            self._relay.aim(self._ports[key], port)
            return self._ports[key]

    def _relayed(self, word: str, silent: bool, limit: float) -> tuple[str, ...]:
        """Return the relay's command line; called on the relay's thread."""
        node = self.again(silent=silent, limit=limit)
        if not node.agents:
            raise GoneError(f"no session runs on {node.executor.label}")
        return node.executor.wrap(relay_words(("sh", node.agents[0]), word))

    def _enter(self, login: Executor, job: Job, name: str) -> Node:
        """Reach the node by ssh from the login node, or by a job step if ssh fails; remember the way that worked."""
        ways: tuple[Way, ...] = ("ssh", "step")
        if self._way is not None and self._way[0] == name:
            ways = (self._way[1],)
        elif not self._system.step(job.id, name, tty=False):
            ways = ("ssh",)
        lines = []
        for way in ways:
            executor = JobNode(
                login=login, node=name, way=way, step=lambda tty: self._system.step(job.id, name, tty=tty),
                folder=job.folder, label=f"{self._system.scheme} job {job.id}, {name}",
                explains=lambda text: self._system.explain(text, job=job.id, node=name),
            )  # fmt: skip
            seen, stderr = self._seen(executor)
            if seen is not None:
                if job.user != seen.user:
                    raise DkdbgError(
                        f"job {job.id} belongs to {job.user}, not to you ({printable(seen.user)})",
                        hint="name one of your own jobs",
                    )
                self._way = (name, way)
                shown = f"{executor.label} ({printable(seen.user)}@{printable(seen.host)})"
                return Node(job=job, executor=dataclasses.replace(executor, label=shown), agents=seen.agents)
            lines.append(stderr)
        self._way = None
        raise self._closed(job, name, lines)

    def _seen(self, executor: JobNode) -> tuple[Looked | None, str]:
        marker = f"dkdbg-{secrets.token_hex(8)}"
        bare = dataclasses.replace(executor, folder="")
        done = self.login.read(bare.script(node_script(marker)), limit=_NODE_TIMEOUT_S)
        return parse_node(marker, done.stdout), done.stderr

    def _closed(self, job: Job, name: str, errors: list[str]) -> DkdbgError:
        """Return the error for a node that no command can be run on."""
        last = errors[-1] if errors else ""
        known = self._system.explain(last, job=job.id, node=name)
        if known is not None:
            return known
        lines = [line for text in errors if (line := last_line(text))]
        return DkdbgError(
            f"no command can be run on {name}, a node of job {job.id}: {'; '.join(lines) or 'no output'}",
            hint=f"try on {self._address.name}: ssh {name} true",
        )


@dataclass(frozen=True, kw_only=True)
class JobNode(Executor):
    """One node of a job.

    Attributes:
        login: the host that runs the batch system's commands.
        node: its name.
        way: how a command is started on the node, by `ssh` or by a `step` of the job.
        step: returns the prefix that runs a command as a step of the job; empty for a system without steps.
        folder: working directory of the commands, a path on the node; empty for the default.
        label: its name in messages.
        explains: returns the error for a message of the batch system's program.
    """

    login: Executor
    node: str
    way: Way
    step: Callable[[bool], tuple[str, ...]]
    folder: str
    label: str
    explains: Callable[[str], DkdbgError | None]

    def wrap(self, argv: Sequence[str], *, tty: bool = False) -> tuple[str, ...]:
        """Return the local command line that runs `argv` in the job's working directory, with our stdin and stdout."""
        return self.script(f"{enter(self.folder)}exec {shlex.join(argv)}", tty=tty)

    def script(self, text: str, *, tty: bool = False) -> tuple[str, ...]:
        """Return the local command line that runs the script `text` with `sh` on the node."""
        if self.way == "step":
            return self.login.wrap((*self.step(tty), "sh", "-c", text), tty=tty)
        argv = (
            "ssh", "-o", "BatchMode=yes", "-o", f"ConnectTimeout={_CONNECT_TIMEOUT_S}", "-o", "ServerAliveInterval=5",
            "-o", "ServerAliveCountMax=3", "-tt" if tty else "-T", "-e", "none", *PLAIN_SESSION, "--", self.node,
        )  # fmt: skip
        return self.login.wrap((*argv, for_any_shell(text)), tty=tty)

    def starting(self, relay: Sequence[str]) -> tuple[str, ...]:
        """Return the command line that starts a relay; see `Executor.starting`.

        Processes started by ssh outlive the connection. A step kills all its processes when it ends, so the
        relay's keeper gets a step of its own.

        That step lasts as long as its srun on the login node, which survives a lost connection, because it is not a
        child of this process.
        """
        if self.way == "ssh":
            return self.wrap(relay)
        step = shlex.join(self.step(False))

        def relay_line(word: str) -> str:
            text = f"{enter(self.folder)}exec {shlex.join((*relay, word))}"
            return f"{step} sh -c {shlex.quote(text)}"

        keeper_line, wait_line = relay_line("keep"), relay_line("wait")
        return self.login.wrap(("sh", "-c", _STARTING.format(kept=keeper_line, spoken=wait_line)))

    def explain(self, stderr: str) -> DkdbgError | None:
        """Return the error for a message of the batch system; None for other messages."""
        return self.explains(stderr)


@dataclass(frozen=True, kw_only=True)
class Looked:
    """Parsed answer of a node to `node_script`."""

    user: str
    host: str
    agents: tuple[str, ...]


def node_script(marker: str) -> str:
    """Return the script for `sh` that queries a node; `marker` begins its answer."""
    return _NODE_SCRIPT.format(marker=marker, listing=LISTING)


def parse_node(marker: str, stdout: str) -> Looked | None:
    """Parse the output of `node_script`; None if it contains no answer."""
    _, found, answer = stdout.rpartition(f"\n{marker} there\n")
    lines = answer.splitlines()
    if not found or len(lines) < 2:
        return None
    return Looked(user=lines[0], host=lines[1], agents=tuple(dict.fromkeys(filter(is_agent, lines[2:100]))))
