"""Parses durations that users type, such as `2h`, `20m` or `90s`; calls functions after a time."""

from __future__ import annotations

import re
import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Optional

_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600}
_FORM = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)([smh]?)")
#: Maximum seconds, because `threading.TIMEOUT_MAX` is less than a user can type.
_MAX_S = 365 * 86400.0
#: Default seconds for which a crashed process waits for an editor, as with `failing` in the set of ranks.
FAILING_S = 1200.0


def seconds_of(text: str, least: float = 0.0) -> Optional[float]:
    """Return the seconds of a duration with the unit s (default), m or h; None for another text.

    Args:
        text: a duration of at most 365 days.
        least: minimum seconds.
    """
    found = _FORM.fullmatch(text)
    seconds = -1.0 if found is None else float(found.group(1)) * _UNITS[found.group(2)]
    return seconds if least <= seconds <= _MAX_S else None


def hold_seconds(text: str) -> float:
    """Return the seconds that `hold=20m` makes a crashed process wait for an editor; FAILING_S for an empty text.

    Raises:
        ValueError: the text has another form.
    """
    name, _, value = (text.strip() or "hold=%s" % FAILING_S).partition("=")
    found = seconds_of(value) if name == "hold" else None
    if found is None:
        raise ValueError("--on-crash (DKDBG_ON_CRASH) takes hold=TIME, such as hold=20m, not %r" % text)
    return found


def later(seconds: float, call: Callable[[], object]) -> threading.Timer:
    """Call a function on another thread after this time; return the timer. It does not keep the process alive."""
    timer = threading.Timer(seconds, call)
    timer.daemon = True
    timer.start()
    return timer
