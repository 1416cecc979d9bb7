"""Dockerfile lines for what a build inherits from its base image."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_WORD = r"[\w./:@%+=,-]{1,500}"
#: The instructions that are inherited, with values that a Dockerfile takes as they are, without substitution.
_LINE = re.compile(
    rf'(?:WORKDIR |USER |ENV PYTHONPATH=){_WORD}|(?:SHELL|ENTRYPOINT) \["{_WORD}"(?:, "{_WORD}"){{0,9}}\]',
    re.ASCII,
)
#: The lines of an image that sets neither.
_DEFAULTS = frozenset({"WORKDIR /", "USER root", "USER 0", "USER 0:0"})
_MAX_LINES = 5


def checked(lines: Iterable[str]) -> tuple[str, ...]:
    """Return the lines that count, up to a maximum: image and manifest are untrusted."""
    return tuple(each for each in lines if _LINE.fullmatch(each) and each not in _DEFAULTS)[:_MAX_LINES]
