"""Recognise variables whose value must not be copied into a generated file, because it may be secret."""

from __future__ import annotations

import re

_SECRET_NAME = re.compile(
    r"(?:^|_)(?:TOKENS?|KEYS?|SECRETS?|PASS(?:WORD|WD|PHRASE)?|PWD|CREDENTIALS?|AUTH|DSN|LICENSE|COOKIE)(?:_|$)|APIKEY"
    r"|(?:DATABASE|DB|REDIS|BROKER|MONGO\w*|POSTGRES\w*|CONNECTION)_?(?:URL|URI|STRING)$",
    re.IGNORECASE,
)
#: Tokens with a known prefix, and URLs with a password.
_SECRET_VALUE = re.compile(
    r"^(?:hf_|sk-|ghp_|gho_|github_pat_|glpat-|xox[abp]-|AKIA|ASIA|AIza|ya29\.|eyJ|npm_|r8_|-----BEGIN)|://[^/\s:@]*:[^/\s@]+@"
)
#: Long words without blank, dot or slash, which are more often secret keys than settings.
_KEY_LIKE = re.compile(r"(?=.*\d)(?=.*[A-Za-z])[A-Za-z0-9+_=-]{28,}")


def is_secret(name: str, value: str) -> bool:
    """Return whether a variable's name, or its value, looks like that of a secret."""
    return bool(_SECRET_NAME.search(name) or _SECRET_VALUE.search(value) or _KEY_LIKE.fullmatch(value))
