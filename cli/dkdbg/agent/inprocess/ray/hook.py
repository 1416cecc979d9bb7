"""Before the first line of a driver of Ray: Ray is to ask `ray_driver.hook` for the driver's runtime environment.

It is said in the process and not by the agent, because only where our hook runs can Ray import what the variable names:
under a PYTHONPATH of its own, or below `python -I`, a driver would fail.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import MutableMapping

NAME, SUBMIT = "dkdbg_ray.hook", "dkdbg_ray.submit"


def say_where(environment: MutableMapping[str, str]) -> None:
    """Name our hook in the environment of a process, which its children inherit; what the user has there is asked first."""
    former = environment.get("RAY_RUNTIME_ENV_HOOK", "")
    if former == NAME:  # a driver's child
        return
    if former:
        environment["DKDBG_RAY_FORMER_HOOK"] = former
    environment["RAY_RUNTIME_ENV_HOOK"] = NAME
    # For a driver below `uv run` Ray asks its own hook and no other; ours asks it in its place.
    environment["DKDBG_RAY_UV"] = environment.get("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "1")
    environment["RAY_ENABLE_UV_RUN_RUNTIME_ENV"] = "0"


def say_where_jobs_go(environment: MutableMapping[str, str]) -> None:
    """Have `ray job submit`, if this process is that, ask us before it sends the job; what the user has there is asked first."""
    former = environment.get("RAY_JOB_SUBMIT_HOOK", "")
    if former != SUBMIT:
        environment["DKDBG_RAY_FORMER_SUBMIT"] = former
        environment["RAY_JOB_SUBMIT_HOOK"] = SUBMIT
