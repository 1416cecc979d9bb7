"""Which of the sources that this process has loaded were changed since its start."""

from __future__ import annotations

import json
import os
import sys

from .pydevd_patches import file_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List

#: Installed code: nobody edits it under a running program, and there are thousands of files.
_INSTALLED = ("/site-packages/", "/dist-packages/")


def changed(announced: str) -> str:
    """Return the paths as a JSON list.

    By the time of the last change: what a module was made of is not known any more once it is loaded. A file that was
    changed before this process came to load it counts too.

    Args:
        announced: the file in which this process has said who it is, at its start.
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
        try:
            path = vars(module).get("__file__")
        except TypeError:  # whatever a program puts there
            continue
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
    """Return the time in epoch seconds; of a file that is gone, none."""
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0.0
