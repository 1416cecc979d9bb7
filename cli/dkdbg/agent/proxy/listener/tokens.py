"""The token that an attach has to show where the port can be reached by others.

A right one always gets in: guesses do not lock out the user, who has the guesser's address where both come through
Docker's proxy. What keeps it from being guessed is its length; a wrong one is answered late when there were many.

The token is in no log, no record and no answer. debugpy copies the whole attach request into those of child
sessions, so they show it without being asked to.
"""

from __future__ import annotations

import hmac

from dkdbg.agent import settings
from dkdbg.agent.proxy.listener import proof

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, Mapping, Tuple

#: The property of the attach request.
PROPERTY = "dkdbgToken"
#: Wrong tokens of one address that are answered at once, how many more each second, and seconds until others are.
BURST = 10
PER_SECOND = 1.0
PAUSE = 1.0
#: Addresses that are remembered.
_ADDRESSES = 1024


def read(environment: Mapping[str, str]) -> str:
    """Return the token that is asked for; empty when none is.

    Raises:
        ValueError: the file cannot be read or is empty. An agent that goes on would be open to anyone.
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
    """Return an environment without the token: the program and what it prints have no use for it."""
    return {k: v for k, v in environment.items() if k not in (settings.ENV_TOKEN, settings.ENV_TOKEN_FILE)}


class Check:
    """Compares tokens, and counts wrong ones by address.

    Args:
        token: empty to let everything pass.
    """

    def __init__(self, token: str) -> None:
        self._token = token.encode("utf-8", "surrogatepass")
        self._left: Dict[str, Tuple[float, float]] = {}

    def __bool__(self) -> bool:
        return bool(self._token)

    def proven(self, exchange: proof.Exchange, shown: object) -> str:
        """Return what `refusal` takes for a client that proves its token instead of showing it.

        The token itself when the proof is right: wrong proofs are counted like wrong tokens.
        """
        token = self._token.decode("utf-8", "surrogatepass")
        return token if proof.is_same(shown, exchange.of_client(token)) else token + "?"

    def answer(self, exchange: proof.Exchange) -> str:
        """Return our own proof, for a client whose proof was right."""
        return exchange.of_agent(self._token.decode("utf-8", "surrogatepass"))

    def refusal(self, shown: object, address: str, now: float) -> Tuple[str, float]:
        """Return why a token is refused, in one line, and after how many seconds to say so.

        The line is empty when the token is right or none is asked for.

        Args:
            shown: the property of the attach request, None when it is missing.
            now: seconds on a clock that only goes forward.
        """
        if not self._token:
            return "", 0.0
        given = shown.encode("utf-8", "surrogatepass") if isinstance(shown, str) else b""
        if hmac.compare_digest(given, self._token):
            return "", 0.0
        left, since = self._left.get(address, (float(BURST), now))
        left = min(float(BURST), left + (now - since) * PER_SECOND)
        if len(self._left) >= _ADDRESSES and address not in self._left:
            del self._left[next(iter(self._left))]
        self._left[address] = (max(0.0, left - 1), now)
        what = "is missing" if shown is None or shown == "" else "is wrong"
        text = 'the token %s: put it into "%s" of this attach configuration (%s where the program runs)'
        return text % (what, PROPERTY, settings.ENV_TOKEN), 0.0 if left >= 1 else PAUSE
