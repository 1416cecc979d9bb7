"""The hook's callbacks for a fork: they end its thread before the fork, and announce the child as a process of its own.

The hook loads this module at a process's first fork.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterator, List

    from .hook.sitecustomize import _Member as Member

#: Maximum number of checks whether a thread has begun, or the kernel has removed it, and seconds between two checks.
TRIES = (50, 0.0001)
#: Seconds that a fork waits for the hook's thread to finish an answer to the agent, such as to import the debugger.
ANSWER_TIMEOUT_S = 10.0
#: True if this CPython warns of a fork with several threads; true if it counts them only after the callbacks in the
#: parent (cpython#137109).
_WARNS = sys.version_info >= (3, 12)
_COUNTS_LATE = (3, 13) <= sys.version_info < (3, 13, 10) or sys.version_info[:3] == (3, 14, 0)
#: Modules with threads, sockets or a debugger, of which a forked child has useless copies; `forget` drops them.
_FORGETFUL = (
    "last_stack", "pydevd_patches.shutdown", "pydevd_patches.suspending", "join", "output", "pdb.socket_pdb",
)  # fmt: skip


def before(member: Member) -> None:
    """End the hook's thread, so that the program forks with only its own threads.

    Python 3.12 and newer warn when a process with several threads forks. The callback for the child is
    registered here, at the first fork, because it has to run after that of `threading`.
    """
    if not member.fork_armed:
        member.fork_armed = True
        os.register_at_fork(after_in_child=member.at_fork("in_child"))
    if member.joined and member.block_signals is None:
        _block_signals(member)
    if _WARNS and (member.joined or _COUNTS_LATE):
        _ignore_own_threads(member)
    member.forking += 1
    user, member.user = member.user, os.geteuid()
    member.is_new_user = user != member.user
    if not member.running:
        return
    # Send by path, not over the descriptor: so the message reaches the thread even if the program has closed the
    # descriptor on which it waits.
    path = os.path.realpath(member.directory + "/p") + "/%d.sock" % os.getpid()
    try:
        _put_to_sleep(path)
    except OSError:  # the socket was closed before the thread waited
        try:
            member.register_again()
            _put_to_sleep(path)
        except OSError:
            # In a sandbox the thread cannot be ended. Wait until it is not answering: a child that is forked in the
            # middle of an answer inherits locks that stay locked, and cannot announce itself.
            for _ in _tries(1000, ANSWER_TIMEOUT_S / 1000):
                if not member.answering:
                    break
            raise
    if member.starter == member._get_ident():
        return  # in a signal handler that has interrupted `wake_thread` on this thread
    # Use one lock object throughout: if a signal handler forks meanwhile, `member.done` is another one in its child.
    done = member.done
    if done.acquire(True, 1) or (member.answering and done.acquire(True, ANSWER_TIMEOUT_S)):
        done.release()
        _until_thread_is_gone(member)


def in_parent(member: Member) -> None:
    """Start the hook's thread again."""
    member.forking = max(0, member.forking - 1)
    if not member.forking:
        waiting, member.handed_over = member.handed_over, None
        member.wake_thread(waiting)


def in_child(member: Member) -> None:
    """Drop the parent's thread, socket and debugger, and announce this process."""
    if member.block_signals is not None:
        member.block_signals()
    if member.listener is not None and member.owns_listener():
        member.listener.close()
    is_half_joined = member.answering
    member.reset()
    for name in _FORGETFUL:  # only loaded ones: an import could wait for a lock of a thread of the parent
        forget = getattr(sys.modules.get("_dkdbg." + name), "forget", None)
        if forget is not None:
            forget()
    if _is_about_to_exec() or is_half_joined:  # half joined: locks stay locked, without their thread
        return
    member.origin = origin()
    if member.origin.startswith("rank:"):
        from . import parent_lookup

        parent_lookup.take_rank(member)
    if os.environ.get("DKDBG_ON_CRASH") and "multiprocessing.process" in sys.modules:
        from . import crash_watch

        crash_watch.arm_worker(member)
    try:
        member.enter()
    except PermissionError:  # this process has changed its user
        member.follow_user()
        member.enter()


