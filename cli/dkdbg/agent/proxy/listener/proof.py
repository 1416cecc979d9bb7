"""Proving to know the token without showing it: what `dkdbg attach` does with every target, before its attach.

Each side makes a random number for this connection, and answers with HMAC-SHA256, keyed with the token, over both
numbers, which side it is and what it is for. Whoever only answers like an agent learns no token, and cannot use what
he was told on another connection. An editor that attaches directly knows nothing of this and shows its token.

The client proves first. An agent that proved first would give everybody who can connect to it something to try guesses
on at home, as fast as he likes, past the limit on wrong tokens; so only a target that somebody attaches to gets that,
and a token of 32 random bytes, which dkdbg makes, cannot be guessed so. Not prevented: one in between who passes
everything on, both ways; the Debug Adapter Protocol is in the clear.

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

#: Properties, and the request.
NONCE = "dkdbgNonce"
PROOF = "dkdbgProof"
PROVE = "dkdbgProve"
#: What a proof is for.
ATTACH = "attach"
STATUS = "status"
#: Headers of HTTP.
HTTP_NONCE = "Dkdbg-Nonce"
HTTP_PROOF = "Dkdbg-Proof"
HTTP_SCHEME = "Dkdbg"
#: A token of fewer characters may be one that can be guessed from a proof.
SHORT = 20

_NUMBER = re.compile(r"[0-9a-f]{64}\Z")
_ASKED = re.compile(rb"\r\ndkdbg-nonce:[ \t]*([0-9a-f]{64})[ \t]*\r\n", re.IGNORECASE)
_SHOWN = re.compile(rb"\r\nauthorization:[ \t]*dkdbg[ \t]+([0-9a-f]{64})[ \t]*\r\n", re.IGNORECASE)


class Exchange:
    """The two numbers of one connection.

    Args:
        purpose: such as ATTACH. client, agent: the numbers of the two sides, 64 hexadecimal digits.
    """

    def __init__(self, purpose: str, client: str, agent: str) -> None:
        self.agent = agent
        self._said = "%s\n%s\n%s" % (purpose, client, agent)

    def of_client(self, token: str) -> str:
        """Return what a client with this token answers."""
        return self._mac(token, "client")

    def of_agent(self, token: str) -> str:
        """Return what an agent with this token answers."""
        return self._mac(token, "agent")

    def _mac(self, token: str, side: str) -> str:
        said = "dkdbg proof 1\n%s\n%s" % (side, self._said)
        return hmac.new(token.encode("utf-8", "surrogatepass"), said.encode(), hashlib.sha256).hexdigest()


def number() -> str:
    """Return a number that nobody can foresee."""
    return os.urandom(32).hex()


def is_number(value: object) -> bool:
    """Tell whether a value has the form of such a number; a proof has the same."""
    return isinstance(value, str) and _NUMBER.match(value) is not None


def is_same(shown: object, right: str) -> bool:
    """Compare a proof with the right one; the time it takes tells nothing."""
    return isinstance(shown, str) and hmac.compare_digest(
        shown.encode("utf-8", "surrogatepass"), right.encode()
    )


def begin(purpose: str, shown: object) -> Optional[Exchange]:
    """Return the agent's side of an exchange that a client has begun with its number; None when it is none."""
    return Exchange(purpose, shown, number()) if isinstance(shown, str) and is_number(shown) else None


# -- over HTTP ----------------------------------------------------------------------------------------------------


def asked(request: bytes) -> Optional[Exchange]:
    """Return the exchange that a request over HTTP begins; None when it begins none."""
    found = _ASKED.search(request.partition(b"\r\n\r\n")[0] + b"\r\n")
    return begin(STATUS, found.group(1).decode()) if found else None


def challenge(exchange: Exchange) -> bytes:
    """Return the answer to such a request."""
    head = "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: %s\r\n%s: %s\r\nContent-Length: 0\r\n\r\n"
    return (head % (HTTP_SCHEME, HTTP_NONCE, exchange.agent)).encode()


def shown(request: bytes) -> str:
    """Return the proof in a request over HTTP; empty when there is none."""
    found = _SHOWN.search(request.partition(b"\r\n\r\n")[0] + b"\r\n")
    return found.group(1).decode() if found else ""
