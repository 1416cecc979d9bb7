"""Phase before the attach: become the controller, observe, take over, or wait. No I/O.

Before an attach with the right token, only well-formed `initialize` and `disconnect` requests reach the adapter:
some others make debugpy's adapter exit.
"""

from __future__ import annotations

from dkdbg.agent.dap import frames, messages
from dkdbg.agent.dap.messages import EDITOR, OBSERVE, RANKS, ROLE, TAKE_OVER
from dkdbg.agent.inprocess import ranks
from dkdbg.agent.proxy.broker.connection import (
    ATTACHING,
    CHECK_CODE,
    CONTROLLING,
    OBSERVING,
    ROOT,
    WAIT,
    Action,
)
from dkdbg.agent.proxy.broker.phase import SessionPhase
from dkdbg.agent.proxy.listener import proof, tokens

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List, Optional

    from dkdbg.agent.dap.messages import Message
    from dkdbg.agent.proxy.broker.connection import Connection
    from dkdbg.agent.proxy.broker.phase import Parts

#: Maximum seconds that an attach waits: until a previous client has left, until the adapter has released the process,
#: and until there is a controller to observe.
GRACE_S = 0.3
RELEASE_TIMEOUT_S = 20.0
CONTROLLER_TIMEOUT_S = 20.0

#: Maximum properties of an unauthenticated `initialize`, and characters of each, that reach the adapter.
MAX_PROPERTIES = 64
MAX_CHARACTERS = 256
#: Properties of an attach that would make debugpy use other processes and ports than the agent's.
_REJECTED = ("processId", "listen")

#: Events that an attach waits for.
_CONTROLLER = "held"
_GRACE = "grace"
_RELEASE = "free"
_DELAY = "late"


