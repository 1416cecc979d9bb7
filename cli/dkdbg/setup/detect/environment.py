"""Read variables that a document gives a program: with `docker run -e`, or before its command."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from dkdbg.launchers.lines.blanks import has_blank

if TYPE_CHECKING:
    from collections.abc import Iterable

_VARIABLE_NAME = re.compile(r"[A-Za-z_]\w*")
#: A name without a value, in upper case only: a program in the image may have its own `-e` option.
_BARE = re.compile(r"[A-Z_][A-Z0-9_]*")
_SECRET_NAME = re.compile(
    r"(?:^|_)(?:TOKENS?|KEYS?|SECRETS?|PASS(?:WORD|WD|PHRASE)?|PWD|CREDENTIALS?|AUTH|DSN|LICENSE|COOKIE)(?:_|$)|APIKEY"
    r"|(?:DATABASE|DB|REDIS|BROKER|MONGO\w*|POSTGRES\w*|CONNECTION)_?(?:URL|URI|STRING)$",
    re.IGNORECASE,
)
#: Tokens with a known prefix, and a password in a URL.
_SECRET_VALUE = re.compile(
    r"^(?:hf_|sk-|ghp_|gho_|github_pat_|glpat-|xox[abp]-|AKIA|ASIA|AIza|ya29\.|eyJ|npm_|r8_|-----BEGIN)|://[^/\s:@]*:[^/\s@]+@"
)
#: Long words without a blank, a dot or a slash, which are keys more often than settings.
_KEY_LIKE = re.compile(r"(?=.*\d)(?=.*[A-Za-z])[A-Za-z0-9+_=-]{28,}")
#: `$NAME`, `${NAME}` and make's `$(NAME)`.
_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|\((\w+)\)|(\w+))")
#: Variables of dkdbg, and those that the image or the engine sets.
_NOT_TAKEN = re.compile(r"DKDBG_\w*|PATH|HOME|PWD|HOSTNAME|PYTHONUNBUFFERED")


def read_environment(given: Iterable[str]) -> tuple[tuple[str, str | None], ...]:
    """Return (name, value) of each `-e NAME=VALUE`, or of each assignment; the last one of a name applies.

    The value is None if the user's environment has to provide it: it is missing, computed by a shell, a placeholder,
    or a secret. `${OTHER}` is a variable of that environment under another name.
    """
    found: dict[str, str | None] = {}
    for word in given:
        name, equals, value = word.partition("=")
        if not (_VARIABLE_NAME if equals else _BARE).fullmatch(name) or _NOT_TAKEN.fullmatch(name):
            continue
        found[name] = _value(name, value) if equals else None
    return tuple(found.items())


def _value(name: str, value: str) -> str | None:
    if variable := _VARIABLE.fullmatch(value):
        other = variable[1] or variable[2] or variable[3]
        return None if other == name else f"${{{other}}}"
    if "$" in value or "`" in value or has_blank(value) or not value.isprintable():
        return None
    is_secret = _SECRET_NAME.search(name) or _SECRET_VALUE.search(value) or _KEY_LIKE.fullmatch(value)
    return None if is_secret and value else value
