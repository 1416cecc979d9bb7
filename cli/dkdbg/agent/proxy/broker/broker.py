"""Decides what passes between one client and debugpy's adapter: a state machine without sockets and clocks.

Before an attach with the right token, only `initialize` and `disconnect` reach the adapter. One client controls a
process. A second one observes or takes over. Each phase of a connection is a class, see `_PHASES`.
"""

from __future__ import annotations

from dkdbg.agent.dap import frames, messages
from dkdbg.agent.proxy.broker import handover
from dkdbg.agent.proxy.broker.adapter_side import AdapterSide, OpenRequests
from dkdbg.agent.proxy.broker.attaching import Attaching
from dkdbg.agent.proxy.broker.connection import ATTACHING, CLOSED, ROOT, Connection
from dkdbg.agent.proxy.broker.controller import Controlling
from dkdbg.agent.proxy.broker.observers import Observing
from dkdbg.agent.proxy.broker.phase import Closed, Evicted
from dkdbg.agent.proxy.broker.reattach import Reattaching
from dkdbg.agent.proxy.broker.replay import Settings
from dkdbg.agent.proxy.broker.stops import Stops

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List, Set

    from dkdbg.agent.proxy.broker.connection import Action, Phase
    from dkdbg.agent.proxy.broker.sessions import Sessions


_PHASES = {each.name: each for each in (Attaching, Controlling, Observing, Reattaching, Evicted, Closed)}


class Broker:
    """Broker between one client and the adapter: takes bodies of frames, returns actions for the sockets. Never raises.

    Args:
        address: the client's address, for messages to other users.
    """

    def __init__(self, sessions: Sessions, address: str) -> None:
        self._sessions = sessions
        self.connection = connection = Connection(address, Settings(), Stops(self._report, sessions.clock))
        connection.turn = self._turn
        self._open_requests = open_requests = OpenRequests(connection, sessions.next_sequence)
        adapter = AdapterSide(connection, sessions, open_requests)
        self._parts = (connection, sessions, adapter, open_requests)
        self._turn(ATTACHING)

    @property
    def phase(self) -> str:
        """Return the name of the phase; see connection.py."""
        return self.connection.phase.name

    # -- the client's side ------------------------------------------------------------------------------------------

    def from_client(self, body: bytes) -> List[Action]:
        """Handle one message of the client."""
        connection = self.connection
        if self.phase == CLOSED:
            return []
        try:
            message = frames.decode(body)
        except frames.FrameError as error:
            return connection.close(str(error))
        kind = message.get("type")
        if kind == "event":  # the protocol has no events of a client
            return []
        if kind == "response":
            return connection.phase.answer(message, body)
        if (
            kind != "request"
            or not isinstance(message.get("command"), str)
            or type(message.get("seq")) is not int
        ):
            return connection.close("not a request of the Debug Adapter Protocol")
        if not 0 <= message["seq"] < messages.OWN_SEQUENCE:
            return [connection.refuse(message, "seq must be between 0 and %d" % (messages.OWN_SEQUENCE - 1))]
        if not isinstance(message.get("arguments"), (dict, type(None))):
            return [connection.refuse(message, '"arguments" must be an object')]
        return connection.phase.from_client(message, body)

    def client_gone(self) -> List[Action]:
        """Handle the end of the client's side; the adapter's remaining messages still pass."""
        self.connection.leaving = True
        return self.connection.phase.client_gone()

    def ready(self) -> bool:
        """Tell whether the awaited event of a WAIT has occurred."""
        return self.connection.phase.ready()

    def resume(self) -> List[Action]:
        """Continue after a WAIT."""
        return self.connection.phase.resume()

    def code_checked(self, ending: Set[int]) -> List[Action]:
        """Continue after a CHECK_CODE; processes that are about to be ended, by pid, are not announced."""
        self._sessions.ending = ending
        return self.connection.phase.code_checked()

    # -- the adapter's side -----------------------------------------------------------------------------------------

    def from_adapter(self, body: bytes) -> List[Action]:
        """Handle one message of the adapter."""
        return self.connection.phase.from_adapter(body)

    def adapter_gone(self) -> List[Action]:
        """Handle the end of the adapter's side: it has released the process, or has died."""
        return self.connection.phase.adapter_gone()

    def again(self) -> List[Action]:
        """Continue after a RECONNECT."""
        return self.connection.phase.again()

    def no_adapter(self, reason: str) -> List[Action]:
        """Refuse the client because no adapter could be reached; `reason` is one line."""
        return self.connection.phase.no_adapter(reason)

    def ended(self) -> List[Action]:
        """Clean up after both connections are closed."""
        self._turn(CLOSED)
        self._sessions.remove(self.connection)
        failed = self._open_requests.give_up("its session has ended")
        others = [action for action in failed if action.connection is not self.connection]
        return [*others, *handover.released(self.connection, self._sessions)]

    def _turn(self, name: str) -> Phase:
        self.connection.phase = phase = _PHASES[name](self._parts)
        return phase

    def _report(self, where: str) -> None:
        key = self.connection.key
        if key != ROOT and self._sessions.controller(key) is self.connection:
            self._sessions.agent.on_stop(key, where)
