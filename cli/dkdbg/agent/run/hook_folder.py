"""Puts the hook into the runtime folder, compiled: from a read-only mount each Python start would compile it anew.

Measured on CPython 3.8 to 3.13: 5 to 8 ms a start from sources, 1 to 5 ms from the .pyc file.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import py_compile
import shutil
import tempfile

from dkdbg.agent.program import bundle

#: What a hooked process loads, relative to `program/`: the hook at start, the others when they are needed.
FILES = (
    "hook/sitecustomize.py",
    "site_entry.py",
    "forking.py",
    "crash_watch.py",
    "answers.py",
    "collectives.py",
    "greenlets.py",
    "held_time.py",
    "join.py",
    "kin.py",
    "loopback.py",
    "bundle.py",
    "connection.py",
    "on_demand.py",
    "pai.py",
    "choosing.py",
    "clocks.py",
    "crash.py",
    "file_names.py",
    "importing.py",
    "listening.py",
    "loaded.py",
    "member.py",
    "natives.py",
    "nsight.py",
    "output.py",
    "patterns.py",
    "profiling.py",
    "own_socket.py",
    "own_tracer.py",
    "passing.py",
    "pdb_login.py",
    "pdb_token.py",
    "privates.py",
    "py_spy.py",
    "ranks.py",
    "ray_adapter.py",
    "ray_collect.py",
    "ray_driver.py",
    "ray_hook.py",
    "ray_profile.py",
    "ray_worker.py",
    "shutdown.py",
    "session.py",
    "socket_pdb.py",
    "stacks.py",
    "compiled.py",
    "array_figures.py",
    "array_views.py",
    "jax_views.py",
    "numpy_views.py",
    "torch_views.py",
    "suspending.py",
    "timeouts.py",
    "torch_profile.py",
    "uncaught.py",
    "untrace.py",
    "waking.py",
    "zipped.py",
)


def install(runtime_dir: str) -> str:
    """Return the folder to be put first on the program's PYTHONPATH; it holds `sitecustomize.py` and no more.

    Args:
        runtime_dir: the agent's private folder. An agent that runs from there, as the single file does, has its hook
            there already.

    Raises:
        OSError: the runtime folder cannot be written.
    """
    package = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "program")
    inside = package.startswith(os.path.abspath(runtime_dir) + os.sep)
    target = package if inside else _copy(package, runtime_dir)
    for name in FILES:
        path = os.path.join(target, name)
        if os.path.exists(importlib.util.cache_from_source(path)):
            continue  # what a folder is called by its digest never changes
        with contextlib.suppress(OSError, py_compile.PyCompileError):
            py_compile.compile(path, doraise=True)
    return os.path.join(target, "hook")


def _copy(package: str, runtime_dir: str) -> str:
    digest = hashlib.sha256()
    for name in FILES:
        with open(os.path.join(package, name), "rb") as source:
            digest.update(source.read())
    target = os.path.join(runtime_dir, "hook-" + digest.hexdigest()[:12])
    if not bundle.is_own(target):
        scratch = tempfile.mkdtemp(prefix=".hook-", dir=runtime_dir)
        os.mkdir(os.path.join(scratch, "hook"))
        for name in FILES:
            shutil.copyfile(os.path.join(package, name), os.path.join(scratch, name))
        try:
            os.rename(scratch, target)
        except OSError:
            if not bundle.is_own(target):  # not another agent that was faster
                raise
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    return target
