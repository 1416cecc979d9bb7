"""Actions that a router returns, and the data that the routers of one port share. No I/O."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from dkdbg.agent.dap import messages
from dkdbg.agent.dap.messages import EDITOR, OBSERVE, ROLE

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from dkdbg.agent.dap.messages import Message

#: First number that the proxy gives to a process; a smaller `subProcessId` is a PID from a launch entry.
FIRST_NUMBER = 1 << 24
_RANK = re.compile(r"rank [0-9]+( \(local [0-9]+\))?")


@dataclass(frozen=True, kw_only=True)
class Announcement:
    """A process as a target's agent announces it.

    Attributes:
        pid: PID at the target. name: name, safe to show in an editor.
        editor: number that the agent gives to the editor's root session; None if not given.
        observes: whether the editor observes another editor's session.
    """

    pid: int
    name: str
    editor: int | None = None
    observes: bool = False


@dataclass(frozen=True, kw_only=True)
class Process:
    """One process that an agent has announced to one editor.

    Attributes:
        number: id of the process for the editor. Its PID would not be unique: several containers may use the same one.
        upstream: name of the target. pid: PID at the target.
        name: display name; includes the target's name if there are several targets.
        shown: attach arguments that the proxy adds to those of the editor.
        reported: differences between files that the editor knows of, see `Sources`.
    """

    number: int
    upstream: str
    pid: int
    name: str
    shown: Mapping[str, object] = field(default_factory=dict)
    reported: dict[object, object] = field(default_factory=dict, compare=False, repr=False)


@dataclass(frozen=True)
class ToClient:
    """Send a message's body to the editor."""

    body: bytes


@dataclass(frozen=True)
class ToUpstream:
    """Send a message's body to an agent."""

    upstream: str
    body: bytes


@dataclass(frozen=True)
class Dial:
    """Keep a connection to this upstream from now on: open it once the upstream is ready, and again after each loss."""

    upstream: str


@dataclass(frozen=True)
class HangUp:
    """Close the connection to this upstream.

    Attributes:
        then: the next step: nothing (`stop`), a new connection as soon as possible (`redial`), or a connection to the
            agent that replaces this one (`replaced`).
    """

    upstream: str
    then: Literal["stop", "redial", "replaced"] = "stop"


@dataclass(frozen=True)
class Branch:
    """Turn this connection into a child session: attach to the process, then pass messages.

    Attributes:
        initialize, attach: the editor's requests, to forward to the upstream. The proxy has already answered
            `initialize`.
    """

    process: Process
    initialize: Message
    attach: Message


@dataclass(frozen=True)
class Offer:
    """Give this process its own port.

    Attributes:
        say: whether to print the port, because the editor opens no child sessions.
    """

    process: Process
    say: bool


@dataclass(frozen=True)
class Wait:
    """Call `Router.waited` after this time."""

    seconds: float


@dataclass(frozen=True)
class RunBarrier:
    """Call `Router.barrier_due` after this time."""

    seconds: float


@dataclass(frozen=True)
class Announce:
    """Report an event in the terminal; `kind` identifies it for programs that read the output."""

    kind: str
    text: str
    upstream: str = ""


@dataclass(frozen=True)
class Close:
    """Close the editor's connection; messages already sent still arrive."""


Action: TypeAlias = (
    ToClient | ToUpstream | Dial | HangUp | Branch | Offer | Wait | RunBarrier | Announce | Close
)


def say(text: str, category: str = "console") -> ToClient:
    """Print a line in the editor's debug console."""
    return ToClient(messages.say(text, category))


def send(upstream: str, bodies: list[bytes]) -> list[Action]:
    """Send messages to an agent."""
    return [ToUpstream(upstream, body) for body in bodies]


def named(upstream: str, name: str, upstreams: Collection[str]) -> str:
    """Return the name of a process if there are several targets: `rank 3 (local 1) on gpu01`, `gpu01: torchrun`.

    Args:
        upstreams: names of all targets. For a session on a batch job's node (`train.py on gpu01`) only the node is
            added, unless another session is on the same node.
    """
    if not _RANK.fullmatch(name):
        return f"{upstream}: {name}"
    node = _node(upstream)
    return f"{name} on {node if [_node(each) for each in upstreams].count(node) == 1 else upstream}"


def _node(upstream: str) -> str:
    return upstream.rpartition(" on ")[2]


class ProcessRegistry:
    """Targets and announced processes, shared by the routers of one port.

    Not thread-safe.

    Args:
        upstreams: names of the targets.
        port: returns the proxy's own port, which is unknown until the proxy listens.

    Attributes:
        ranks: default ranks for editors that choose none; empty for the ranks that the targets were started with.
        continues: what continuing one rank does to the others (DKDBG_CONTINUE); default for editors that do not choose.
        token: token that the proxy proves to agents for editors that send none; empty for no token.
        offers_all: whether each process gets its own port, even if the editor opens child sessions.
    """

    def __init__(self, upstreams: tuple[str, ...], port: Callable[[], int]) -> None:
        self.upstreams = upstreams
        self.port = port
        self.ranks = ""
        self.continues = ""
        self.offers_all = False
        self.token = ""
        self._numbers = itertools.count(FIRST_NUMBER)
        self._processes: dict[int, Process] = {}

    def register(self, upstream: str, found: Announcement, reported: dict[object, object]) -> Process:
        """Store a process under a new number and return it; the processes of one editor share `reported`."""
        name = named(upstream, found.name, self.upstreams) if len(self.upstreams) > 1 else found.name
        shown: dict[str, object] = {} if found.editor is None else {EDITOR: found.editor}
        if found.observes:
            shown[ROLE] = OBSERVE
        number = next(self._numbers)
        process = Process(
            number=number, upstream=upstream, pid=found.pid, name=name, shown=shown, reported=reported
        )
        self._processes[process.number] = process
        return process

    def find(self, number: int) -> Process | None:
        """Return the process with this number, or, with a single target, with this PID."""
        found = self._processes.get(number)
        if found is None and number < FIRST_NUMBER and len(self.upstreams) == 1:
            return Process(number=number, upstream=self.upstreams[0], pid=number, name=f"process {number}")
        return found

    def forget(self, processes: list[Process]) -> None:
        """Drop ended processes."""
        for process in processes:
            self._processes.pop(process.number, None)
