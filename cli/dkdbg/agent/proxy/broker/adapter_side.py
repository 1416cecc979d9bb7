"""Handles the adapter's messages to one client: responses, events (copied to observers), new processes. No I/O.

Also keeps the unanswered requests on a connection: the client's, the adapter's and the broker's.
"""

from __future__ import annotations

import re

from dkdbg.agent.dap import frames, messages
from dkdbg.agent.dap.messages import EDITOR, ROLE, as_dict
from dkdbg.agent.proxy.broker.connection import ATTACHING, CONTROLLING, OBSERVING, ROOT, WAIT, Action
from dkdbg.agent.proxy.broker.handover import candidates

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Dict, List, Optional, Set, Tuple

    from dkdbg.agent.dap.messages import Message
    from dkdbg.agent.proxy.broker.connection import Connection
    from dkdbg.agent.proxy.broker.sessions import Sessions

#: Maximum bytes of an answer of the adapter to parse; larger ones are passed on as they are.
_MAX_PARSED_BYTES = 32 << 10
_ANSWER = re.compile(rb'\{"seq": ?\d+, ?"type": ?"response", ?"request_seq": ?(\d{1,18}),')
_ADVICE = (
    "this session belongs to the agent and never stops at a breakpoint: each Python process has its own session. If "
    "your client opens no child sessions, type `dkdbg attach --ports` on your machine: it gives each process a port"
)
#: Maximum seconds to keep the first process's session open after that process has ended, to print its exit code.
END_TIMEOUT_S = 10.0
_COPIED = ("stopped", "continued", "output", "thread", "process", "module", "exited")