def origin() -> str:
    """Return this process's origin from the frames that it was forked in; see `origin` in contract.py."""
    frame = sys._getframe()
    found = ""
    while frame is not None:
        path = frame.f_code.co_filename.replace(os.sep, "/")
        if path.endswith("multiprocessing/forkserver.py"):
            return ""  # `enter` asks the parent, as for every process with this generic command line
        if path.endswith("multiprocessing/popen_fork.py"):
            from . import parent_lookup

            found = parent_lookup.origin_of(frame.f_locals.get("process_obj"), "multiprocessing") or found
        elif path.endswith("gunicorn/arbiter.py"):
            age = getattr(frame.f_locals.get("worker"), "age", None)
            if isinstance(age, int):
                return "worker:%d" % age
        elif path.endswith("torch/utils/data/dataloader.py") and isinstance(frame.f_locals.get("i"), int):
            return "dataloader:%d" % frame.f_locals["i"]
        frame = frame.f_back  # type: ignore[assignment]
    return found or "fork"


def _put_to_sleep(path: str) -> None:
    import _socket

    sock = _socket.socket(_socket.AF_UNIX, _socket.SOCK_DGRAM)
    try:
        sock.setblocking(False)
        sock.sendto(b"sleep", path)
    except BlockingIOError:  # the queue is full (max_dgram_qlen: 10) of the same message, from earlier forks
        pass
    finally:
        sock.close()


def _until_thread_is_gone(member: Member) -> None:
    path = "/proc/self/task/%d" % member.thread_id
    for _ in _tries(*TRIES):
        if not os.path.exists(path):
            return


def _tries(count: int, seconds: float) -> Iterator[None]:
    import _thread

    pause = _thread.allocate_lock()  # gevent's `sleep` would run other greenlets
    pause.acquire()
    for _ in range(count):
        yield
        pause.acquire(True, seconds)


def _block_signals(member: Member) -> None:
    """Prepare to block signals in each forked child until its callbacks have ended.

    Python drops an exception that a signal handler raises in a fork's callback. The last callback, which unblocks the
    signals, is a C function, so that no handler runs before the program's next line.
    """
    import ctypes
    import functools
    import signal

    libc = ctypes.CDLL(None)
    mask, everything, former = (
        libc.pthread_sigmask,
        ctypes.create_string_buffer(128),
        ctypes.create_string_buffer(128),
    )
    libc.sigfillset(everything)  # it leaves out the C library's own signals
    for name in ("SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL"):
        libc.sigdelset(everything, int(getattr(signal, name)))
    member.block_signals = functools.partial(mask, int(signal.SIG_BLOCK), everything, former)
    os.register_at_fork(after_in_child=functools.partial(mask, int(signal.SIG_SETMASK), former, None))


class _OwnThreads:
    """Pattern of a warning filter: Python 3.12's warning of a fork with threads, if all threads but one are dkdbg's."""

    def __init__(self, member: Member) -> None:
        self._member = member

    def match(self, text: str) -> bool:
        """Tell whether `text` is that warning and the program itself has one thread.

        dkdbg's threads are those that execute Python and that `threading` does not know.
        """
        if "deadlocks in the child" not in text:
            return False
        import threading

        for _ in _tries(*TRIES):
            tasks = len(os.listdir("/proc/self/task"))
            if tasks - len(sys._current_frames()) + threading.active_count() == 1:
                return True
        # The hook's thread may be starting, and have no Python frame yet. Do not acquire the lock: this may run in a
        # signal handler that has interrupted its holder.
        return bool(self._member.begun.locked())


def _ignore_own_threads(member: Member) -> None:
    """Put dkdbg's warning filter first, before those that the program has added meanwhile."""
    import warnings

    filters: List[Any] = warnings.filters  # type: ignore[assignment]
    if not any(isinstance(each[1], _OwnThreads) for each in filters[:1]):
        filters[:] = [
            ("ignore", _OwnThreads(member), DeprecationWarning, None, 0),
            *(each for each in filters if not isinstance(each[1], _OwnThreads)),
        ]


def _is_about_to_exec() -> bool:
    """Tell whether subprocess.Popen forks, with a preexec_fn as it runs callbacks: the child will call exec next."""
    frame = sys._getframe()
    while frame is not None:
        if frame.f_code.co_name == "_execute_child" and "subprocess" in frame.f_code.co_filename:
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False
