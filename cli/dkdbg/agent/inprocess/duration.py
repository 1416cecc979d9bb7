"""Durations as users type them, `2h`, `20m`, `90s`, and calls after a duration."""

from __future__ import annotations

import re
import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Optional

_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600}
_FORM = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)([smh]?)")
#: Maximum seconds; `threading.TIMEOUT_MAX` is less than what the form allows.
_MAX_S = 365 * 86400.0


def seconds_of(text: str, least: float = 0.0) -> Optional[float]:
    """Return the seconds of a duration (s, m, h; without a unit seconds); None for another text.

    Args:
        text: up to 365 days.
        least: minimum seconds.
    """
    found = _FORM.fullmatch(text)
    seconds = -1.0 if found is None else float(found.group(1)) * _UNITS[found.group(2)]
    return seconds if least <= seconds <= _MAX_S else None


def later(seconds: float, call: Callable[[], object]) -> None:
    """Call a function on another thread after this time; the process's end does not wait for it."""
    timer = threading.Timer(seconds, call)
    timer.daemon = True
    timer.start()