class Attaching(SessionPhase):
    """Phase of a client that has not attached yet."""

    name = ATTACHING

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self._role = ""
        self._waits_for = ""
        self._waited = ""
        self._has_checked_code = False
        self._reason = ""
        self._evicted: List[Connection] = []
        self._exchange: Optional[proof.Exchange] = None
        self._has_proven = False

    def from_client(self, request: Message, body: bytes) -> List[Action]:
        """Accept only `initialize`, `attach` and `disconnect`."""
        connection, command = self.connection, request["command"]
        if not connection.initialize:
            if command != "initialize":
                return connection.close("the first request is not initialize")
            connection.initialize = _request(request, _introduction(request))
            number = messages.as_dict(request.get("arguments")).get(proof.NONCE)
            self._exchange = proof.begin(proof.ATTACH, number) if self._sessions.check else None
            return [connection.to_adapter(messages.body_of(connection.initialize))]
        if command == proof.PROVE:
            return self._prove(request)
        if command == "attach":
            return self._attach(request, body)
        if command == "disconnect":
            return [connection.to_adapter(messages.body_of(_request(request, {})))]
        if command == "initialize":
            return [connection.refuse(request, "this connection has sent initialize already")]
        if command == "launch":
            return [connection.refuse(request, "the program is already running: use an attach configuration")]
        return [connection.refuse(request, "send attach first, not %s" % command[:40])]

    def from_adapter(self, body: bytes) -> List[Action]:
        """Pass on a message of the adapter; add our nonce and capabilities to its answer to `initialize`."""
        additions: Message = {} if self._exchange is None else {proof.NONCE: self._exchange.agent}
        if self._sessions.agent.may_restart:
            additions["supportsRestartRequest"] = True
        if additions and b"initialize" in body[:200]:
            body = _with_additions(body, additions)
        return self._adapter.take(body)

    def _prove(self, request: Message) -> List[Action]:
        """Check a client's proof that it knows the token, once per connection; answer with the agent's own."""
        connection, check, exchange = self.connection, self._sessions.check, self._exchange
        self._exchange = None
        if exchange is None:
            return [connection.refuse(request, "unexpected proof")]
        shown = messages.as_dict(request.get("arguments")).get(proof.PROOF)
        proven = check.proven(exchange, shown)
        reason, seconds = check.refusal(proven, connection.address, self._sessions.clock())
        if reason:
            return self._turn_away(request, reason, seconds)
        self._has_proven = connection.admitted = True
        return [connection.to_client(messages.answer(request, **{proof.PROOF: check.answer(exchange)}))]

    def _attach(self, request: Message, body: bytes) -> List[Action]:
        """Check an attach request and, if it is admitted, decide its role."""
        connection = self.connection
        arguments = messages.as_dict(request.get("arguments"))
        shown = arguments.get(tokens.PROPERTY)
        check = self._sessions.check
        reason, seconds = "", 0.0
        if not self._has_proven:
            reason, seconds = check.refusal(shown, connection.address, self._sessions.clock())
        if reason:
            return self._turn_away(request, reason, seconds)
        connection.admitted = True
        for name in _REJECTED:
            if name in arguments:
                text = 'this port debugs only processes of the agent: remove "%s" from this configuration'
                return [connection.refuse(request, text % name)]
        project = messages.as_dict(arguments.get("connect")).get(messages.PROJECT)
        if (
            self._sessions.agent.project
            and isinstance(project, str)
            and project not in ("", self._sessions.agent.project)
        ):
            return [connection.refuse(request, self._another(project))]
        role = arguments.get(ROLE, "")
        if role not in ("", OBSERVE, TAKE_OVER):
            return [connection.refuse(request, '"%s" must be "%s" or "%s"' % (ROLE, OBSERVE, TAKE_OVER))]
        try:
            connection.ranks = ranks.parse(str(arguments[RANKS])) if arguments.get(RANKS) else None
        except ranks.RankSetError as error:
            return [connection.refuse(request, '"%s": %s; %s' % (RANKS, error, error.hint))]
        pid, editor = arguments.get("subProcessId"), arguments.get(EDITOR)
        connection.key = pid if isinstance(pid, int) and pid > 0 else ROOT
        if connection.key == ROOT:
            connection.editor = self._sessions.next_editor()
        else:
            connection.editor = editor if isinstance(editor, int) else 0
        connection.attach, connection.attach_body, self._role = request, body, role
        return self._settle()

    # -- waiting ----------------------------------------------------------------------------------------------------

    def ready(self) -> bool:
        """Tell whether the awaited event of a WAIT has occurred."""
        controller = self._sessions.controller(self.connection.key)
        if self._waits_for == _DELAY:
            return False
        if self._waits_for == _CONTROLLER:
            return not self._role or (
                controller is not None and controller.configured and not controller.leaving
            )
        if self._waits_for == _GRACE:
            return controller is None or controller.leaving
        present = list(self._sessions.controllers().values())
        return not any(one in present for one in self._evicted) and (
            controller is None or not controller.leaving
        )

    def resume(self) -> List[Action]:
        """Continue after a WAIT."""
        waited, self._waits_for = self._waits_for, ""
        self._sessions.remove(self.connection)
        if waited == _DELAY:
            return self._refused()
        return self._settle(waited) if waited else []

    def code_checked(self) -> List[Action]:
        """Continue after a CHECK_CODE: another client may have attached meanwhile."""
        self._has_checked_code = True
        return self._settle(self._waited)

    def offer(self) -> List[Action]:
        """Let this waiting observer become the controller: the adapter offers the process to the same editor."""
        self._role = ""
        return []

    def _settle(self, waited: str = "") -> List[Action]:
        """Decide the role, or wait if that is not possible yet; `waited` is the event that was waited for."""
        connection, role = self.connection, self._role
        controller = self._sessions.controller(connection.key)
        if connection.key != ROOT and connection.editor in self._sessions.evicted:
            return (
                self._no_controller()
            )  # the editor still opens sessions for processes announced before it lost the root session
        if role == OBSERVE and (controller is None or controller.leaving or not controller.configured):
            return self._no_controller() if waited else self._wait(_CONTROLLER, CONTROLLER_TIMEOUT_S)
        if controller is None or (controller.leaving and waited == _RELEASE):
            if connection.key == ROOT and self._sessions.agent.checks_code and not self._has_checked_code:
                self._waited = waited
                return [Action(CHECK_CODE, connection)]
            return connection.turn(CONTROLLING).begin()
        if controller.leaving:
            return self._wait(_RELEASE, RELEASE_TIMEOUT_S)
        if role == TAKE_OVER:
            return [*self._evict(), *self._wait(_RELEASE, RELEASE_TIMEOUT_S)]
        if role == OBSERVE or waited == _GRACE:
            return connection.turn(OBSERVING).begin()
        return self._wait(_GRACE, GRACE_S)

    def _wait(self, what: str, seconds: float) -> List[Action]:
        self._waits_for = what
        if what == _CONTROLLER:
            self._sessions.add_waiting(self.connection)
        return [Action(WAIT, self.connection, seconds=seconds)]

    def _turn_away(self, request: Message, reason: str, seconds: float) -> List[Action]:
        """Refuse a client that does not know the token, now or after a delay."""
        self.connection.attach, self._reason = request, reason
        return self._wait(_DELAY, seconds) if seconds else self._refused()

    def _refused(self) -> List[Action]:
        connection = self.connection
        ends = connection.close("refused: " + self._reason.partition(":")[0])
        return [connection.refuse(connection.attach, self._reason), *ends]

    def _no_controller(self) -> List[Action]:
        connection = self.connection
        if connection.key != ROOT:  # as debugpy does for a process that is gone
            answer = connection.to_client(messages.answer(connection.attach))
            return [answer, connection.to_client(messages.event("terminated"))]
        return [
            connection.refuse(
                connection.attach, 'no editor controls this session: attach without "%s"' % ROLE
            )
        ]

    def _another(self, project: str) -> str:
        """Return the message that refuses a client meant for another project."""
        text = (
            "this port belongs to another project: %s, which runs %s; this launch entry belongs to %s. Type `dkdbg up` in "
            "your project, which takes a free port, or stop the other one (its task `dkdbg: stop`)"
        )
        return text % (_name(self._sessions.agent.project), self._sessions.agent.what_runs, _name(project))

    def _evict(self) -> List[Action]:
        """Take the process from its controller; with the root session, take all processes and end observations."""
        sessions, key = self._sessions, self.connection.key
        found = sessions.controllers()
        self._evicted = [one for other, one in found.items() if key in (ROOT, other) and not one.leaving]
        text = "another editor (%s) has taken this session over" % self.connection.address
        ends: List[Action] = []
        if key == ROOT:
            sessions.evicted.update(one.editor for one in self._evicted if one.key == ROOT)
            beside = [one for other in sessions.observed() for one in sessions.observers(other)]
            for one in beside:
                if one.editor in sessions.evicted:
                    ends += one.phase.end()
        return [*ends, *(action for one in self._evicted for action in one.phase.give_up(text))]


