"""Dockerfile lines for what a build inherits from its base image."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

#: The instructions that are inherited, with a value that a Dockerfile takes without quotes and without substitution.
_LINE = re.compile(r"(?:WORKDIR |USER |ENV PYTHONPATH=)[\w./:@%+=,-]{1,500}", re.ASCII)
#: The lines of an image that sets neither.
_DEFAULTS = frozenset({"WORKDIR /", "USER root", "USER 0", "USER 0:0"})
_MAX_LINES = 3


def checked(lines: Iterable[str]) -> tuple[str, ...]:
    """Return the lines that count, up to a maximum: image and manifest are untrusted."""
    return tuple(each for each in lines if _LINE.fullmatch(each) and each not in _DEFAULTS)[:_MAX_LINES]
