"""One client's connection: its data, its phase, and the actions that a phase returns. No I/O.

A connection goes through phases. Each is a class (in attaching, controller, observers, reattach and phase), and
broker.py has the table of them. A phase acts on another connection only through `Phase`.
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
            """Carry out what `Action.later` returns, after `Action.seconds`."""

        def close(self, reason: str) -> None:
            """Close both connections."""


#: Key of the root session; every other session has its process's pid as key.
ROOT = 0

#: Phases, in the order in which a client goes through them. ATTACHING: no attach has been passed on yet.
ATTACHING = "attaching"
#: The client's attach was passed on.
CONTROLLING = "controlling"
#: The client gets a copy of the controller's events.
OBSERVING = "observing"
#: The broker sets the session up at the adapter on the client's behalf.
REATTACHING = "reattaching"
#: The client was sent `terminated`, and has not disconnected yet.
EVICTED = "evicted"
CLOSED = "closed"

TO_CLIENT = "to client"
TO_ADAPTER = "to adapter"
#: Close the connection to the adapter; the client stays.
DROP_ADAPTER = "drop adapter"
#: Send nothing more to the adapter; `Broker.adapter_gone` is called when it has ended the session.
LEAVE_ADAPTER = "leave adapter"
CLOSE = "close"
#: Stop reading from this client until `Broker.ready`, for at most `seconds`, then call `Broker.resume`.
WAIT = "wait"
#: Check for edited files, which may take a second, then call `Broker.code_checked`. Needed before a client gets the
#: root session.
CHECK_CODE = "check-code"
#: Connect to the adapter again after `seconds` and carry out what `Broker.again` returns.
RECONNECT = "reconnect"
#: Carry out what `Action.later` returns, after `seconds`, without blocking.
LATER = "later"
#: Carry out what `Action.later` returns, now and without the lock: it reads a file.
READ = "read"

#: Thread number for a pause: debugpy's adapter pauses all threads, whichever is named.
_ANY_THREAD = 1


class Action:
    """One step for the sockets to carry out.

    Attributes:
        connection: the one to act on.
        body: a frame's body, for TO_CLIENT and TO_ADAPTER.
        reason: one line, for CLOSE.
        seconds: for WAIT, RECONNECT and LATER.
        later: returns the next actions, for LATER and READ.
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
        later: Callable[[], List[Action]] = list,
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
    """Behavior of a connection in one phase: towards its client, the adapter, and other connections.

    Attributes:
        name: name of the phase, such as ATTACHING.
        lends: whether observers may ask the adapter through this connection.
        observes: whether its client has configured an observer's session and the process has not ended.
    """

    name = ""
    lends = False
    observes = False

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def begin(self) -> List[Action]:
        """Enter the phase."""
        return []

    # -- the client's side ------------------------------------------------------------------------------------------

    def from_client(self, request: Message, body: bytes) -> List[Action]:  # noqa: ARG002
        """Handle a request, decoded and as received."""
        return [self.connection.refuse(request, "this session has ended", show=False)]

    def answer(self, message: Message, body: bytes) -> List[Action]:  # noqa: ARG002
        """Handle the client's response to a request of the adapter; drop unsolicited ones."""
        return []

    def client_gone(self) -> List[Action]:
        """Handle the end of the client's side; the adapter's remaining messages still pass."""
        return []

    def ready(self) -> bool:
        """Tell whether the awaited event of a WAIT has occurred."""
        return True

    def resume(self) -> List[Action]:
        """Continue after a WAIT."""
        return []

    def code_checked(self) -> List[Action]:
        """Continue after a CHECK_CODE."""
        return []

    # -- the adapter's side -----------------------------------------------------------------------------------------

    def from_adapter(self, body: bytes) -> List[Action]:  # noqa: ARG002
        """Handle one message of the adapter."""
        return []

    def adapter_gone(self) -> List[Action]:
        """Handle the end of the adapter's side."""
        return []

    def no_adapter(self, reason: str) -> List[Action]:
        """Refuse the client because no adapter could be reached; `reason` is one line."""
        connection = self.connection
        refused = [connection.refuse(connection.initialize, reason)] if connection.initialize else []
        return [*refused, *connection.close(reason)]

    def again(self) -> List[Action]:
        """Continue after a RECONNECT, unless the state has changed since."""
        return []

    # -- called by other connections ----------------------------------------------------------------------------------

    def stopped(self, body: bytes) -> List[Action]:  # noqa: ARG002
        """Report a withheld stop to the client."""
        return []

    def give_up(self, text: str, category: str = "important") -> List[Action]:  # noqa: ARG002
        """Release the process, and tell the client why."""
        return []

    def lend(self, borrower: Connection, request: Message) -> List[Action]:  # noqa: ARG002
        """Pass an observer's request to the adapter."""
        return []

    def ask(
        self,
        command: str,  # noqa: ARG002
        arguments: Message,  # noqa: ARG002
        then: Callable[[Message], List[Action]],
    ) -> List[Action]:
        """Send the adapter a request of the broker; `then` gets the response, or a failure if none will come."""
        return then({"success": False, "message": "its session is ending"})

    def announce(self, pid: int) -> List[Action]:  # noqa: ARG002
        """Offer the client one more process to observe."""
        return []

    def offer(self) -> List[Action]:
        """Let the waiting observer become the controller: the adapter offers the process to the same editor."""
        return []

    def follow(self, controller: Connection) -> List[Action]:  # noqa: ARG002
        """Observe the session of another controller of the same process."""
        return []

    def end(self) -> List[Action]:
        """End the observation: the process has ended, or will be announced again."""
        return []


