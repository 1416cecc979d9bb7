"""The door: what passes between one client and debugpy's adapter, as a state machine without sockets and time.

Before an attach with the right token nothing but `initialize` and `disconnect` reaches the adapter. One client holds
a process; a second one looks on or takes over. Each phase is a class of its own; here is which one comes when.
"""

from __future__ import annotations

from dkdbg.agent.dap import frames, messages
from dkdbg.agent.proxy.broker import handover
from dkdbg.agent.proxy.broker.adapter_side import AdapterSide
from dkdbg.agent.proxy.broker.attaching import Introducing
from dkdbg.agent.proxy.broker.connection import CLOSED, INTRODUCING, ROOT, Connection
from dkdbg.agent.proxy.broker.controller import Holding
from dkdbg.agent.proxy.broker.ending import Closed, Evicted
from dkdbg.agent.proxy.broker.observers import LookingOn
from dkdbg.agent.proxy.broker.pending import Pending
from dkdbg.agent.proxy.broker.reattach import Rejoining
from dkdbg.agent.proxy.broker.replay import Settings
from dkdbg.agent.proxy.broker.stops import Stops

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Dict, List, Set

    from dkdbg.agent.proxy.broker.connection import Action, Phase
    from dkdbg.agent.proxy.broker.sessions import Seats


class Door:
    """One client's connection.

    Bodies of frames come in, actions for the sockets come out; nothing is ever raised.

    Args:
        address: where the client is, for messages to other people.

    Attributes:
        connection: its data and its phase.
    """

    def __init__(self, seats: Seats, address: str) -> None:
        self._seats = seats
        self.connection = connection = Connection(address, Settings(), Stops(self._report))
        connection.turn = self._turn
        pending = Pending(connection, seats.next_sequence)
        adapter = AdapterSide(connection, seats, pending)
        self._phases: Dict[str, Callable[[], Phase]] = {
            Introducing.name: lambda: Introducing(connection, seats, adapter),
            Holding.name: lambda: Holding(connection, seats, adapter, pending),
            LookingOn.name: lambda: LookingOn(connection, seats),
            Rejoining.name: lambda: Rejoining(connection, seats, adapter, pending),
            Evicted.name: lambda: Evicted(connection, seats, adapter),
            Closed.name: lambda: Closed(connection, seats),
        }
        self._turn(INTRODUCING)

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
        self._seats.ending = ending
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
        self._seats.look_away(self.connection)
        self._seats.wait_no_more(self.connection)
        return handover.released(self.connection, self._seats)

    def _turn(self, name: str) -> Phase:
        self.connection.phase = phase = self._phases[name]()
        return phase

    def _report(self, where: str) -> None:
        key = self.connection.key
        if key != ROOT and self._seats.holder(key) is self.connection:
            self._seats.on_stop(key, where)
