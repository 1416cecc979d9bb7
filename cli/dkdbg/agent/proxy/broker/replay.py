"""Sets a client's session up at an adapter by replaying the client's former requests. No I/O.

Needed where a client stays and its peer changes: a new adapter replaces one that died, or an observer becomes the
controller of a process after another editor has left.
"""

from __future__ import annotations

from dkdbg.agent.dap import messages
from dkdbg.agent.dap.messages import as_dict, as_list

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Optional, Tuple

    Message = Dict[str, Any]

#: Requests to replay: only the latest of each counts, for setBreakpoints the latest of each source file.
SETS = (
    "setBreakpoints",
    "setFunctionBreakpoints",
    "setExceptionBreakpoints",
    "setDebuggerProperty",
)
#: Maximum remembered files with breakpoints.
_MAX_FILES = 4096
#: Events that the client already got, or never needs.
_SWALLOWED = ("initialized", "process", "debugpyWaitingForServer", "debugpySockets")


class Settings:
    """Breakpoints and filters that a client has set in one session."""

    def __init__(self) -> None:
        self._latest: Dict[Tuple[str, str], Message] = {}
        #: Breakpoint ids that the client got in the response to each remembered request, by the request's key.
        self._given: Dict[Tuple[str, str], List[int]] = {}

    def remember(self, request: Message, given: Optional[List[int]] = None) -> None:
        """Remember a request that sets something; `given` are its breakpoints' ids, if the broker has answered it."""
        command, arguments = request["command"], as_dict(request.get("arguments"))
        if command not in SETS:
            return
        source = as_dict(arguments.get("source")) if command == "setBreakpoints" else {}
        key = (command, str(source.get("path") or source.get("name") or ""))
        if key not in self._latest and len(self._latest) >= _MAX_FILES:
            return
        self._latest[key] = arguments
        self._given[key] = given or []

    def all(self) -> List[Tuple[str, Message, List[int]]]:
        """Return the command, the arguments and the given identifiers of each remembered request."""
        return [(key[0], arguments, self._given[key]) for key, arguments in self._latest.items()]


class Replay:
    """One replay: `begin` returns the first message for the adapter, `take` handles its messages.

    Args:
        number: returns a sequence number for a request.
        initialize, attach: the arguments of the client's requests.
        settings: its breakpoints and filters.

    Attributes:
        done: the adapter has answered the attach.
        failure: why the session cannot be set up.
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
        """Return the next messages for adapter and client; None if `message` does not concern the replay."""
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
    """Return the events that update breakpoints which the client got as unverified."""
    return [
        messages.event("breakpoint", reason="changed", breakpoint=dict(as_dict(point), id=number))
        for number, point in zip(given, as_list(body.get("breakpoints")))
    ]
