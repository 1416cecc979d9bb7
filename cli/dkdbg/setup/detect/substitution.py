"""Replace `$VAR` and `${VAR:-default}` as Dockerfiles, compose files and `.env` files do."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from dkdbg.repository import dotenv

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

#: Maximum characters to add to a text: in a hostile file each line may double the one before.
_MAX_ADDED = 8192
_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
#: A default, in which braces may be nested: `${A:-${B:-c}}`.
_WORD = r"[^{}]*"
for _ in range(3):
    _WORD = rf"[^{{}}]*(?:\{{{_WORD}\}}[^{{}}]*)*"
_PLAIN = re.compile(
    rf"\$(?:(?P<escaped>\$)|(?P<name>{_NAME})|\{{(?P<braced>{_NAME})(?:(?P<op>:?[-+?=])(?P<word>{_WORD}))?\}})"
)


def substitute(text: str, values: Mapping[str, str], *, keep_unknown: bool = False) -> str:
    """Return `text` with variables and defaults replaced once, as compose does; an unknown variable becomes empty.

    `$$` becomes `$`. With `keep_unknown`, a variable without value and default stays, for a shell to replace. Variables
    also stay if they would add more than _MAX_ADDED characters.
    """

    def value(match: re.Match[str]) -> str:
        if match["escaped"]:
            return "$"
        default = _default(match, values)
        if default is not None:
            return _PLAIN.sub(replace, default)
        return values.get(match["name"] or match["braced"], match[0] if keep_unknown else "")

    replace = bounded(value)
    return _PLAIN.sub(replace, text)


def bounded(value: Callable[[re.Match[str]], str]) -> Callable[[re.Match[str]], str]:
    """Return a replacement for `re.sub` that leaves the matches whose `value` exceeds the _MAX_ADDED characters."""
    left = _MAX_ADDED

    def replace(match: re.Match[str]) -> str:
        nonlocal left
        found = value(match)
        left -= len(found)
        return found if left >= 0 else match[0]

    return replace


def _default(match: re.Match[str], values: Mapping[str, str]) -> str | None:
    """Return the text by which an operator (`:-`, `:+`, ...) replaces a variable; None for the variable's own value."""
    operator, known = match["op"] or "", values.get(match["braced"])
    is_set = bool(known) if operator.startswith(":") else known is not None
    if operator.endswith("+"):
        return match["word"] if is_set else ""
    return match["word"] if operator.endswith(("-", "=")) and not is_set else None


def insisted(text: str, values: Mapping[str, str]) -> tuple[str, ...]:
    """Return the variables that `text` requires (`${VAR:?}`, `${VAR?why}`) and that have no value."""
    found: list[str] = []
    for match in _PLAIN.finditer(text):
        operator = match["op"] or ""
        known = values.get(match["braced"])
        if operator.endswith("?") and not (known or (operator == "?" and known is not None)):
            found.append(match["braced"])
        found.extend(insisted(_default(match, values) or "", values))
    return tuple(found)


def names(text: str) -> tuple[str, ...]:
    """Return the names of the variables in `text`, in order."""
    found: list[str] = []
    for match in _PLAIN.finditer(text):
        if not match["escaped"]:
            found.extend((match["name"] or match["braced"], *names(match["word"] or "")))
    return tuple(found)


def parse_env(text: str) -> dict[str, str]:
    """Return the variables in a `.env` file, values without quotes; skip comments and invalid lines."""
    values: dict[str, str] = {}
    for name, raw in dotenv.assignments(text):
        values[name] = substitute(raw, values)
    return values
