"""What the doors of one port share: who holds which process, who looks on, which token is asked for. No I/O."""

from __future__ import annotations

import itertools
import json

from dkdbg.agent import tokens

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Optional, Set

    from dkdbg.agent.door import Door

#: The key of the root session; every other process has its pid as key.
ROOT = 0
#: Requests of our own to the adapter are numbered from here on; an editor counts from 1.
OWN_SEQUENCE = 1 << 30

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


class Hall:
    """Shared by the doors of one port. Not for several threads at a time: the front has a lock for it.

    Args:
        token: see tokens.py.
        name_of: what a process is, by its pid.
        on_stop: told where a process is held, with an empty text when it runs.
        clock: seconds, only forward. wall: the time of day as HH:MM.
    """

    def __init__(
        self,
        token: str = "",
        *,
        name_of: Callable[[int], str],
        on_stop: Callable[[int, str], None],
        clock: Callable[[], float],
        wall: Callable[[], str],
    ) -> None:
        self.check = tokens.Check(token)
        self.name_of = name_of
        self.on_stop = on_stop
        self.clock = clock
        self.wall = wall
        self._sequence = itertools.count(OWN_SEQUENCE)
        self._editors = itertools.count(1)
        self._holders: Dict[int, Door] = {}
        self._onlookers: Dict[int, List[Door]] = {}
        #: Editors whose root session was taken over. What they still open of their processes ends at once.
        self.evicted: Set[int] = set()

    def next_sequence(self) -> int:
        """Return a number for a request of our own to an adapter or a client."""
        return next(self._sequence)

    def next_editor(self) -> int:
        """Return a number for an editor, by which its child sessions are known."""
        return next(self._editors)

    def holder(self, key: int) -> Optional[Door]:
        """Return whose attach to this process was passed on and has not ended."""
        return self._holders.get(key)

    def holders(self) -> Dict[int, Door]:
        """Return all of them, by key."""
        return dict(self._holders)

    def hold(self, key: int, door: Door) -> None:
        """Note that this door's client holds the process; a former one is only finishing."""
        self._holders[key] = door

    def let_go(self, key: int, door: Door) -> bool:
        """Note that it does no longer; False when another one has it already."""
        if self._holders.get(key) is not door:
            return False
        del self._holders[key]
        if key != ROOT:
            self.on_stop(key, "")
        return True

    def onlookers(self, key: int) -> List[Door]:
        """Return those who look on."""
        return list(self._onlookers.get(key, ()))

    def looked_at(self) -> List[int]:
        """Return the keys of the processes that somebody looks on at."""
        return list(self._onlookers)

    def look_on(self, key: int, door: Door) -> None:
        """Add one."""
        self._onlookers.setdefault(key, []).append(door)

    def look_away(self, key: int, door: Door) -> None:
        """Remove one, if it is there."""
        doors = self._onlookers.get(key, [])
        if door in doors:
            doors.remove(door)
        if not doors:
            self._onlookers.pop(key, None)


# -- messages ---------------------------------------------------------------------------------------------------


def body_of(message: Dict[str, Any]) -> bytes:
    """Return the body of a frame for a message."""
    return json.dumps(message, separators=(",", ":")).encode("utf-8", "surrogatepass")


def request(sequence: int, command: str, arguments: Dict[str, Any]) -> bytes:
    """Return a request of ours."""
    return body_of({"seq": sequence, "type": "request", "command": command, "arguments": arguments})


def event(name: str, /, **body: object) -> bytes:
    """Return an event of ours. Clients use no sequence number of an event; 0 is none of the adapter's."""
    return body_of({"seq": 0, "type": "event", "event": name, "body": body})


def say(text: str, category: str = "console") -> bytes:
    """Return a line for the debug console."""
    return event("output", category=category, output="dkdbg: %s\n" % text)


def answer(request: Dict[str, Any], **body: object) -> bytes:
    """Return the successful response to a request."""
    return body_of(dict(_response(request), success=True, body=body))


def refuse(request: Dict[str, Any], text: str, *, show: bool = True) -> bytes:
    """Return a response with an error; `show`: an editor shows it to the user."""
    error = {"id": 4711, "format": "dkdbg: {reason}", "variables": {"reason": text}, "showUser": show}
    text = "dkdbg: " + text
    return body_of(dict(_response(request), success=False, message=text, body={"error": error}))


def unset(arguments: Dict[str, Any]) -> List[Dict[str, Any]]:
    """Return what a root session says of the breakpoints of a `set...` request, one for each.

    Unverified on purpose: an editor shows a breakpoint as set when one of its sessions has verified it.
    """
    wanted = arguments.get("breakpoints")
    count = len(wanted) if isinstance(wanted, list) else 0
    return [{"verified": False, "message": "set in each Python process"} for _ in range(count)]


# -- child sessions -------------------------------------------------------------------------------------------

#: Clients that open a session for each `debugpyAttach`, though they do not say that they know `startDebugging`.
_UNDERSTAND_EVENT = ("vscode", "visualstudio", "dkdbg")


def starts_sessions(client: Dict[str, Any]) -> bool:
    """Tell whether a client knows `startDebugging`; `client` are the arguments of its `initialize`."""
    return client.get("supportsStartDebuggingRequest") is True


def opens_sessions(client: Dict[str, Any]) -> bool:
    """Tell whether a client opens a session for each process that is announced."""
    return starts_sessions(client) or client.get("clientID") in _UNDERSTAND_EVENT


def announcement(client: Dict[str, Any], number: Callable[[], int], configuration: Dict[str, Any]) -> bytes:
    """Return what asks a client to open a session for a process.

    debugpy's own event, for those that do not know the request, does no harm to those that do not know it either.

    Args:
        client: the arguments of its `initialize`. number: returns the sequence number of a request.
        configuration: the arguments of the session's `attach`.
    """
    if not starts_sessions(client):
        return event("debugpyAttach", **dict(configuration, request="attach"))
    return request(number(), "startDebugging", {"request": "attach", "configuration": configuration})


def _response(request: Dict[str, Any]) -> Dict[str, Any]:
    sequence = request.get("seq")
    return {
        "seq": 0,
        "type": "response",
        "request_seq": sequence if isinstance(sequence, int) else 0,
        "command": str(request.get("command", "")),
    }
