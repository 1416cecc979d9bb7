"""Selects workers by name, as NeMo RL's NRL_NSYS_WORKER_PATTERNS does: comma-separated shell patterns.

`fnmatch` on POSIX: `*`, `?`, `[seq]`, `[!seq]`, case-sensitive, for the whole name. Spaces around a pattern
are ignored, and so is an empty one. The first matching pattern is reported.
"""

from __future__ import annotations

import fnmatch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterable, List, Sequence


def parse(text: str) -> List[str]:
    """Return the patterns in a text."""
    return [each.strip() for each in text.split(",") if each.strip()]


def matched(names: Iterable[str], patterns: Sequence[str]) -> str:
    """Return the first pattern that matches one of a worker's names; empty without a match."""
    known = [each for each in names if each]
    for pattern in patterns:
        if any(fnmatch.fnmatchcase(name, pattern) for name in known):
            return pattern
    return ""
