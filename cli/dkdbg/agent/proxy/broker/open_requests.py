"""Unanswered requests on one client's connection: the client's, the adapter's and the broker's. No I/O."""

from __future__ import annotations

from dkdbg.agent.dap import messages
from dkdbg.agent.proxy.broker.connection import OBSERVING

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Dict, List, Optional, Set, Tuple

    from dkdbg.agent.dap.messages import Message
    from dkdbg.agent.proxy.broker.connection import Action, Connection


class OpenRequests:
    """Unanswered requests of one connection; `number` returns a sequence number for one of the broker."""

    def __init__(self, connection: Connection, number: Callable[[], int]) -> None:
        self._connection = connection
        self._number = number
        self._client: Dict[int, str] = {}
        self._adapter: Set[int] = set()
        self._ours: Dict[int, Optional[Callable[[Message], List[Action]]]] = {}
        #: The broker's requests on behalf of observers.
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
        """Note a request of the broker and return its number; `then` gets the response, None drops it."""
        sequence = self._number()
        self._ours[sequence] = then
        return sequence

    def lent(self, borrower: Connection, request: Message) -> int:
        """Note a request on behalf of an observer and return its number."""

        def hand_on(response: Message) -> List[Action]:
            if borrower.phase.name != OBSERVING:
                return []
            return [borrower.to_client(messages.body_of(dict(response, request_seq=request["seq"])))]

        sequence = self.ours(hand_on)
        self._lent[sequence] = (borrower, request)
        return sequence

    def is_ours(self, sequence: int) -> bool:
        """Tell whether a number is that of a request of the broker."""
        return sequence in self._ours

    def answered_client(self, sequence: int) -> None:
        """Note that the adapter has answered a request of the client."""
        self._client.pop(sequence, None)

    def answered_adapter(self, response: Message) -> bool:
        """Note an answer of the client; tell whether this adapter has asked for it."""
        sequence = response.get("request_seq")
        if not isinstance(sequence, int) or sequence not in self._adapter:
            return False
        self._adapter.discard(sequence)
        return True

    def answered_us(self, sequence: int, response: Message) -> List[Action]:
        """Pass the answer to a request of the broker to its receiver."""
        then = self._ours.pop(sequence)
        self._lent.pop(sequence, None)
        return [] if then is None else then(response)

    def give_up(self, reason: str) -> List[Action]:
        """Fail all open requests: no answer will arrive any more."""
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
