"""Detects a driver whose Ray cluster runs outside of the session, with no agent in its workers.

Used by join.py and line.py. In a cluster that `ray.init()` or a `ray start` of the session has started, the workers
inherit the hook. In others they have the agent only if the driver sends it to them (`dkdbg run --on ray+TARGET`).
"""

# Ray and debugpy are untyped, and not imported here: they are used only if they are loaded.
# ruff: noqa: ANN401

from __future__ import annotations

import contextlib
import os
import sys

from .. import importing, session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_WORKER = "ray._private.worker"
_MESSAGE = (
    "this program has joined a Ray cluster that runs outside of this session: breakpoints do not stop in its workers. "
    "dkdbg run --on ray+TARGET -- COMMAND debugs them: TARGET is a node of the cluster, as in ray+docker://NAME"
)
_is_followed = _is_reported = False


def warn(debugger: Any) -> None:
    """Warn the attached editor, once, as soon as the program is connected to a cluster outside of the session."""
    global _is_followed  # noqa: PLW0603

    def follow(worker: Any) -> None:
        worker._post_init_hooks.append(lambda: _report(debugger))

    if not _is_followed:
        _is_followed = True
        importing.after(_WORKER, follow)
    _report(debugger)


def _report(debugger: Any) -> None:
    global _is_reported  # noqa: PLW0603
    with contextlib.suppress(Exception):  # otherwise the program's ray.init() would raise the error
        if not _is_reported and is_outside():
            _is_reported = True
            session.tell(debugger, _MESSAGE)


def is_outside() -> bool:
    """Return whether this process is a driver in a cluster whose workers on this machine are not in the session."""
    worker: Any = sys.modules.get(_WORKER)
    node = getattr(worker, "_global_node", None)
    if node is None or node.is_head() or "DKDBG_RAY_WORKERS" in os.environ:
        return False
    return worker.global_worker.mode == worker.SCRIPT_MODE and not _has_raylet()


def _has_raylet() -> bool:
    """Return whether a raylet on this machine, which starts workers, has this session in its environment."""
    variable = os.fsencode("DKDBG_SESSION_DIR=%s\0" % os.environ.get("DKDBG_SESSION_DIR"))
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open("/proc/%s/comm" % pid, "rb") as name:
            if name.read() == b"raylet\n":
                with open("/proc/%s/environ" % pid, "rb") as variables:
                    if variable in variables.read():
                        return True
    return False
