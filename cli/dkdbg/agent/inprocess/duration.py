"""Durations as users type them: `2h`, `20m`, `90s`."""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional

_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600}
_FORM = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)([smh]?)$")


def seconds_of(text: str) -> Optional[float]:
    """Return the seconds of a duration (s, m, h; without a unit seconds); None for another text."""
    found = _FORM.match(text)
    return None if found is None else float(found.group(1)) * _UNITS[found.group(2)]
