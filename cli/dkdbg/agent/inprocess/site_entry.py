# -*- coding: utf-8 -*-
"""Activates the hook in a Python whose PYTHONPATH lacks it.

A .pth file executes this (supervisor/site_folders.py), with the globals `session` (the session's folder), `agent` (the
agent's pid) and `hook` (the hook's folder). It puts the hook's folder first on `sys.path`, before `site` imports
`sitecustomize`, and the session's folder back into the environment.

Any Python that the user starts reads this file, so it is valid Python 2 as well.
"""
# Annotations are comments here: Python 2 reads this file too.
# ruff: noqa: ANN001, ANN201, ANN202, F401, SIM105

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterator


def above():  # type: () -> Iterator[int]
    """Yield the pids of this process's ancestors, its parent first; fewer where /proc is incomplete."""
    pid = os.getpid()
    while pid > 1:
        try:
            with open("/proc/%d/stat" % pid, "rb") as source:
                pid = int(source.read().rpartition(b")")[2].split()[1])
        except (OSError, IOError, ValueError, IndexError):
            return
        yield pid


def _enter(session, agent, hook):  # type: (str, int, str) -> None
    # Do nothing outside of the agent's processes, or if a running program makes `site` read its folders again.
    if "sitecustomize" in sys.modules or not os.path.isdir(session) or agent not in above():
        return
    if not os.path.isdir(os.environ.get("DKDBG_SESSION_DIR", "")):
        os.environ["DKDBG_SESSION_DIR"] = session
    os.environ.setdefault("PYDEVD_DISABLE_FILE_VALIDATION", "1")
    sys.path.insert(0, hook)


if "session" in globals():
    try:
        _enter(session, agent, hook)  # type: ignore[name-defined]  # noqa: F821
    except Exception:  # nothing here may keep a program from starting
        pass
