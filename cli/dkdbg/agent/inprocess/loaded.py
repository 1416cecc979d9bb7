"""Finds source files of this process's modules that have changed since its start."""

from __future__ import annotations

import json
import os
import sys

from . import session
from .pydevd_patches import file_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List

#: Parts of the paths of installed code, which is thousands of files, and rarely edited under a running program.
_INSTALLED = ("/site-packages/", "/dist-packages/")


def changed(announced: str) -> str:
    """Return the paths of changed sources as a JSON list.

    A source that has changed after this process's start but before its import counts too: nothing records when a module
    read its source.

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
    main = getattr(sys.modules.get("__main__"), "__file__", None)  # a script may have no suffix
    found = {main} if isinstance(main, str) else set()
    for module in list(sys.modules.values()):
        path = session.namespace(module).get("__file__")
        if isinstance(path, str) and path.endswith(".py"):
            found.add(path)
    # An attach waits for this, so be quick: exclude the standard library, debugpy and dkdbg by their prefixes first.
    debugpy = getattr(sys.modules.get("debugpy"), "__file__", None) or __file__
    others = tuple(os.path.dirname(each) + "/" for each in (os.__file__, debugpy, os.path.dirname(__file__)))
    own = [
        path for path in found if not path.startswith(others) and not any(map(path.__contains__, _INSTALLED))
    ]
    return [file_names.single(os.path.abspath(path)) for path in own]


def _changed_at(path: str) -> float:
    """Return the time of the last change in epoch seconds; 0 for a missing file.

    Use the ctime: after sync, rsync, `cp -p` or `mv`, the mtime is older, or was set by another machine's clock.
    """
    try:
        return os.stat(path).st_ctime
    except OSError:
        return 0.0
