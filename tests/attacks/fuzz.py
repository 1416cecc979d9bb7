"""Set how many inputs the fuzz tests try: DKDBG_TEST_FUZZ (nightly: 10,000), or a few, or 300 with DKDBG_TEST_FULL=1."""

import os

import hypothesis

FULL = bool(os.environ.get("DKDBG_TEST_FULL"))


def fuzz_settings(few: int, full: int = 300) -> hypothesis.settings:
    """Return the settings of a fuzz test that tries `few` inputs by default, some seconds of them."""
    return hypothesis.settings(
        max_examples=int(os.environ.get("DKDBG_TEST_FUZZ", str(full if FULL else few))),
        deadline=None,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
