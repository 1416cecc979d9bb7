"""This process as a member of the session, which the hook has created."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional

    from .hook.sitecustomize import _Member as Member


def of_this_process() -> Optional[Member]:
    """Return the hook's member object of this process, None where the hook did not run."""
    for finder in reversed(sys.meta_path):
        if type(finder).__name__ == "_DkdbgFinder":
            found: Optional[Member] = getattr(finder, "member", None)
            return found
    return None
