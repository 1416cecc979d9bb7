"""Proves knowledge of the token without sending it: `dkdbg attach` and a target prove it to each other.

Each side makes a nonce for the connection, and answers with HMAC-SHA256, keyed with the token, over both nonces, its
side and the purpose. An impostor learns no token, and cannot reuse the proof on another connection. An editor that
attaches directly does not support this and shows its token.

The client proves first. If the agent did, every peer could guess tokens offline against its proof, where no limit on
wrong tokens applies. So only a target that a user attaches to gets a proof, and a token of 32 random bytes, as dkdbg
makes them, resists guessing. Not prevented: a relay attack by a man in the middle; the Debug Adapter Protocol is
unencrypted.

With the Debug Adapter Protocol: `initialize` carries NONCE, and so does the body of its response; the request PROVE
carries PROOF, and so does the body of its response. With HTTP: a request with the header `Dkdbg-Nonce` is answered by
401 and that header, the next one on the same connection carries `Authorization: Dkdbg PROOF`, its answer `Dkdbg-Proof`.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional

#: NONCE, PROOF: properties of DAP messages. PROVE: the request that carries PROOF.
NONCE = "dkdbgNonce"
PROOF = "dkdbgProof"
PROVE = "dkdbgProve"
#: Purposes of a proof.
ATTACH = "attach"
STATUS = "status"
#: HTTP headers.
HTTP_NONCE = "Dkdbg-Nonce"
HTTP_PROOF = "Dkdbg-Proof"
HTTP_SCHEME = "Dkdbg"
#: A token of fewer characters might be guessed from a proof.
MIN_TOKEN_CHARACTERS = 20

_NONCE = re.compile(r"[0-9a-f]{64}\Z")


class Exchange:
    """The two nonces of one connection.

    Args:
        purpose: such as ATTACH. client, agent: the nonces of the two sides, 64 hexadecimal digits.
    """

    def __init__(self, purpose: str, client: str, agent: str) -> None:
        self.agent = agent
        self._signed = "%s\n%s\n%s" % (purpose, client, agent)

    def of_client(self, token: str) -> str:
        """Return the proof of a client with this token."""
        return self._mac(token, "client")

    def of_agent(self, token: str) -> str:
        """Return the proof of an agent with this token."""
        return self._mac(token, "agent")

    def _mac(self, token: str, side: str) -> str:
        text = "dkdbg proof 1\n%s\n%s" % (side, self._signed)
        return hmac.new(token.encode("utf-8", "surrogatepass"), text.encode(), hashlib.sha256).hexdigest()


def nonce() -> str:
    """Return an unpredictable nonce."""
    return os.urandom(32).hex()


def is_nonce(value: object) -> bool:
    """Tell whether a value has the form of a nonce; a proof has the same form."""
    return isinstance(value, str) and _NONCE.match(value) is not None


def is_same(shown: object, right: str) -> bool:
    """Compare a proof with the right one, in constant time."""
    return isinstance(shown, str) and hmac.compare_digest(
        shown.encode("utf-8", "surrogatepass"), right.encode()
    )


def begin(purpose: str, shown: object) -> Optional[Exchange]:
    """Return the agent's side of an exchange that a client has begun with its nonce; None without a nonce."""
    return Exchange(purpose, shown, nonce()) if isinstance(shown, str) and is_nonce(shown) else None


def challenge(exchange: Exchange) -> bytes:
    """Return the HTTP answer that challenges the client."""
    head = "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: %s\r\n%s: %s\r\nContent-Length: 0\r\n\r\n"
    return (head % (HTTP_SCHEME, HTTP_NONCE, exchange.agent)).encode()