class AdapterSide:
    """Handles the adapter's messages to one client.

    Args:
        sessions: all sessions of the port. open_requests: unanswered requests of the connection.
    """

    def __init__(self, connection: Connection, sessions: Sessions, open_requests: OpenRequests) -> None:
        self._connection = connection
        self._sessions = sessions
        self._open_requests = open_requests
        self._exited = False
        self._advised = False
        self._held: List[Action] = []
        self._free: Dict[int, Message] = {}

    def take(self, body: bytes) -> List[Action]:
        """Return the actions that pass one message on, and the messages to other clients that it causes."""
        passed = [self._connection.to_client(body)]
        if len(body) > _MAX_PARSED_BYTES:
            found = _ANSWER.match(body[:200])
            if found and not self._open_requests.is_own(int(found.group(1))):
                self._open_requests.answered_client(int(found.group(1)))
                self._connection.stops.answered(int(found.group(1)), {})
                return passed
        try:
            message = frames.decode(body)
        except frames.FrameError:
            return passed
        kind = message.get("type")
        if kind == "response":
            return self._answered(message, passed)
        if kind == "event":
            return self._happened(message, body)
        if kind == "request" and message.get("command") == "startDebugging":
            return self._announce(message, as_dict(as_dict(message.get("arguments")).get("configuration")))
        if kind == "request":
            self._open_requests.from_adapter(message)
        return passed

    def _answered(self, message: Message, passed: List[Action]) -> List[Action]:
        connection, sequence = self._connection, message.get("request_seq")
        if not isinstance(sequence, int):
            return passed
        connection.stops.answered(sequence, message)
        if self._open_requests.is_own(sequence):
            return self._open_requests.answered_us(sequence, message)
        self._open_requests.answered_client(sequence)
        if message.get("command") == "initialize" and message.get("success") is True:
            can = dict(as_dict(message.get("body")), **{messages.SOURCE: True})
            passed = [connection.to_client(messages.body_of(dict(message, body=can)))]
        attached = message.get("command") == "attach" and sequence == connection.attach.get("seq")
        if connection.phase.name == CONTROLLING and attached:
            connection.configured = message.get("success") is True
            if connection.configured:
                passed = passed + self._advice() + self._sessions.barrier.configured(connection)
            else:
                connection.turn(ATTACHING)
                self._sessions.release_control(connection)
        if message.get("command") in messages.RESUMING and message.get("success") is False:
            connection.stops.refused()
        return passed

    def _advice(self) -> List[Action]:
        """Advise a client that opens no child sessions: it would never see a process stop."""
        connection = self._connection
        if connection.key != ROOT or messages.opens_sessions(connection.client_info):
            return []
        return [connection.to_client(messages.say(_ADVICE, "important"))]

    def _happened(self, message: Message, body: bytes) -> List[Action]:
        """Pass an event on, with copies for the observers."""
        connection, name, content = self._connection, message.get("event"), as_dict(message.get("body"))
        if name == "debugpyAttach":
            return self._announce(message, content)
        withheld = self._sessions.barrier.holds_back(connection, name, content, body)
        connection.stops.happened(name, content, withheld=withheld)
        return self._sessions.barrier.settle() if withheld else self._tell(name, content, body)

    def stopped(self, body: bytes) -> List[Action]:
        """Pass on a withheld stop."""
        message = frames.decode(body)
        name, content = message.get("event"), as_dict(message.get("body"))
        self._connection.stops.happened(name, content)
        return self._tell(name, content, body)

    def _tell(self, name: object, content: Message, body: bytes) -> List[Action]:
        connection = self._connection
        passed = [connection.to_client(body)]
        beside = candidates(self._sessions, connection.key)
        if name == "output" and content.get("category") == "stderr" and connection.key != ROOT:
            self._sessions.stderr_tail.add(connection.key, content.get("output"))
            passed += self._advise(advice(content.get("output")))
        if name == "exited":
            self._exited = True
        if name == "terminated":
            # Keep the observers' sessions if this client has ended only its own, or if the adapter has ended it and
            # the agent lives on.
            alone = connection.leaving or (connection.key == ROOT and not self._exited)
            connection.leaving = True
            ends = [] if alone else [action for one in beside for action in one.phase.end()]
            if not alone and self._tells_the_end():
                self._held = passed
                return [*ends, Action(WAIT, connection, seconds=END_TIMEOUT_S)]
            return passed + ends
        if name in _COPIED and content.get("category") != "telemetry":
            passed += [one.to_client(body) for one in beside]
        root = self._sessions.controller(ROOT)
        if name == "output" and root is not None and self._prints_for(root, content):
            passed.append(root.to_client(body))
        return passed

    def _prints_for(self, root: Connection, content: Message) -> bool:
        """Tell whether output of the program also belongs in the root session's console.

        An editor that shows one console at a time shows the root's until a process stops.
        """
        connection = self._connection
        is_program = connection.key == self._sessions.program and content.get("category") in (
            "stdout",
            "stderr",
        )
        shows_it = root.editor == connection.editor and not root.leaving
        return is_program and shows_it and messages.has_consoles(connection.client_info)

    # -- the end of the program -------------------------------------------------------------------------------------

    def knows_the_end(self) -> bool:
        """Tell whether the program's exit code is known, or never will be: the program was restarted or called exec."""
        sessions, key = self._sessions, self._connection.key
        return bool(sessions.end) or key != sessions.program or key in sessions.offered

    def let_end(self) -> List[Action]:
        """Print how the program has ended, in the console that the editor shows, and then end the session."""
        connection, passed, self._held = self._connection, self._held, []
        if self._sessions.end:
            passed = [connection.to_client(messages.say(self._sessions.end)), *passed]
        return passed

    def _tells_the_end(self) -> bool:
        """Tell whether this is the session of the program's first process: an editor may show only its console."""
        connection = self._connection
        is_first = connection.phase.name == CONTROLLING and connection.key == self._sessions.program
        return is_first and messages.has_consoles(connection.client_info)

    def _advise(self, text: str) -> List[Action]:
        """Print advice, once for each process."""
        if not text or self._advised:
            return []
        self._advised = True
        return [self._connection.to_client(messages.say(text, "important"))]

    def _announce(self, message: Message, configuration: Message) -> List[Action]:
        """Offer a process to the client of the root session and to its observers.

        Args:
            message: `debugpyAttach` or `startDebugging`. configuration: the attach request in it.
        """
        connection, pid = self._connection, configuration.get("subProcessId")
        configuration.pop(ROLE, None)
        actions: List[Action] = []
        answered = message.get("type") == "request"
        nothing = [connection.to_adapter(messages.answer(message))] if answered else []
        if isinstance(pid, int):
            configuration["name"] = self._sessions.agent.name_of(pid)
            configuration[EDITOR] = connection.editor
            if pid in self._sessions.ending or self._has_it(pid):
                return nothing
            if not self._sessions.agent.is_chosen(
                pid
            ):  # the process joined for an editor that wanted other ranks
                self._free[pid] = configuration
                return nothing
            self._free.pop(pid, None)
            self._sessions.offered.add(pid)
            beside = candidates(self._sessions, connection.key)
            actions = [action for one in beside for action in one.phase.announce(pid)]
        if answered:
            self._open_requests.from_adapter(message)
        return [connection.to_client(messages.body_of(message)), *actions]

    def offer_chosen(self) -> List[Action]:
        """Offer processes that joined while they were not selected, and are selected now.

        The adapter announces each process only once.
        """
        connection, actions = self._connection, []
        for pid, configuration in list(self._free.items()):
            if self._sessions.agent.is_chosen(pid):
                del self._free[pid]
                self._sessions.offered.add(pid)
                body = messages.announcement(
                    connection.client_info, self._sessions.next_sequence, configuration
                )
                actions.append(connection.to_client(body))
        return actions

    def _has_it(self, pid: int) -> bool:
        """Tell whether the client already has a session with the process, opened as an observer.

        That session becomes the controller, or already is. The adapter does not know about it: its announcement
        would make the client open a second session. An observer that waits for a controller becomes it now.
        """
        editor, controller = self._connection.editor, self._sessions.controller(pid)
        if (
            controller is not None
            and controller.inherited
            and controller.editor == editor
            and not controller.leaving
        ):
            return True
        waiting = [one for one in self._sessions.waiting(pid) if one.editor == editor]
        for one in waiting[:1]:
            one.phase.offer()
        return bool(waiting) or any(one.editor == editor for one in self._sessions.observers(pid))


