"""The door: what passes between one client and debugpy's adapter, as a state machine without sockets and time.

Before an attach with the right token nothing but `initialize` and `disconnect` reaches the adapter. One client holds
a process; a second one looks on or takes over. Each phase is a class of its own; here is which one comes when.
"""

from __future__ import annotations

from dkdbg.agent.dap import frames, messages
from dkdbg.agent.proxy.broker import handover
from dkdbg.agent.proxy.broker.adapter_side import AdapterSide
from dkdbg.agent.proxy.broker.attaching import Attaching
from dkdbg.agent.proxy.broker.connection import ATTACHING, CLOSED, ROOT, Connection
from dkdbg.agent.proxy.broker.controller import Controlling
from dkdbg.agent.proxy.broker.ending import Closed, Evicted
from dkdbg.agent.proxy.broker.observers import Observing
from dkdbg.agent.proxy.broker.open_requests import OpenRequests
from dkdbg.agent.proxy.broker.reattach import Reattaching
from dkdbg.agent.proxy.broker.replay import Settings
from dkdbg.agent.proxy.broker.stops import Stops

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Dict, List, Set

    from dkdbg.agent.proxy.broker.connection import Action, Phase
    from dkdbg.agent.proxy.broker.sessions import Sessions


class Broker:
    """One client's connection.

    Bodies of frames come in, actions for the sockets come out; nothing is ever raised.

    Args:
        address: where the client is, for messages to other people.

    Attributes:
        connection: its data and its phase.
    """

    def __init__(self, sessions: Sessions, address: str) -> None:
        self._sessions = sessions
        self.connection = connection = Connection(address, Settings(), Stops(self._report))
        connection.turn = self._turn
        open_requests = OpenRequests(connection, sessions.next_sequence)
        adapter = AdapterSide(connection, sessions, open_requests)
        self._phases: Dict[str, Callable[[], Phase]] = {
            Attaching.name: lambda: Attaching(connection, sessions, adapter),
            Controlling.name: lambda: Controlling(connection, sessions, adapter, open_requests),
            Observing.name: lambda: Observing(connection, sessions),
            Reattaching.name: lambda: Reattaching(connection, sessions, adapter, open_requests),
            Evicted.name: lambda: Evicted(connection, sessions, adapter),
            Closed.name: lambda: Closed(connection, sessions),
        }
        self._turn(ATTACHING)

    @property
    def phase(self) -> str:
        """The name of the phase, see connection.py."""
        return self.connection.phase.name

    # -- the client's side ------------------------------------------------------------------------------------------

    def from_client(self, body: bytes) -> List[Action]:
        """Take one message of the client."""
        connection = self.connection
        if self.phase == CLOSED:
            return []
        try:
            message = frames.decode(body)
        except frames.FrameError as error:
            return connection.close(str(error))
        kind = message.get("type")
        if kind == "event":  # the protocol has none of a client
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
            return [connection.refuse(message, "sequence numbers end at %d" % (messages.OWN_SEQUENCE - 1))]
        if not isinstance(message.get("arguments"), (dict, type(None))):
            return [connection.refuse(message, '"arguments" is an object')]
        return connection.phase.from_client(message, body)

    def client_gone(self) -> List[Action]:
        """The client has closed its side; what is left to come from the adapter still passes."""
        self.connection.leaving = True
        return self.connection.phase.client_gone()

    def ready(self) -> bool:
        """Tell whether what a WAIT was for has come."""
        return self.connection.phase.ready()

    def resume(self) -> List[Action]:
        """Go on after a WAIT."""
        return self.connection.phase.resume()

    def looked(self, ending: Set[int]) -> List[Action]:
        """Go on after a LOOK.

        Args:
            ending: pids of the processes that are about to be ended: nobody is told of them.
        """
        self._sessions.ending = ending
        return self.connection.phase.looked()

    # -- the adapter's side -----------------------------------------------------------------------------------------

    def from_adapter(self, body: bytes) -> List[Action]:
        """Take one message of the adapter."""
        return self.connection.phase.from_adapter(body)

    def adapter_gone(self) -> List[Action]:
        """The adapter has closed its side: the process is free, or the adapter is no more."""
        return self.connection.phase.adapter_gone()

    def again(self) -> List[Action]:
        """Do what a RECONNECT was for."""
        return self.connection.phase.again()

    def no_adapter(self, reason: str) -> List[Action]:
        """There was no adapter to pass `initialize` to."""
        return self.connection.phase.no_adapter(reason)

    def ended(self) -> List[Action]:
        """Both connections are closed."""
        self._turn(CLOSED)
        self._sessions.remove_observer(self.connection)
        self._sessions.remove_waiting(self.connection)
        return handover.released(self.connection, self._sessions)

    def _turn(self, name: str) -> Phase:
        self.connection.phase = phase = self._phases[name]()
        return phase

    def _report(self, where: str) -> None:
        key = self.connection.key
        if key != ROOT and self._sessions.controller(key) is self.connection:
            self._sessions.agent.on_stop(key, where)
