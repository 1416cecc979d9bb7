"""Notices that no Python of the program has loaded the agent's hook: an editor would wait for its breakpoints in vain."""

from __future__ import annotations

import os

#: Seconds after the start of the program from which on it is told: what comes up slowly has announced itself by then.
PATIENCE = 10.0
NOTE = "no Python process of the program has loaded the agent, so no breakpoint can stop it; python -S, -I and -E keep the agent out"


class Unseen:
    """Whether a process of the program has ever announced itself, also one that has ended since.

    Args:
        folder: where they do.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._before = 0
        self._told = False

    def begin(self) -> None:
        """Note that the program is about to start."""
        self._before, self._told = self._changed(), False

    def note(self) -> str:
        """Return what to tell, once for each start; empty when somebody has announced itself."""
        if self._told or self._changed() != self._before:
            return ""
        self._told = True
        return NOTE

    def _changed(self) -> int:
        """When a name was made or removed in the folder, in nanoseconds: each announcement is a file there."""
        try:
            return os.stat(self._folder).st_mtime_ns
        except OSError:
            return -1
