"""The hook's part in a fork: it ends its thread before the fork, and registers the child as a process of its own.

Loaded by the hook at a process's first fork; a process that never forks does not pay for it.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterator, List

    from .hook.sitecustomize import _Member as Member

#: Maximum tries until a thread has begun, or the kernel has removed it, and seconds between two.
TRIES = (50, 0.0001)
#: Seconds for the hook's thread to answer the agent, such as to import the debugger, before a fork goes on without it.
ANSWER_TIMEOUT_S = 10.0
#: CPythons that warn of a fork with threads, and those that count them after the callbacks in the parent (cpython#137109).
_WARNS = sys.version_info >= (3, 12)
_COUNTS_LATE = (3, 13) <= sys.version_info < (3, 13, 10) or sys.version_info[:3] == (3, 14, 0)
#: Modules beside the hook that hold threads, sockets or a debugger; the child only has copies of them.
_FORGETFUL = (
    "last_stack", "pydevd_patches.shutdown", "pydevd_patches.suspending", "join", "output", "pdb.socket_pdb",
)  # fmt: skip


def before(member: Member) -> None:
    """End the hook's thread, so that the program forks with only its own threads.

    Python 3.12 and newer warn when a process with several threads forks. The callback for the child is
    registered at the first fork and not at start: it has to run after the one of `threading`.
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
    # Send by path, not over the descriptor: a thread that waits on a descriptor that the program has closed still
    # receives the message.
    path = os.path.realpath(member.directory + "/p") + "/%d.sock" % os.getpid()
    try:
        _put_to_sleep(path)
    except OSError:  # the socket was closed before the thread waited
        try:
            member.register_again()
            _put_to_sleep(path)
        except OSError:
            # In a sandbox the thread stays. A child that lacks it in the middle of an answer cannot announce itself.
            for _ in _tries(1000, ANSWER_TIMEOUT_S / 1000):
                if not member.answering:
                    break
            raise
    if member.starter == member._get_ident():
        return  # in a signal's handler, while this thread is starting the hook's thread
    # Keep this lock: a signal handler may fork meanwhile and return in the child, where `member.done` is another one.
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
    for name in _FORGETFUL:  # only loaded modules: an import may wait for a thread of the parent
        forget = getattr(sys.modules.get("_dkdbg." + name), "forget", None)
        if forget is not None:
            forget()
    if _is_about_to_exec() or is_half_joined:  # a thread that the child lacks holds locks
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
            return ""  # `enter` asks the parent, because of the command line
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
    except BlockingIOError:  # ten messages are unread (max_dgram_qlen), from forks in signal handlers
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
    """Prepare to block signals in each forked child until it has joined.

    Python drops an exception that a signal handler raises in a callback of a fork. The last callback, which unblocks
    the signals, is a C function, so that no handler runs before the program's next line.
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
    """Pattern for a warning filter: matches Python 3.12's warning of a fork with threads if all but one are dkdbg's."""

    def __init__(self, member: Member) -> None:
        self._member = member

    def match(self, text: str) -> bool:
        """Tell whether `text` is that warning and the program itself has one thread.

        `threading` does not know the threads of dkdbg, though they execute Python.
        """
        if "deadlocks in the child" not in text:
            return False
        import threading

        for _ in _tries(*TRIES):
            tasks = len(os.listdir("/proc/self/task"))
            if tasks - len(sys._current_frames()) + threading.active_count() == 1:
                return True
        # The hook's thread may be starting, with no Python frame yet. Do not acquire the lock: a signal handler
        # may fork here.
        return bool(self._member.begun.locked())


def _ignore_own_threads(member: Member) -> None:
    """Put dkdbg's warning filter in front of those that the program has added since."""
    import warnings

    filters: List[Any] = warnings.filters  # type: ignore[assignment]
    if not any(isinstance(each[1], _OwnThreads) for each in filters[:1]):
        filters[:] = [
            ("ignore", _OwnThreads(member), DeprecationWarning, None, 0),
            *(each for each in filters if not isinstance(each[1], _OwnThreads)),
        ]


def _is_about_to_exec() -> bool:
    """Tell whether subprocess.Popen forks with a preexec_fn: the child executes another program next."""
    frame = sys._getframe()
    while frame is not None:
        if frame.f_code.co_name == "_execute_child" and "subprocess" in frame.f_code.co_filename:
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False
