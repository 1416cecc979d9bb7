"""Set how many inputs the fuzz tests try: DKDBG_TEST_FUZZ (nightly: 10,000), or a few, or all with DKDBG_TEST_FULL=1."""

from __future__ import annotations

import os

import hypothesis

FULL = bool(os.environ.get("DKDBG_TEST_FULL"))


def fuzz_settings(few: int = 100, full: int = 300) -> hypothesis.settings:
    """Return the settings of a fuzz test.

    Args:
        few: number of inputs by default, some ten seconds of them.
        full: number of inputs with DKDBG_TEST_FULL=1.
    """
    default = full if FULL else few
    return hypothesis.settings(
        max_examples=int(os.environ.get("DKDBG_TEST_FUZZ", str(default))),
        deadline=None,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
