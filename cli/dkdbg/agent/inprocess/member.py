"""The hook's interface to the files here: this process as a member of the session."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket
    from _thread import LockType
    from types import ModuleType
    from typing import Callable, List, Optional, Protocol

    class Member(Protocol):
        """This process, as hook/sitecustomize.py has announced it.

        Attributes:
            directory: the session's folder.
            rank: the rank that it belongs to, None for none; known while a set of ranks is selected.
            free: whether it was not selected at its start.
            origin: how this process was forked, see `origin` in contract.py.
            listener: receives the agent's questions; only after `owns_listener()`.
            done: a lock that is held while the hook's thread runs.
            running: whether that thread runs. thread_id: its number in the kernel.
            main_ident: of the main thread, as Python numbers threads without gevent.
            forking: whether a fork needs that thread to end.
            joined: whether this process has ever joined an adapter.
            fork_armed: whether the callback for forked children is registered.
        """

        directory: str
        words: List[str]
        origin: str
        rank: Optional[int]
        free: bool
        listener: Optional[socket]
        done: LockType
        running: bool
        forking: bool
        joined: bool
        thread_id: int
        main_ident: int
        fork_armed: bool

        @property
        def base(self) -> str:
            """Path of this process's files in the session's folder, without a suffix."""

        def module(self, name: str) -> ModuleType:
            """Import the file of this name beside the hook's folder."""

        def say(self, text: str) -> None:
            """Print a line on stderr, only with DKDBG_DEBUG."""

        def reset(self) -> None:
            """Reset to a new process: nothing runs, nothing is open."""

        def register(self, lift: Callable[[socket], socket] = ...) -> None:
            """Announce this process and listen, on the socket that `lift` returns for a new one.

            Raises OSError.
            """

        def register_again(self) -> None:
            """Register again if the listener's descriptor is not ours any more. Raises OSError."""

        def announce(self) -> None:
            """Announce this process again, so that the agent asks it to join. Raises OSError."""

        def owns_listener(self) -> bool:
            """Tell whether the listener's descriptor is still ours."""

        def wake_thread(self, waiting: Optional[socket] = None) -> None:
            """Start the hook's thread unless it runs."""

        def serve(self, done: LockType, waiting: Optional[socket]) -> None:
            """Run the hook's thread."""

        def join(self, at_start: bool) -> str:
            """Join the adapter; see join.py."""

        def enter(self) -> None:
            """Register, join if an editor is attached, and start the thread."""

        def at_fork(self, moment: str) -> Callable[[], None]:
            """Return a callback that runs the function of this name in forking.py."""


def of_this_process() -> Optional[Member]:
    """Return the hook's member object of this process, None where the hook did not run."""
    for finder in reversed(sys.meta_path):
        if type(finder).__name__ == "_DkdbgFinder":
            found: Optional[Member] = getattr(finder, "member", None)
            return found
    return None
