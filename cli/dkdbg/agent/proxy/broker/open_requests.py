"""What waits for an answer on one client's connection: the client's, the adapter's, and requests of our own. No I/O."""

from __future__ import annotations

from dkdbg.agent.dap import messages
from dkdbg.agent.proxy.broker.connection import OBSERVING

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Dict, List, Optional, Set, Tuple

    from dkdbg.agent.dap.messages import Message
    from dkdbg.agent.proxy.broker.connection import Action, Connection


class OpenRequests:
    """The open requests of one connection.

    Args:
        connection: whose. number: returns a sequence number for a request of our own.
    """

    def __init__(self, connection: Connection, number: Callable[[], int]) -> None:
        self._connection = connection
        self._number = number
        self._client: Dict[int, str] = {}
        self._adapter: Set[int] = set()
        self._ours: Dict[int, Optional[Callable[[Message], List[Action]]]] = {}
        #: Of them, those of somebody who looks on.
        self._lent: Dict[int, Tuple[Connection, Message]] = {}

    def from_client(self, request: Message) -> None:
        """Note a request that is passed on to the adapter."""
        self._client[request["seq"]] = request["command"]

    def from_adapter(self, request: Message) -> None:
        """Note a request that is passed on to the client."""
        sequence = request.get("seq")
        if isinstance(sequence, int):
            self._adapter.add(sequence)

    def ours(self, then: Optional[Callable[[Message], List[Action]]] = None) -> int:
        """Note a request of our own to the adapter and return its number.

        Args:
            then: takes the response; without it nobody does.
        """
        sequence = self._number()
        self._ours[sequence] = then
        return sequence

    def lent(self, borrower: Connection, request: Message) -> int:
        """The same for one that somebody has asked of us, who looks on."""

        def hand_on(response: Message) -> List[Action]:
            if borrower.phase.name != OBSERVING:
                return []
            return [borrower.to_client(messages.body_of(dict(response, request_seq=request["seq"])))]

        sequence = self.ours(hand_on)
        self._lent[sequence] = (borrower, request)
        return sequence

    def is_ours(self, sequence: int) -> bool:
        """Tell whether a number is one of ours."""
        return sequence in self._ours

    def answered_client(self, sequence: int) -> None:
        """The adapter has answered a request of the client."""
        self._client.pop(sequence, None)

    def answered_adapter(self, response: Message) -> bool:
        """The client has answered; tell whether this adapter has asked."""
        sequence = response.get("request_seq")
        if not isinstance(sequence, int) or sequence not in self._adapter:
            return False
        self._adapter.discard(sequence)
        return True

    def answered_us(self, sequence: int, response: Message) -> List[Action]:
        """The adapter has answered a request of ours: hand it on to whom it is for."""
        then = self._ours.pop(sequence)
        self._lent.pop(sequence, None)
        return [] if then is None else then(response)

    def give_up(self, reason: str) -> List[Action]:
        """No answer will come any more: say so to all who wait."""
        waiting: List[Tuple[Connection, Message]] = [
            (self._connection, {"seq": number, "command": command})
            for number, command in self._client.items()
        ]
        waiting += [lent for lent in self._lent.values() if lent[0].phase.name == OBSERVING]
        own = [then for number, then in self._ours.items() if then is not None and number not in self._lent]
        self._client.clear()
        self._adapter.clear()
        self._ours.clear()
        self._lent.clear()
        failure = {"success": False, "message": reason}
        actions = [action for then in own for action in then(failure)]
        return [
            *(connection.refuse(request, reason, show=False) for connection, request in waiting),
            *actions,
        ]