#: Part of the printed error (torch/cuda/__init__.py, `_lazy_init`) -> advice, printed in the same console.
KNOWN_ERRORS = {
    "Cannot re-initialize CUDA in forked subprocess": (
        "CUDA was used in this process's parent before it was forked: by the program, or by an expression in the "
        "debugger (torch.cuda...). Start workers with spawn: multiprocessing.set_start_method('spawn'), "
        "DataLoader(..., multiprocessing_context='spawn')"
    ),
    "EOFError: EOF when reading a line": (
        "input() has no terminal to read from when F5 starts the program: start it in a terminal, dkdbg run -- COMMAND, and "
        "press F5 while it waits"
    ),
}


def advice(printed: object) -> str:
    """Return the advice for a piece of a program's stderr, empty for none."""
    if not isinstance(printed, str):
        return ""
    return next((text for error, text in KNOWN_ERRORS.items() if error in printed), "")


class OpenRequests:
    """Unanswered requests of one connection; `number` returns a sequence number for a request of the broker."""

    def __init__(self, connection: Connection, number: Callable[[], int]) -> None:
        self._connection = connection
        self._number = number
        self._client: Dict[int, str] = {}
        self._adapter: Set[int] = set()
        self._own: Dict[int, Optional[Callable[[Message], List[Action]]]] = {}
        #: The broker's requests on behalf of observers: number -> the observer's connection and request.
        self._lent: Dict[int, Tuple[Connection, Message]] = {}

    def from_client(self, request: Message) -> None:
        """Record a request that is passed on to the adapter."""
        self._client[request["seq"]] = request["command"]

    def from_adapter(self, request: Message) -> None:
        """Record a request that is passed on to the client."""
        sequence = request.get("seq")
        if isinstance(sequence, int):
            self._adapter.add(sequence)

    def add_own(self, then: Optional[Callable[[Message], List[Action]]] = None) -> int:
        """Record a request of the broker and return its number; `then` gets the response, None drops it."""
        sequence = self._number()
        self._own[sequence] = then
        return sequence

    def lent(self, borrower: Connection, request: Message) -> int:
        """Record a request on behalf of an observer and return its number."""

        def hand_on(response: Message) -> List[Action]:
            if borrower.phase.name != OBSERVING:
                return []
            return [borrower.to_client(messages.body_of(dict(response, request_seq=request["seq"])))]

        sequence = self.add_own(hand_on)
        self._lent[sequence] = (borrower, request)
        return sequence

    def is_own(self, sequence: int) -> bool:
        """Tell whether a sequence number is that of one of the broker's requests."""
        return sequence in self._own

    def answered_client(self, sequence: int) -> None:
        """Record that the adapter has answered a request of the client."""
        self._client.pop(sequence, None)

    def answered_adapter(self, response: Message) -> bool:
        """Record a response of the client; return whether this adapter, not a former one, sent the request."""
        sequence = response.get("request_seq")
        if not isinstance(sequence, int) or sequence not in self._adapter:
            return False
        self._adapter.discard(sequence)
        return True

    def answered_us(self, sequence: int, response: Message) -> List[Action]:
        """Pass the answer to a request of the broker to the callback that waits for it."""
        then = self._own.pop(sequence)
        self._lent.pop(sequence, None)
        return [] if then is None else then(response)

    def give_up(self, reason: str) -> List[Action]:
        """Fail all open requests: no answer will arrive any more."""
        waiting: List[Tuple[Connection, Message]] = [
            (self._connection, {"seq": number, "command": command})
            for number, command in self._client.items()
        ]
        waiting += [lent for lent in self._lent.values() if lent[0].phase.name == OBSERVING]
        own = [then for number, then in self._own.items() if then is not None and number not in self._lent]
        self._client.clear()
        self._adapter.clear()
        self._own.clear()
        self._lent.clear()
        failure = {"success": False, "message": reason}
        actions = [action for then in own for action in then(failure)]
        return [
            *(connection.refuse(request, reason, show=False) for connection, request in waiting),
            *actions,
        ]
