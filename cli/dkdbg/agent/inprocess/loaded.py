"""Finds sources of this process that have changed since its start."""

from __future__ import annotations

import json
import os
import sys

from . import session
from .pydevd_patches import file_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List

#: Installed code: it is not edited under a running program, and there are thousands of files.
_INSTALLED = ("/site-packages/", "/dist-packages/")


def changed(announced: str) -> str:
    """Return the paths as a JSON list.

    It compares modification times: a loaded module does not record its source's version. A file that changed
    before this process loaded it counts too.

    Args:
        announced: the file in which this process announced itself at its start.
    """
    try:
        with open(announced) as source:
            started = float(json.load(source)["started"])
    except (OSError, ValueError, KeyError):
        return "[]"
    return json.dumps([path for path in _sources() if _changed_at(path) > started])


def _sources() -> List[str]:
    library = os.path.dirname(os.__file__) + "/"
    found = set()
    for module in list(sys.modules.values()):
        path = session.namespace(module).get("__file__")
        if isinstance(path, str) and path.endswith(".py"):
            found.add(file_names.single(os.path.abspath(path)))
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    if isinstance(main, str):  # it may have no suffix
        found.add(file_names.single(os.path.abspath(main)))
    return [
        path
        for path in found
        if not path.startswith(library) and not any(mark in path for mark in _INSTALLED)
    ]


def _changed_at(path: str) -> float:
    """Return the modification time in epoch seconds; 0 for a missing file."""
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0.0
