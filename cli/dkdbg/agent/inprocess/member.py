"""What the files here know of the hook: this process as a member of the session."""

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
            rank: the rank that it belongs to, None for none; known while a set of ranks is chosen.
            free: it was not chosen at its start.
            origin: who forked this process, see `origin` in contract.py.
            listener: takes what the agent asks; only after `owns_listener()`.
            done: a lock that is held while the hook's thread runs.
            running: whether that thread runs. thread_id: its number in the kernel.
            main_ident: of the main thread, as Python numbers threads without gevent.
            forking: whether a fork wants that thread away.
            joined: whether this process has joined an adapter at some time.
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
            """The path of this process in the session's folder, without a suffix."""

        def module(self, name: str) -> ModuleType:
            """Import the file of this name beside the hook's folder."""

        def say(self, text: str) -> None:
            """Say it on stderr, with DKDBG_DEBUG only."""

        def reset(self) -> None:
            """Be a new process: nothing runs, nothing is open."""

        def register(self, lift: Callable[[socket], socket] = ...) -> None:
            """Announce this process and listen, on the socket that `lift` makes of a new one. Raises OSError."""

        def register_again(self) -> None:
            """Do that if the listener's descriptor is not ours any more. Raises OSError."""

        def announce(self) -> None:
            """Write who this process is, anew: the agent asks it to join. Raises OSError."""

        def owns_listener(self) -> bool:
            """Tell whether the listener's descriptor is still ours."""

        def wake_thread(self, waiting: Optional[socket] = None) -> None:
            """Start the hook's thread unless it runs."""

        def serve(self, done: LockType, waiting: Optional[socket]) -> None:
            """What that thread does."""

        def join(self, at_start: bool) -> str:
            """Join the adapter; see join.py."""

        def enter(self) -> None:
            """Register, join if an editor is attached, and start the thread."""

        def at_fork(self, moment: str) -> Callable[[], None]:
            """Return a callback that runs the function of this name in forking.py."""


def of_this_process() -> Optional[Member]:
    """Return what the hook knows of this process, None where the hook did not run."""
    for finder in reversed(sys.meta_path):
        if type(finder).__name__ == "_DkdbgFinder":
            found: Optional[Member] = getattr(finder, "member", None)
            return found
    return None
