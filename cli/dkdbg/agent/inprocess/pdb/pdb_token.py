"""The token of pdb over TCP: a web page and every user of the machine can reach a port on loopback.

The user's own token is in the program's environment as salt and digest: its processes can check a token
without knowing it. Without one each process generates its own, prints it on stderr, and keeps it in memory.
"""

from __future__ import annotations

import os
import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import MutableMapping

_ROUNDS = 100000
_ENV = "DKDBG_PDB_TOKEN"
#: Token that this process has generated, because the user has set none.
_made = ""
#: Held while the plain token is replaced: another thread would see neither token nor digest in between.
_taking = threading.RLock()


def digest(token: str) -> str:
    """Return `SALT:DIGEST` of a token, in hexadecimal digits (PBKDF2, RFC 8018)."""
    salt = os.urandom(16)
    return "%s:%s" % (salt.hex(), _derive(token, salt))


def fits(given: str, wanted: str) -> bool:
    """Tell whether a token matches `SALT:DIGEST`; False for malformed text."""
    import hmac

    salt, _, derived = wanted.partition(":")
    try:
        return hmac.compare_digest(_derive(given, bytes.fromhex(salt)), derived)
    except (ValueError, TypeError):
        return False


def is_named(environment: MutableMapping[str, str]) -> bool:
    """Tell whether the user has set a token; a plain one is removed from the environment, as the agent does.

    Raises:
        OSError, ValueError: DKDBG_TOKEN_FILE cannot be read, or is empty.
    """
    with _taking:
        token = environment.pop("DKDBG_TOKEN", "").strip()
        path = environment.pop("DKDBG_TOKEN_FILE", "")
        if not token and path:
            with open(path) as source:
                token = source.read(4096).strip()
            if not token:
                raise ValueError("DKDBG_TOKEN_FILE=%s is empty: it must contain the token" % path)
        if token:
            environment[_ENV] = digest(token)
        return bool(environment.get(_ENV))


def renew_lock() -> None:
    """Replace the lock in a forked child: another thread of the parent may have held it."""
    global _taking  # noqa: PLW0603
    _taking = threading.RLock()


def is_right(line: str) -> bool:
    """Tell whether a client's first line is the token of this process."""
    import hmac

    named = os.environ.get(_ENV, "")
    if named:
        return fits(line.strip(), named)
    return bool(_made) and hmac.compare_digest(line.strip().encode("utf-8", "replace"), _made.encode("ascii"))


def to_type() -> str:
    """Return a clause that tells which first line to type; the first call generates a token if needed."""
    global _made  # noqa: PLW0603
    if os.environ.get(_ENV, ""):
        return "type your DKDBG_TOKEN first"
    _made = _made or os.urandom(8).hex()
    return "type this first: %s" % _made


def forget() -> None:
    """Invalidate the generated token; the next call of `to_type` generates another one."""
    global _made  # noqa: PLW0603
    _made = ""


def _derive(token: str, salt: bytes) -> str:
    import hashlib

    return hashlib.pbkdf2_hmac("sha256", token.encode("utf-8", "replace"), salt, _ROUNDS).hex()
