"""Seconds for which a crashed process waits for an editor: `--on-crash hold=20m` (DKDBG_ON_CRASH)."""

from __future__ import annotations

from . import duration

#: Default for a failing rank, with `failing` in the set of ranks.
FAILING_S = 1200.0


def seconds(text: str) -> float:
    """Return the seconds of `hold=20m` (s, m, h; without a unit seconds), FAILING_S for an empty text.

    Raises:
        ValueError: it has another form.
    """
    name, _, value = (text.strip() or "hold=%s" % FAILING_S).partition("=")
    found = duration.seconds_of(value) if name == "hold" else None
    if found is None:
        raise ValueError("--on-crash (DKDBG_ON_CRASH) takes hold=TIME, such as hold=20m, not %r" % text)
    return found