def _name(project: str) -> str:
    """Return the part of a project's id that a user knows: its folder's name."""
    return project.rpartition("-")[0][:60] or project[:60]


def _request(request: Message, arguments: Message) -> Message:
    """Return an unauthenticated request reduced to its command, its number and these arguments."""
    command, sequence = request["command"], request["seq"]
    return {"seq": sequence, "type": "request", "command": command, "arguments": arguments}


def _introduction(request: Message) -> Message:
    """Return the arguments of an `initialize` request whose types DAP allows there: strings and booleans."""
    given = messages.as_dict(request.get("arguments"))
    good = {k: v for k, v in given.items() if isinstance(v, (bool, str)) and len(k) <= MAX_CHARACTERS}
    return {
        k: v[:MAX_CHARACTERS] if isinstance(v, str) else v for k, v in list(good.items())[:MAX_PROPERTIES]
    }


def _with_additions(body: bytes, additions: Message) -> bytes:
    """Return the answer to `initialize` with our properties added, any other message unchanged."""
    try:
        message = frames.decode(body)
    except frames.FrameError:
        return body
    if message.get("command") != "initialize" or message.get("success") is not True:
        return body
    content = dict(messages.as_dict(message.get("body")), **additions)
    return messages.body_of(dict(message, body=content))
