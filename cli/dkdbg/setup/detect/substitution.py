"""Replace `$VAR` and `${VAR:-default}` as in Dockerfiles, compose files and `.env` files."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from dkdbg.repository import dotenv

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Characters that variables may add to a text: each line of a hostile file may double the one before it.
_MAX_ADDED = 8192
_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_PLAIN = re.compile(
    rf"\$(?:(?P<escaped>\$)|(?P<name>{_NAME})|\{{(?P<braced>{_NAME})(?:(?P<op>:?[-+?=])(?P<word>[^{{}}]*))?\}})"
)


def substitute(text: str, values: Mapping[str, str], *, keep_unknown: bool = False) -> str:
    """Return `text` with variables and defaults replaced; an unknown variable becomes empty.

    `$$` becomes `$` (compose). With `keep_unknown` a variable without value and default is kept, for a shell to
    replace at run time. Variables that would add more than _MAX_ADDED characters are kept too.
    """
    left = _MAX_ADDED

    def bounded(match: re.Match[str]) -> str:
        nonlocal left
        found = value(match)
        left -= len(found)
        return found if left >= 0 else match[0]

    def value(match: re.Match[str]) -> str:
        if match["escaped"]:
            return "$"
        known = values.get(match["name"] or match["braced"])
        operator, word = match["op"] or "", match["word"] or ""
        if operator.endswith("+"):
            return word if known else ""
        if known is not None and (known or not operator.startswith(":")):
            return known
        if operator.endswith(("-", "=")):
            return word
        return match[0] if keep_unknown else ""

    # Nested defaults, `${A:-${B:-c}}`, resolve from the inside: the pattern matches innermost braces only.
    for _ in range(4):
        replaced = _PLAIN.sub(bounded, text)
        if replaced == text or "${" not in replaced:
            return replaced
        text = replaced
    return text


def insisted(text: str, values: Mapping[str, str]) -> tuple[str, ...]:
    """Return the variables that `text` requires (`${VAR:?}`, `${VAR?why}`) and that have no value."""
    return tuple(
        match["braced"]
        for match in _PLAIN.finditer(text)
        if (match["op"] or "").endswith("?")
        and not (values.get(match["braced"]) or (match["op"] == "?" and match["braced"] in values))
    )


def names(text: str) -> tuple[str, ...]:
    """Return the variables of `text`, in order."""
    return tuple(match["name"] or match["braced"] for match in _PLAIN.finditer(text) if not match["escaped"])


def parse_env(text: str) -> dict[str, str]:
    """Return the variables of a `.env` file, without quotes; comments and broken lines are skipped."""
    values: dict[str, str] = {}
    for name, raw in dotenv.assignments(text):
        values[name] = substitute(raw, values)
    return values
