"""Seconds for which a crashed process waits for an editor: `--on-crash hold=20m` (DKDBG_ON_CRASH)."""

from __future__ import annotations

import re

#: Default for a failing rank, with `failing` in the set of ranks.
FAILING_S = 1200.0
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600}
_FORM = re.compile(r"hold=(\d+(?:\.\d+)?)([smh]?)$")


def seconds(text: str) -> float:
    """Return the seconds of `hold=20m` (s, m, h; without a unit seconds), FAILING_S for an empty text.

    Raises:
        ValueError: it has another form.
    """
    match = _FORM.match(text.strip() or "hold=%s" % FAILING_S)
    if match is None:
        raise ValueError("--on-crash (DKDBG_ON_CRASH) takes hold=TIME, such as hold=20m, not %r" % text)
    return float(match.group(1)) * _UNITS[match.group(2)]
