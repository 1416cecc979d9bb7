"""The hook's part in a fork: it ends its thread before, and makes the child a member of its own.

Loaded by the hook at a process's first fork; a process that never forks does not pay for it.
"""

from __future__ import annotations

import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .hook.sitecustomize import _Member as Member

#: Maximum tries of 0.1 ms each until the kernel has removed the thread.
GONE_TRIES = 50
#: Modules beside the hook that hold threads, sockets or a debugger; the child only has copies of them.
_FORGETFUL = ("join", "pdb.socket_pdb")


def before(member: Member) -> None:
    """End the hook's thread, so that the program forks with only its own threads.

    Python 3.12 and newer warn when a process with several threads forks. The callback for the child is
    registered at the first fork and not at start: it has to run after the one of `threading`.
    """
    if not member.fork_armed:
        member.fork_armed = True
        os.register_at_fork(after_in_child=member.at_fork("in_child"))
    if not member.running:
        return
    member.forking = True
    # By path, not by descriptor: a thread that waits on a descriptor that the program has closed still
    # receives it.
    path = os.path.realpath(member.directory + "/p") + "/%d.sock" % os.getpid()
    try:
        _put_to_sleep(path)
    except OSError:  # it was closed before the thread waited
        member.register_again()
        _put_to_sleep(path)
    if member.done.acquire(True, 1):
        member.done.release()
        _until_thread_is_gone(member.thread_id)


def in_parent(member: Member) -> None:
    """Start the thread again."""
    member.forking = False
    member.wake_thread()


def in_child(member: Member) -> None:
    """Drop the parent's thread, socket and debugger, and announce this process."""
    if member.listener is not None and member.owns_listener():
        member.listener.close()
    member.reset()
    for name in _FORGETFUL:
        if "_dkdbg." + name in sys.modules:
            sys.modules["_dkdbg." + name].forget()
    if _is_about_to_exec():
        return
    member.origin = origin()
    if member.origin.startswith("rank:"):
        from . import parent_lookup

        parent_lookup.take_rank(member)
    if os.environ.get("DKDBG_ON_CRASH") and "multiprocessing.process" in sys.modules:
        from . import crash_watch

        crash_watch.arm_worker(member)
    member.enter()


def origin() -> str:
    """Return this process's origin from the frames that it was forked in; see `origin` in contract.py."""
    frame = sys._getframe()
    found = ""
    while frame is not None:
        path = frame.f_code.co_filename.replace(os.sep, "/")
        if path.endswith("multiprocessing/forkserver.py"):
            return ""  # its command line shows it
        if path.endswith("multiprocessing/popen_fork.py"):
            from . import parent_lookup

            found = parent_lookup.of_forked(frame.f_locals.get("process_obj")) or found
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
        sock.settimeout(1)
        sock.sendto(b"sleep", path)
    finally:
        sock.close()


def _until_thread_is_gone(thread_id: int) -> None:
    path = "/proc/self/task/%d" % thread_id
    for _ in range(GONE_TRIES):
        if not os.path.exists(path):
            return
        time.sleep(0.0001)


def _is_about_to_exec() -> bool:
    """Tell whether this is subprocess.Popen with a preexec_fn: its child executes another program next."""
    frame = sys._getframe()
    while frame is not None:
        if frame.f_code.co_name == "_execute_child" and "subprocess" in frame.f_code.co_filename:
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False
