"""Calls `ray/driver.py` when Ray creates a driver's runtime environment, and when `ray job submit` sends a job.

It wraps functions of Ray. The variables `RAY_RUNTIME_ENV_HOOK` and `RAY_JOB_SUBMIT_HOOK` would be inherited by
processes that cannot import our hook: children with a PYTHONPATH of their own or below `python -I`, and a cluster that
outlives the session. The first one is set only during `ray.init()` of an old Ray (2.9), which has no function to wrap.
"""

# ruff: noqa: ANN401

from __future__ import annotations

import functools
import os

from .. import importing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Optional

_VARIABLE = "RAY_RUNTIME_ENV_HOOK"
#: The hook for the `ray.init()` in progress; an old Ray imports it by this name.
hook: Any = None
_NAME = __name__ + ".hook"


def register() -> None:
    """Make each driver's workers debuggable, once Ray is imported. The user's own hooks run first."""
    importing.after("ray._private.worker", _wrap)


def register_submit() -> None:
    """Make the driver of a job that this process submits with `ray job submit` enter our session."""
    importing.after("ray.dashboard.modules.job.sdk", _wrap_submit)


def _wrap_submit(sdk: Any) -> None:
    from . import driver

    driver.wrap_submit(sdk.JobSubmissionClient)


def _wrap(worker: Any) -> None:
    former = getattr(worker, "_maybe_modify_runtime_env", None)
    if former is None:
        worker.init = _with_variable(worker)
        return

    @functools.wraps(former)
    def modify(runtime_env: Any, skips_hooks: bool) -> Any:
        runtime_env = former(runtime_env, skips_hooks)
        return runtime_env if skips_hooks or _is_connected(worker) else _set_up(runtime_env)

    worker._maybe_modify_runtime_env = modify


def _is_connected(worker: Any) -> bool:
    """Return whether this process is connected to a cluster: then Ray ignores another `ray.init()`, or raises."""
    return bool(getattr(getattr(worker, "global_worker", None), "connected", False))


def _with_variable(worker: Any) -> Callable[..., Any]:
    """Return a wrapper of an old Ray's `init` that sets RAY_RUNTIME_ENV_HOOK until Ray calls the hook.

    Ray starts processes only after that, so they do not inherit the variable.
    """
    init = worker.init

    @functools.wraps(init)
    def init_with_hook(*args: Any, **named: Any) -> Any:
        global hook  # noqa: PLW0603
        theirs = os.environ.get(_VARIABLE)

        def hook(runtime_env: Any) -> Any:
            _set(theirs)
            runtime_env = _load(theirs)(runtime_env) if theirs else runtime_env
            return runtime_env if _is_connected(worker) else _set_up(runtime_env)

        _set(_NAME)
        try:
            return init(*args, **named)
        finally:
            _set(theirs)

    return init_with_hook


def _set(value: Optional[str]) -> None:
    if value is None:
        os.environ.pop(_VARIABLE, None)
    else:
        os.environ[_VARIABLE] = value


def _load(path: str) -> Any:
    import importlib

    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


def _set_up(runtime_env: Any) -> Any:
    from . import driver

    return driver.set_up(runtime_env)
