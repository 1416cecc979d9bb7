"""Tell from the stacks of a program whether it still imports: what it lacks shows only after that."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from dkdbg.core.stacks import Frame, Session

#: Prefix of the files of Python's import system.
_IMPORT = "<frozen importlib"


def is_importing(sessions: Iterable[Session], last_import: Callable[[str], int]) -> bool:
    """Return whether the main thread of a process imports, or does not answer, as while it loads a library in C.

    Args:
        last_import: returns the line of the last import in the own code of a remote module; 0 if unknown.
    """
    return any(
        process.threads is None
        or any(_imports(thread.frames, last_import) for thread in process.threads if thread.main)
        for session in sessions
        for process in session.processes
    )


def _imports(frames: Iterable[Frame], last_import: Callable[[str], int]) -> bool:
    return any(
        frame.path.startswith(_IMPORT)
        or (frame.own and frame.function == "<module>" and frame.line <= last_import(frame.path))
        for frame in frames
    )
