"""Copies the hook into the runtime folder and compiles it: on a read-only mount every Python would compile it anew.

Measured on CPython 3.8 to 3.13: 5 to 8 ms a start from sources, 1 to 5 ms from the .pyc file.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import py_compile

from dkdbg.agent.inprocess import bundle

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List


def install(runtime_dir: str) -> str:
    """Return the hook's folder, to put first on the program's PYTHONPATH; it holds only `sitecustomize.py`.

    Args:
        runtime_dir: the runtime folder. An agent that was unpacked there from the single file needs no copy.

    Raises:
        OSError: the runtime folder cannot be written.
    """
    package = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "inprocess")
    inside = package.startswith(os.path.abspath(runtime_dir) + os.sep)
    names = _files(package)
    target = package if inside else _copy(package, names, runtime_dir)
    for name in names:
        path = os.path.join(target, name)
        if os.path.exists(importlib.util.cache_from_source(path)):
            continue  # a folder named by its digest never changes
        with contextlib.suppress(OSError, py_compile.PyCompileError):
            py_compile.compile(path, doraise=True)
    return os.path.join(target, "hook")


def _files(package: str) -> List[str]:
    """Return the sources below the folder `package`, relative to it, sorted."""
    found = []
    for folder, _, names in os.walk(package):
        found += [
            os.path.relpath(os.path.join(folder, name), package) for name in names if name.endswith(".py")
        ]
    return sorted(found)


def _copy(package: str, names: List[str], runtime_dir: str) -> str:
    digest = hashlib.sha256()
    for name in names:
        with open(os.path.join(package, name), "rb") as source:
            digest.update(name.encode() + b"\0" + source.read())
    target = os.path.join(runtime_dir, "hook-" + digest.hexdigest()[:12])
    return bundle.copied(((os.path.join(package, name), name) for name in names), target)
