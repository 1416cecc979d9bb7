"""The file that tells a starting process which files have breakpoints: one that executes none of them waits to join.

Processes read it at their start (program/waiting.py). A breakpoint in one more file changes its version: who waits by
an older one may have executed that file already, and is asked to join at once.
"""

from __future__ import annotations

import contextlib
import os

from dkdbg.agent.program import waiting

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional, Set, Tuple


class WaitingFile:
    """Keeps the file.

    Args:
        path: where it lies.

    Attributes:
        version: by which a process may wait now; 0 for none.
    """

    def __init__(self, path: str) -> None:
        self.version = 0
        self._path = path
        self._last = 0
        self._keys: Set[str] = set()
        self._more: Set[str] = set()

    def write(self, wanted: Optional[Tuple[Set[str], Set[str]]]) -> bool:
        """Write what is wanted; return whether some who wait have to join now.

        Args:
            wanted: see `wanted` in door/breakpoints.py; None: nobody may wait.
        """
        if wanted is None:
            had, self.version = self.version, 0
            with contextlib.suppress(OSError):
                os.unlink(self._path)
            return had > 0
        files, more = wanted
        keys = {key(path) for path in files} | {key(os.path.realpath(path)) for path in files}
        if self.version and (keys, more) == (self._keys, self._more):
            return False
        grown = not self.version or not (keys <= self._keys and more <= self._more)
        self._last += grown
        self.version, self._keys, self._more = self._last, keys, more
        text = "\n".join([str(self.version), " ".join(sorted(more)), *sorted(keys), ""])
        try:
            with open(self._path + ".tmp", "w", encoding="utf-8", errors="surrogateescape") as out:
                out.write(text)
            os.rename(self._path + ".tmp", self._path)
        except OSError:
            self.version = 0
        return grown


def key(path: str) -> str:
    """Return by what a process knows a file; the path is the editor's or this machine's."""
    parts = [part for part in path.replace("\\", "/").lower().split("/") if part not in ("", ".")]
    return waiting.key(parts) if parts else path
