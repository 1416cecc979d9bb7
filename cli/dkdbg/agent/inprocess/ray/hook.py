"""Registers `ray/driver.py` with Ray before a driver's first line, as the hook for the runtime environment.

The process registers it and not the agent, because Ray can import the named module only where our hook runs:
under a PYTHONPATH of its own, or below `python -I`, a driver would fail.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import MutableMapping

NAME, SUBMIT = "dkdbg_ray.hook", "dkdbg_ray.submit"


def register(environment: MutableMapping[str, str]) -> None:
    """Name our hook in the environment of a process, which its children inherit. The user's own hook runs first."""
    former = environment.get("RAY_RUNTIME_ENV_HOOK", "")
    if former == NAME:  # a driver's child
        return
    if former:
        environment["DKDBG_RAY_FORMER_HOOK"] = former
    environment["RAY_RUNTIME_ENV_HOOK"] = NAME
    # For a driver below `uv run` Ray uses only its own hook; ours calls it instead.
    environment["DKDBG_RAY_UV"] = environment.get("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "1")
    environment["RAY_ENABLE_UV_RUN_RUNTIME_ENV"] = "0"


def register_submit(environment: MutableMapping[str, str]) -> None:
    """Make `ray job submit`, if this process is that, call us before it sends the job, after the user's own hook."""
    former = environment.get("RAY_JOB_SUBMIT_HOOK", "")
    if former != SUBMIT:
        environment["DKDBG_RAY_FORMER_SUBMIT"] = former
        environment["RAY_JOB_SUBMIT_HOOK"] = SUBMIT
