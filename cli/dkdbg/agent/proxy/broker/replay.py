"""Setting a client's session up at an adapter in the client's place, from what it has sent before. No I/O.

It is needed where a client stays and what it was connected to does not: a new adapter has taken the place of one
that died, or the editor that held a process has left and one that looked on gets it.
"""

from __future__ import annotations

from dkdbg.agent.dap import messages
from dkdbg.agent.dap.messages import as_dict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Optional, Tuple

    Message = Dict[str, Any]

#: What stays set until it is sent again; for setBreakpoints that is so for each source.
SETS = (
    "setBreakpoints",
    "setFunctionBreakpoints",
    "setExceptionBreakpoints",
    "setDebuggerProperty",
)
#: Files with breakpoints that are remembered.
_FILES = 4096
#: What the client has been told before, or never wants to know.
_SWALLOWED = ("initialized", "process", "debugpyWaitingForServer", "debugpySockets")


class Settings:
    """What a client has set in one session."""

    def __init__(self) -> None:
        self._latest: Dict[Tuple[str, str], Message] = {}
        #: Identifiers that the client was given for the breakpoints of a request, by its key.
        self._given: Dict[Tuple[str, str], List[int]] = {}

    def note(self, request: Message, given: Optional[List[int]] = None) -> None:
        """Remember a request, if it is one that sets something.

        Args:
            given: identifiers of its breakpoints, where it was answered by us.
        """
        command, arguments = request["command"], as_dict(request.get("arguments"))
        if command not in SETS:
            return
        source = as_dict(arguments.get("source")) if command == "setBreakpoints" else {}
        key = (command, str(source.get("path") or source.get("name") or ""))
        if key not in self._latest and len(self._latest) >= _FILES:
            return
        self._latest[key] = arguments
        self._given[key] = given or []

    def all(self) -> List[Tuple[str, Message, List[int]]]:
        """Return the command, the arguments and the given identifiers of each."""
        return [(key[0], arguments, self._given[key]) for key, arguments in self._latest.items()]


class Replay:
    """One set-up: `begin` gives the first message for the adapter, `take` is given all that comes from it.

    Args:
        number: returns a sequence number for a request.
        initialize, attach: the arguments of the client's requests.
        settings: what it has set.

    Attributes:
        done: the adapter has answered the attach.
        failure: why it cannot be done.
    """

    def __init__(
        self, number: Callable[[], int], initialize: Message, attach: Message, settings: Settings
    ) -> None:
        self.done = False
        self.failure = ""
        self._number = number
        self._initialize = initialize
        self._attach = attach
        self._settings = settings
        self._sent: Dict[int, Tuple[str, List[int]]] = {}

    def begin(self) -> bytes:
        """Return the first request."""
        return self._request("initialize", self._initialize)

    def take(self, message: Message) -> Optional[Tuple[List[bytes], List[bytes]]]:
        """Return what goes to the adapter and what to the client; None when the message is not for the replay."""
        if message.get("type") == "event":
            if message.get("event") not in _SWALLOWED:
                return None
            return (self._configure() if message["event"] == "initialized" else []), []
        sequence = message.get("request_seq")
        if message.get("type") != "response" or not isinstance(sequence, int) or sequence not in self._sent:
            return None
        command, given = self._sent.pop(sequence)
        if message.get("success") is not True and command in ("initialize", "attach"):
            self.failure = str(message.get("message", "")) or "%s failed" % command
        elif command == "initialize":
            return [self._request("attach", self._attach)], []
        elif command == "attach":
            self.done = True
        return [], _verified(as_dict(message.get("body")), given)

    def _configure(self) -> List[bytes]:
        requests = [
            self._request(command, arguments, given) for command, arguments, given in self._settings.all()
        ]
        return [*requests, self._request("configurationDone", {})]

    def _request(self, command: str, arguments: Message, given: Optional[List[int]] = None) -> bytes:
        sequence = self._number()
        self._sent[sequence] = (command, given or [])
        return messages.request(sequence, command, arguments)


def _verified(body: Message, given: List[int]) -> List[bytes]:
    """Return the events that tell a client what became of breakpoints which it was told are not set."""
    points = body.get("breakpoints")
    if not isinstance(points, list):
        return []
    return [
        messages.event("breakpoint", reason="changed", breakpoint=dict(as_dict(point), id=number))
        for number, point in zip(given, points)
    ]
