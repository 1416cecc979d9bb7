"""One client's connection as the phases and the other connections see it: its data, and what a phase answers. No I/O.

A connection goes through phases; each is a class in a file of its own (introducing, holding, looking_on, rejoining,
ending), and door.py has the table of them. A phase acts on another connection through `Phase` only.
"""

from __future__ import annotations

from dkdbg.agent.dap import messages

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, List, Optional, Protocol

    from dkdbg.agent.dap.messages import Message
    from dkdbg.agent.inprocess.ranks import RankSet
    from dkdbg.agent.proxy.broker.replay import Settings
    from dkdbg.agent.proxy.broker.stops import Stops

    class Link(Protocol):
        """The sockets of a connection, which carry out its actions; see `Relay`."""

        def to_client(self, body: bytes) -> None:
            """Send a message to the client."""

        def to_adapter(self, body: bytes) -> None:
            """Send a message to the adapter."""

        def drop_adapter(self) -> None:
            """Close the connection to the adapter."""

        def leave_adapter(self) -> None:
            """Make the adapter end the session."""

        def reconnect(self, seconds: float) -> None:
            """Connect to the adapter again, later."""

        def later(self, action: Action) -> None:
            """Carry out `Action.later` after its time."""

        def close(self, reason: str) -> None:
            """Close both connections."""


#: The key of the root session; every other process has its pid as key.
ROOT = 0

#: The phases, in the order in which a client goes through them.
ATTACHING = "attaching"
#: The client's attach was passed on.
CONTROLLING = "controlling"
#: It sees a copy of what another client sees.
OBSERVING = "observing"
#: Its session is being set up at the adapter in its place.
REATTACHING = "reattaching"
#: It was told that its session has ended, and has not left yet.
EVICTED = "evicted"
CLOSED = "closed"

TO_CLIENT = "to client"
TO_ADAPTER = "to adapter"
#: The connection to the adapter is not needed any more, the client stays.
DROP_ADAPTER = "drop adapter"
#: Nothing more is sent to the adapter; `Door.adapter_gone` comes when it has ended the session.
LEAVE_ADAPTER = "leave adapter"
CLOSE = "close"
#: Read no more from this client until `Door.ready`, `seconds` at most, then call `Door.resume`.
WAIT = "wait"
#: Look at what runs before this client gets the root session, which may take a second, then call `Door.looked`.
LOOK = "look"
#: Connect to the adapter anew after `seconds` and do what `Door.again` says.
RECONNECT = "reconnect"
#: Do what `Action.later` says after `seconds`; nobody waits meanwhile.
LATER = "later"
#: Do what `Action.later` says at once, without the lock: it reads a file.
READ = "read"

#: debugpy's adapter pauses all of them, whichever is named.
_ANY_THREAD = 1


class Action:
    """Something for the sockets to do.

    Attributes:
        connection: whose.
        body: a frame's body, for TO_CLIENT and TO_ADAPTER.
        reason: of a CLOSE, one line.
        seconds: of a WAIT, a RECONNECT and a LATER.
        later: of a LATER, what to ask then; of a READ, what reads.
    """

    __slots__ = ("body", "connection", "kind", "later", "reason", "seconds")

    def __init__(
        self,
        kind: str,
        connection: Connection,
        body: bytes = b"",
        *,
        reason: str = "",
        seconds: float = 0.0,
        later: Optional[Callable[[], List[Action]]] = None,
    ) -> None:
        self.kind = kind
        self.connection = connection
        self.body = body
        self.reason = reason
        self.seconds = seconds
        self.later = later

    def __repr__(self) -> str:
        return "Action(%s, %r%s)" % (self.kind, self.body[:300], self.reason)


