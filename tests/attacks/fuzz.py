"""How many inputs the fuzz tests try: 300, or as many as DKDBG_TEST_FUZZ says (nightly: 10,000)."""

from __future__ import annotations

import os

import hypothesis


def fuzz_settings(most: int = 300) -> hypothesis.settings:
    """Return the settings of a fuzz test; `most` is for a listener whose inputs take long."""
    return hypothesis.settings(
        max_examples=int(os.environ.get("DKDBG_TEST_FUZZ", str(most))),
        deadline=None,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
