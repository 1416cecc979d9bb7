"""What a router wants done, and what the routers of one port share. No I/O."""

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

#: Smaller numbers in `subProcessId` are pids that a person wrote into a launch entry.
FIRST_NUMBER = 1 << 24
_RANK = re.compile(r"rank [0-9]+( \(local [0-9]+\))?")


@dataclass(frozen=True, kw_only=True)
class Announced:
    """A process, as a container's door announces it.

    Attributes:
        pid: there. name: what it is, fit for an editor.
        editor: what the door knows the editor's root session by; None when it does not say.
        looks_on: the editor looks on at what another one does.
    """

    pid: int
    name: str
    editor: int | None = None
    observes: bool = False


@dataclass(frozen=True, kw_only=True)
class Process:
    """One process that a container's door has announced to one editor.

    Attributes:
        number: what the editor knows it by: pids of two containers may be the same.
        upstream: name of the target; pid: there.
        name: what it is, prefixed by the target where there are several.
        shown: what the attach to it shows the door besides, and the editor need not know.
        told: see `Sources`.
    """

    number: int
    upstream: str
    pid: int
    name: str
    shown: Mapping[str, object] = field(default_factory=dict)
    told: dict[object, object] = field(default_factory=dict, compare=False, repr=False)


@dataclass(frozen=True)
class ToClient:
    """Send a message's body to the editor."""

    body: bytes


@dataclass(frozen=True)
class ToUpstream:
    """Send a message's body to a container's door."""

    upstream: str
    body: bytes


@dataclass(frozen=True)
class Dial:
    """Keep a connection to this upstream from now on: open it as soon as that is ready, and again after each loss."""

    upstream: str


@dataclass(frozen=True)
class HangUp:
    """Close the connection to this upstream.

    Attributes:
        then: what comes after: nothing (`stop`), a new connection as soon as one can be had (`redial`), or one to the
            next agent there (`replaced`).
    """

    upstream: str
    then: Literal["stop", "redial", "replaced"] = "stop"


@dataclass(frozen=True)
class Branch:
    """From now on this connection is one process's: introduce it to its door, then pass messages.

    Attributes:
        initialize, attach: the editor's requests, for the upstream; the answer to the first it has got already.
    """

    process: Process
    initialize: Message
    attach: Message


@dataclass(frozen=True)
class Offer:
    """Give this process a port of its own.

    Attributes:
        say: the editor opens no child sessions, and has to be told where that is.
    """

    process: Process
    say: bool


@dataclass(frozen=True)
class Wait:
    """Call `Router.waited` after so many seconds."""

    seconds: float


@dataclass(frozen=True)
class Look:
    """Call `Router.look` after so many seconds."""

    seconds: float


@dataclass(frozen=True)
class Note:
    """Something to report in the terminal; `kind` is for programs."""

    kind: str
    text: str
    upstream: str = ""


@dataclass(frozen=True)
class Close:
    """End the editor's connection; what was sent still arrives."""

    reason: str


Action: TypeAlias = ToClient | ToUpstream | Dial | HangUp | Branch | Offer | Wait | Look | Note | Close


def say(text: str, category: str = "console") -> ToClient:
    """Print a line into the editor's debug console."""
    return ToClient(messages.say(text, category))


def send(upstream: str, bodies: list[bytes]) -> list[Action]:
    """Send messages to a container's door."""
    return [ToUpstream(upstream, body) for body in bodies]


def named(upstream: str, name: str, upstreams: Collection[str]) -> str:
    """Return the name of a process where there are several targets: `rank 3 (local 1) on gpu01`, `gpu01: torchrun`.

    Args:
        upstreams: all of them. Of a session on a batch job's node (`train.py on gpu01`) the node alone says where a rank is,
            unless another one is on the same node.
    """
    if not _RANK.fullmatch(name):
        return f"{upstream}: {name}"
    node = _node(upstream)
    return f"{name} on {node if [_node(each) for each in upstreams].count(node) == 1 else upstream}"


def _node(upstream: str) -> str:
    return upstream.rpartition(" on ")[2]


class Exchange:
    """Shared by the routers of one port: the targets, and the processes that were announced.

    Not for several threads at a time.

    Args:
        upstreams: names of the targets.
        port: the host's own port; read when needed, since it is known late.

    Attributes:
        ranks: which the editors debug that do not say it themselves; empty for what the targets were started with.
        continues: what continuing one rank does to the others, in the same way.
        token: proven for editors that show none of their own; empty for none.
        offers_all: each process gets a port of its own, whatever the editor can do.
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

    def announced(self, upstream: str, found: Announced, told: dict[object, object]) -> Process:
        """Give a process a number; `told` is shared by those of one editor."""
        name = named(upstream, found.name, self.upstreams) if len(self.upstreams) > 1 else found.name
        shown: dict[str, object] = {} if found.editor is None else {EDITOR: found.editor}
        if found.observes:
            shown[ROLE] = OBSERVE
        number = next(self._numbers)
        process = Process(number=number, upstream=upstream, pid=found.pid, name=name, shown=shown, told=told)
        self._processes[process.number] = process
        return process

    def find(self, number: int) -> Process | None:
        """Return the process that was announced by this number; a pid means one of the only target."""
        found = self._processes.get(number)
        if found is None and number < FIRST_NUMBER and len(self.upstreams) == 1:
            return Process(number=number, upstream=self.upstreams[0], pid=number, name=f"process {number}")
        return found

    def forget(self, processes: list[Process]) -> None:
        """Drop processes that are gone."""
        for process in processes:
            self._processes.pop(process.number, None)