class Connection:
    """Data of one client's connection.

    Args:
        address: the client's address, for messages to other users.
        settings: breakpoints and filters that the client has set. stops: where the process is stopped.

    Attributes:
        phase: the current phase.
        turn: enters the phase of this name and returns it.
        key: pid of the attached process, ROOT for the root session.
        since: time of day (HH:MM) at which its client became the controller; empty before.
        editor: number of the editor that this session belongs to; 0 if unknown.
        inherited: its client was an observer before it became the controller.
        admitted: its attach has shown the right token.
        leaving: the client is disconnecting or has done so, and the adapter has not finished.
        ranks: which ranks it wants to debug, None for those that the agent was started with.
        restarting: its `disconnect` has announced a restart.
        configured: the adapter has answered the attach.
        initialize, attach: these requests of the client, empty before. attach_body: the attach as received.
        link: the sockets that carry out the actions.
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
        """Return the arguments of the client's `initialize`."""
        return messages.as_dict(self.initialize.get("arguments"))

    @property
    def arguments(self) -> Message:
        """Return the arguments of the client's `attach`."""
        return messages.as_dict(self.attach.get("arguments"))

    def to_client(self, body: bytes) -> Action:
        """Return the action that sends this to the client."""
        return Action(TO_CLIENT, self, body)

    def to_adapter(self, body: bytes) -> Action:
        """Return the action that sends this to the adapter."""
        return Action(TO_ADAPTER, self, body)

    def refuse(self, request: Message, text: str, *, show: bool = True) -> Action:
        """Return the action that refuses a request of the client."""
        return self.to_client(messages.refuse(request, text, show=show))

    def go_on(self, thread: int) -> List[Action]:
        """Return the actions that continue the process of this stopped thread, as if the client had asked."""
        self.stops.let_go()
        return self.phase.ask("continue", {"threadId": thread}, lambda _: [])

    def pause(self) -> List[Action]:
        """Return the actions that pause the process."""
        return self.phase.ask("pause", {"threadId": _ANY_THREAD}, lambda _: [])

    def reconnect(self, seconds: float) -> Action:
        """Return the action that connects to the adapter again after this time."""
        return Action(RECONNECT, self, seconds=seconds)

    def close(self, reason: str) -> List[Action]:
        """Return the actions that end the connection."""
        self.turn(CLOSED)
        return [Action(CLOSE, self, reason=reason)]
