"""Handshake with an agent: `initialize`, mutual proof of the token, `attach`. No I/O.

The token itself is never sent: a target's port may belong to an attacker (agent/proxy/listener/proof.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dkdbg.agent.dap import messages
from dkdbg.agent.dap.messages import as_dict
from dkdbg.agent.proxy.listener import proof, tokens
from dkdbg.attach import from_targets

if TYPE_CHECKING:
    from collections.abc import Callable

    from dkdbg.agent.dap.messages import Message

_NO_PROOFS = (
    "its agent accepts the token only unencrypted, which dkdbg attach never sends: update the agent "
    "(dkdbg init, dkdbg down, then dkdbg up)"
)
_WRONG_PROOF = "not attached: the program at this port does not know the token"
_NO_PROOF = (
    "not attached: the port belongs to another user of this machine, and its program did not prove the token"
)


class Handshake:
    """Sends one `initialize` and one `attach`, without the token.

    Args:
        initialize, attach: the two requests; the token, if any, is in the arguments of the attach.
        number: returns the next sequence number for the proxy's own requests.
        must_prove: do not attach to an agent that does not prove the token.

    Attributes:
        is_over: whether the handshake has ended: the attach was sent, or refused.
        refusal: why the attach is not sent, in one line.
    """

    def __init__(
        self, initialize: Message, attach: Message, number: Callable[[], int], *, must_prove: bool = False
    ) -> None:
        arguments = as_dict(attach.get("arguments"))
        token = arguments.get(tokens.PROPERTY)
        self._token = token if isinstance(token, str) else ""
        self._attach = {
            **attach,
            "arguments": {key: value for key, value in arguments.items() if key != tokens.PROPERTY},
        }
        self._initialize = initialize
        self._new_number = number
        self._must_prove = must_prove
        self._number = proof.nonce()
        self._exchange: proof.Exchange | None = None
        self._proving = 0
        self._is_unproven = False
        self.is_over = False
        self.refusal = ""

    def begin(self) -> list[bytes]:
        """Return the first messages."""
        if self._must_prove and not self._token:
            return self._refuse(_NO_PROOF)
        if not self._token:
            self.is_over = True
            return [messages.body_of(self._initialize), messages.body_of(self._attach)]
        arguments = {**as_dict(self._initialize.get("arguments")), proof.NONCE: self._number}
        return [messages.body_of({**self._initialize, "arguments": arguments})]

    def take(self, message: Message) -> list[bytes] | None:
        """Return the answers to a message of the agent; None if it is not part of the handshake."""
        if self.is_over or message.get("type") != "response":
            return None
        number, content = message.get("request_seq"), as_dict(message.get("body"))
        if self._exchange is None and number == self._initialize.get("seq"):
            return self._initialized(message, content)
        if self._exchange is not None and number == self._proving:
            return self._answered(self._exchange, message, content)
        return None

    def why_refused(self, response: Message) -> str:
        """Return the agent's reason for refusing the attach, in one line."""
        text = from_targets.line(response.get("message")).removeprefix("dkdbg: ")
        if self._is_unproven and "token" in text:
            return _NO_PROOFS
        return text or "the attach was refused"

    def _initialized(self, message: Message, content: dict[str, Any]) -> list[bytes]:
        if message.get("success") is not True:  # the agent closes the connection
            return []
        theirs = content.get(proof.NONCE)
        if isinstance(theirs, str) and proof.is_nonce(theirs):
            self._exchange = proof.Exchange(proof.ATTACH, self._number, theirs)
            self._proving = self._new_number()
            shown = {proof.PROOF: self._exchange.of_client(self._token)}
            return [messages.request(self._proving, proof.PROVE, shown)]
        if self._must_prove:
            return self._refuse(_NO_PROOF)
        self._is_unproven = True  # the agent requires no token, or is too old for proofs
        return self._go_on()

    def _answered(self, exchange: proof.Exchange, message: Message, content: dict[str, Any]) -> list[bytes]:
        if message.get("success") is not True:
            return self._refuse(self.why_refused(message))
        if not proof.is_same(content.get(proof.PROOF), exchange.of_agent(self._token)):
            return self._refuse(_WRONG_PROOF)
        return self._go_on()

    def _go_on(self) -> list[bytes]:
        self.is_over = True
        return [messages.body_of(self._attach)]

    def _refuse(self, reason: str) -> list[bytes]:
        self.is_over, self.refusal = True, reason
        return []
