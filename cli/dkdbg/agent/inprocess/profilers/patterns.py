"""Workers chosen by name, as NeMo RL's NRL_NSYS_WORKER_PATTERNS has it: shell patterns with commas between them.

`fnmatch` on POSIX: `*`, `?`, `[seq]`, `[!seq]`, capital letters count, the whole name has to match. Spaces around a pattern
do not count, and an empty one is none. The first pattern that matches is the one that is named.
"""

from __future__ import annotations

import fnmatch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterable, List, Sequence


def parse(text: str) -> List[str]:
    """Return the patterns that are written."""
    return [each.strip() for each in text.split(",") if each.strip()]


def matched(names: Iterable[str], patterns: Sequence[str]) -> str:
    """Return the first pattern that one of a worker's names matches; empty when there is none."""
    known = [each for each in names if each]
    for pattern in patterns:
        if any(fnmatch.fnmatchcase(name, pattern) for name in known):
            return pattern
    return ""
