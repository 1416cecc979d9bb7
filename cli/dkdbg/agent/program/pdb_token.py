"""The token of pdb over TCP as salt and digest: the program's processes can check a token and do not know it."""

from __future__ import annotations

import os

_ROUNDS = 100000


def digest(token: str) -> str:
    """Return `SALT:DIGEST` of a token, in hexadecimal digits (PBKDF2, RFC 8018)."""
    salt = os.urandom(16)
    return "%s:%s" % (salt.hex(), _derive(token, salt))


def fits(given: str, wanted: str) -> bool:
    """Tell whether a token is the one of `SALT:DIGEST`."""
    import hmac

    salt, _, derived = wanted.partition(":")
    return hmac.compare_digest(_derive(given, bytes.fromhex(salt)), derived)


def _derive(token: str, salt: bytes) -> str:
    import hashlib

    return hashlib.pbkdf2_hmac("sha256", token.encode("utf-8", "replace"), salt, _ROUNDS).hex()