class Phase:
    """What a connection answers in one of its phases: to its client, to the adapter, and to other connections.

    Attributes:
        name: one of the names above.
        lends: the adapter can be asked in the name of somebody who looks on.
        looks_on: its client has configured a session in which it looks on, and the process has not ended.
    """

    name = ""
    lends = False
    observes = False

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def begin(self) -> List[Action]:
        """Do what the phase begins with."""
        return []

    # -- the client's side ------------------------------------------------------------------------------------------

    def from_client(self, request: Message, body: bytes) -> List[Action]:  # noqa: ARG002
        """Take a request, decoded and as it came."""
        return [self.connection.refuse(request, "this session has ended", show=False)]

    def answer(self, message: Message, body: bytes) -> List[Action]:  # noqa: ARG002
        """Take a response of the client to a request of the adapter; one that was not asked for goes nowhere."""
        return []

    def client_gone(self) -> List[Action]:
        """The client has closed its side; what is left to come from the adapter still passes."""
        return []

    def ready(self) -> bool:
        """Tell whether what a WAIT was for has come."""
        return True

    def resume(self) -> List[Action]:
        """Go on after a WAIT."""
        return []

    def looked(self) -> List[Action]:
        """Go on after a LOOK."""
        return []

    # -- the adapter's side -----------------------------------------------------------------------------------------

    def from_adapter(self, body: bytes) -> List[Action]:  # noqa: ARG002
        """Take one message of the adapter."""
        return []

    def adapter_gone(self) -> List[Action]:
        """The adapter has closed its side."""
        return []

    def no_adapter(self, reason: str) -> List[Action]:
        """There was no adapter to connect to."""
        return [*self.connection.refuse_initialize(reason), *self.connection.close(reason)]

    def again(self) -> List[Action]:
        """Do what a RECONNECT was for, unless things are different by now."""
        return []

    # -- what other connections ask ---------------------------------------------------------------------------------

    def stopped(self, body: bytes) -> List[Action]:  # noqa: ARG002
        """Tell the client of a stop that was held back."""
        return []

    def give_up(self, text: str, category: str = "important") -> List[Action]:  # noqa: ARG002
        """Let go of the process, and tell the client why."""
        return []

    def lend(self, borrower: Connection, request: Message) -> List[Action]:  # noqa: ARG002
        """Ask the adapter in the name of somebody who looks on."""
        return []

    def ask(
        self,
        command: str,  # noqa: ARG002
        arguments: Message,  # noqa: ARG002
        then: Callable[[Message], List[Action]],
    ) -> List[Action]:
        """Ask the adapter for something of our own; `then` takes the response, a failed one where none will come."""
        return then({"success": False, "message": "its session is ending"})

    def announce(self, pid: int) -> List[Action]:  # noqa: ARG002
        """Offer the client to look at one more process."""
        return []

    def offer(self) -> List[Action]:
        """The adapter offers the process to the editor whose client waits to look on at it."""
        return []

    def follow(self, controller: Connection) -> List[Action]:  # noqa: ARG002
        """Another client holds the process that this one looks at."""
        return []

    def end(self) -> List[Action]:
        """The process that this client looks at has ended, or will be announced anew."""
        return []


class Connection:
    """The data of one client's connection.

    Args:
        address: where the client is, for messages to other people.
        settings: what the client has set. stops: where the process is held.

    Attributes:
        phase: what the connection does now.
        turn: puts it into the phase of this name and returns that.
        key: the pid that is attached to, ROOT for the root session.
        since: time of day since which its client holds the process; empty before.
        editor: number of the editor that this session belongs to; 0 where it is not known.
        inherited: its client looked on and has got the process from another one.
        admitted: its attach has shown the right token.
        leaving: the client goes or has gone, the adapter is still busy with that.
        ranks: which it wants to debug, None for those that the agent was started with.
        restarting: it has said that it comes back.
        configured: the adapter has answered the attach.
        initialize, attach: these requests of the client, empty before they came. attach_body: as it came.
        link: the sockets' side, for those who do the actions.
    """

    def __init__(self, address: str, settings: Settings, stops: Stops) -> None:
        self.address = address
        self.settings = settings
        self.stops = stops
        self.phase: Phase = Phase(self)
        self.turn: Callable[[str], Phase]
        self.link: Link
        self.key = ROOT
        self.since = ""
        self.editor = 0
        self.inherited = False
        self.admitted = False
        self.leaving = False
        self.restarting = False
        self.ranks: Optional[RankSet] = None
        self.configured = False
        self.initialize: Message = {}
        self.attach: Message = {}
        self.attach_body = b""

    @property
    def client_info(self) -> Message:
        """The arguments of the client's `initialize`."""
        return messages.as_dict(self.initialize.get("arguments"))

    @property
    def arguments(self) -> Message:
        """The arguments of the client's `attach`."""
        return messages.as_dict(self.attach.get("arguments"))

    def to_client(self, body: bytes) -> Action:
        """Return the action that sends this to the client."""
        return Action(TO_CLIENT, self, body)

    def to_adapter(self, body: bytes) -> Action:
        """Return the action that sends this to the adapter."""
        return Action(TO_ADAPTER, self, body)

    def refuse(self, request: Message, text: str, *, show: bool = True) -> Action:
        """Return the action that answers a request of the client with an error."""
        return self.to_client(messages.refuse(request, text, show=show))

    def refuse_initialize(self, text: str) -> List[Action]:
        """Return what answers the client's `initialize` with an error, if it has sent one."""
        return [self.refuse(self.initialize, text)] if self.initialize else []

    def go_on(self, thread: int) -> List[Action]:
        """Return what lets the process go on in which this thread was stopped, as if the client had asked for it."""
        return self.phase.ask("continue", {"threadId": thread}, lambda _: [])

    def pause(self) -> List[Action]:
        """Return what pauses the process."""
        return self.phase.ask("pause", {"threadId": _ANY_THREAD}, lambda _: [])

    def reconnect(self, seconds: float) -> Action:
        """Return the action that connects to the adapter once more, after so long."""
        return Action(RECONNECT, self, seconds=seconds)

    def close(self, reason: str) -> List[Action]:
        """Return the actions that end the connection."""
        self.turn(CLOSED)
        return [Action(CLOSE, self, reason=reason)]
