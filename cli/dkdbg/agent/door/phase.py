"""The phases that a client's connection goes through, and what a phase may have the sockets do. No I/O."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dkdbg.agent.door.door import Door

#: The phases of a door, in the order in which a client goes through them.
NEW = "new"
INTRODUCED = "introduced"
#: The client's attach was passed on.
HOLDING = "holding"
#: It sees a copy of what another client sees.
LOOKING = "looking"
#: Its session is being set up at the adapter in its place.
JOINING = "joining"
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
#: Connect to the adapter anew after `seconds` and do what `Door.again` says.
RECONNECT = "reconnect"


class Action:
    """Something for the sockets to do.

    Attributes:
        door: whose connection.
        body: a frame's body, for TO_CLIENT and TO_ADAPTER.
        reason: of a CLOSE, one line.
    """

    __slots__ = ("body", "door", "kind", "reason", "seconds")

    def __init__(
        self, kind: str, door: Door, body: bytes = b"", *, reason: str = "", seconds: float = 0.0
    ) -> None:
        self.kind = kind
        self.door = door
        self.body = body
        self.reason = reason
        self.seconds = seconds

    def __repr__(self) -> str:
        return "Action(%s, %r%s)" % (self.kind, self.body[:300], self.reason)
