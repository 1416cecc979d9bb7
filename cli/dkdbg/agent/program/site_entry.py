# -*- coding: utf-8 -*-
"""What a .pth file of the agent's executes in a Python that has not come to the hook by PYTHONPATH; see run/sites.py.

It only puts the hook's folder first on `sys.path`, before `site` imports `sitecustomize`, and what the program has
cleared back into the environment. Given: `session`, the session's folder, `agent`, the agent's pid, and `hook`, that
folder. The file is read by whatever Python the user starts, so it is valid Python 2 as well.
"""
# ruff: noqa: ANN001, ANN202, SIM105

import os
import sys


def _is_below(agent):  # type: (int) -> bool
    """Tell whether this process descends from the agent: others in the container are not ours."""
    pid = os.getpid()
    while pid not in (0, 1, agent):
        with open("/proc/%d/stat" % pid, "rb") as source:
            pid = int(source.read().rpartition(b")")[2].split()[1])
    return pid == agent


def _enter(session, agent, hook):  # type: (str, int, str) -> None
    # `site` imports sitecustomize after the site folders; later on somebody reads this folder once more.
    if "sitecustomize" in sys.modules or not os.path.isdir(session) or not _is_below(agent):
        return
    if not os.path.isdir(os.environ.get("DKDBG_SESSION_DIR", "")):
        os.environ["DKDBG_SESSION_DIR"] = session
    os.environ.setdefault("PYDEVD_DISABLE_FILE_VALIDATION", "1")
    sys.path.insert(0, hook)


try:
    _enter(session, agent, hook)  # type: ignore[name-defined]  # noqa: F821
except Exception:  # nothing here may keep a program from starting
    pass
