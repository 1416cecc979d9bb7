"""Checks the token of an attach, where other users can reach the port.

A right token is always accepted: behind Docker's proxy the user and a guesser have one address, and guesses must not
lock out the user. The token's length protects it against guesses. After many wrong tokens, answers are delayed.

The token appears in no log, record or answer. debugpy copies the whole attach request into those of child sessions,
so these carry the token too.
"""

from __future__ import annotations

import hmac

from dkdbg.agent import settings
from dkdbg.agent.proxy.listener import proof

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, Mapping, Tuple

#: Property of the attach request that carries the token.
PROPERTY = "dkdbgToken"
#: Rate limit on wrong tokens of one address: the number answered without delay at first, the number added each
#: second, and the delay in seconds of all other answers.
BURST = 10
PER_SECOND = 1.0
DELAY_S = 1.0
#: Maximum remembered addresses.
_MAX_ADDRESSES = 1024


def read(environment: Mapping[str, str]) -> str:
    """Return the required token, empty for none.

    Raises:
        ValueError: the file cannot be read or is empty. Continuing would leave the agent open to everyone.
    """
    token = environment.get(settings.ENV_TOKEN, "").strip()
    path = environment.get(settings.ENV_TOKEN_FILE, "")
    if token or not path:
        return token
    try:
        with open(path) as source:
            token = source.read(4096).strip()
    except (OSError, ValueError) as error:
        raise ValueError("cannot read %s=%s: %s" % (settings.ENV_TOKEN_FILE, path, error)) from error
    if not token:
        raise ValueError("%s=%s is empty: it must contain the token" % (settings.ENV_TOKEN_FILE, path))
    return token


def without(environment: Mapping[str, str]) -> Dict[str, str]:
    """Return an environment without the token, for the program, which might print it."""
    return {k: v for k, v in environment.items() if k not in (settings.ENV_TOKEN, settings.ENV_TOKEN_FILE)}


class Check:
    """Compares tokens, and counts wrong ones by address; with an empty token it accepts everything."""

    def __init__(self, token: str) -> None:
        self._token = token.encode("utf-8", "surrogatepass")
        self._left: Dict[str, Tuple[float, float]] = {}

    def __bool__(self) -> bool:
        return bool(self._token)

    def proven(self, exchange: proof.Exchange, shown: object) -> str:
        """Return what to pass to `refusal` as `shown` for a client that proves its token instead of showing it.

        The token if the proof is right; otherwise a wrong token, so that wrong proofs are counted too.
        """
        token = self._token.decode("utf-8", "surrogatepass")
        return token if proof.is_same(shown, exchange.of_client(token)) else token + "?"

    def answer(self, exchange: proof.Exchange) -> str:
        """Return our own proof, for a client with a right proof."""
        return exchange.of_agent(self._token.decode("utf-8", "surrogatepass"))

    def refusal(self, shown: object, address: str, now: float) -> Tuple[str, float]:
        """Return why a token is refused, in one line, and the delay of the answer in seconds.

        The line is empty if the token is right or not required.

        Args:
            shown: the property of the attach request, None if missing.
            now: seconds, monotonic.
        """
        if not self._token:
            return "", 0.0
        given = shown.encode("utf-8", "surrogatepass") if isinstance(shown, str) else b""
        if hmac.compare_digest(given, self._token):
            return "", 0.0
        left, since = self._left.get(address, (float(BURST), now))
        left = min(float(BURST), left + (now - since) * PER_SECOND)
        if len(self._left) >= _MAX_ADDRESSES and address not in self._left:
            del self._left[next(iter(self._left))]
        self._left[address] = (max(0.0, left - 1), now)
        what = "is missing" if shown is None or shown == "" else "is wrong"
        text = 'the token %s: put it into "%s" of this attach configuration (the value of %s where the program runs)'
        return text % (what, PROPERTY, settings.ENV_TOKEN), 0.0 if left >= 1 else DELAY_S
