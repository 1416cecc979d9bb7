"""Finds out how a process with a generic command line was created (`origin` in contract.py), mostly from its parent.

All processes that multiprocessing has spawned have the same command line, and so have all pytest-xdist workers
(execnet's). The parent has the `Process` with its name, target and arguments even before the child's first line, so the
child asks the parent's hook thread. It does so only if an editor is attached or the agent requests it.
"""

from __future__ import annotations

import itertools
import os
import sys
import time

from . import choosing, session, site_entry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Iterator, List, Optional, Tuple

    from .hook.sitecustomize import _Member as Member

#: Maximum seconds to wait for the parent's answer: its hook's thread may wait for the GIL, or be joining.
ANSWER_TIMEOUT_S = 30.0
#: Maximum seconds to wait until this process, as the parent, knows the pid of a child that it is starting.
START_TIMEOUT_S = 10.0
#: The query of a child to its parent, followed by its pid.
QUERY = b"child "
_NONE = "-"
_XDIST = "exec(eval(sys.stdin.readline()))"
#: Torch's files that start processes. Columns: the file, kind of the processes, local variable with the process that is
#: being started, local variable or attribute with the list of all.
_ROWS = (
    ("torch/multiprocessing/spawn.py", "rank", "process", "processes"),
    ("torch/utils/data/dataloader.py", "dataloader", "w", "_workers"),
)
_LAUNCHES = ("popen_spawn_posix.py", "popen_forkserver.py", "popen_fork.py")


def learn(member: Member) -> bool:
    """Determine this process's origin, unless it is known, if necessary from the parent; return whether it is known."""
    try:
        return _learn(member)
    except Exception as error:  # the process stays without a name
        member.say("parent: %r" % (error,))
        return False


def take_rank(member: Member) -> None:
    """Set this process's rank if its origin is `rank:NUMBER`."""
    kind, _, detail = member.origin.partition(":")
    rank = choosing.whole_number(detail)
    if kind == "rank" and rank is not None:
        member.rank = rank


def _learn(member: Member) -> bool:
    if member.origin:
        return True
    number = os.environ.get("PYTEST_XDIST_WORKER", "")
    if _XDIST in " ".join(member.argv) and number.isalnum() and not _is_inherited(number):
        member.origin = "xdist:" + number
        return True
    current = getattr(sys.modules.get("multiprocessing.process"), "_current_process", None)
    if getattr(current, "_target", None) is not None:  # this child runs already
        member.origin = origin_of(current, "spawned")
        take_rank(member)
        return bool(member.origin)
    for pid in _parents(member):
        origin, _, rank = _ask("%s/p/%d.sock" % (member.directory, pid)).partition(" ")
        if ":" in origin:
            member.origin = origin
            if member.rank is None:  # the parent's, if that is a rank of torch.multiprocessing
                member.rank = choosing.whole_number(rank)
            take_rank(member)
            return True
    return False


def tell_again(member: Member) -> str:
    """Announce this process again if it knows more than at its start; return the answer for the agent."""
    before = os.stat(member.base + ".json")
    known = learn(member)
    if known or "LOCAL_RANK" in os.environ:
        member.announce()
        # Keep the file's time, which stands for the start of this process.
        os.utime(member.base + ".json", ns=(before.st_atime_ns, before.st_mtime_ns))
    return "known" if known else "unknown"


def answer(member: Member, pid: int) -> str:
    """Return `ORIGIN RANK` for a child of this process, or `-` if it is unknown.

    RANK is this process's own if torch.multiprocessing has started it as a rank, else `-`.
    """
    found = _process(pid)
    origin = _xdist(pid) if found is None else _place(found) or origin_of(found, "spawned")
    own = member.rank if member.origin.startswith("rank:") else None
    return "%s %s" % (origin, _NONE if own is None else own) if origin else _NONE


def origin_of(process: object, kind: str) -> str:
    """Return the origin of a process from its `multiprocessing.Process`, `KIND:NAME` unless it is one of torch's."""
    target = getattr(process, "_target", None)
    arguments: Tuple[object, ...] = getattr(process, "_args", ())
    module = getattr(target, "__module__", "")
    if module == "torch.multiprocessing.spawn" and len(arguments) > 1:
        return "rank:%s" % (arguments[1],)
    if module == "torch.utils.data._utils.worker":
        code = getattr(target, "__code__", None)
        names: Tuple[str, ...] = code.co_varnames if code is not None else ()
        place = names.index("worker_id") if "worker_id" in names else len(arguments)
        if place < len(arguments):
            return "dataloader:%s" % (arguments[place],)
    name = "".join(str(getattr(process, "_name", "")).split())[:80]
    return "%s:%s" % (kind, name) if name else ""


def _is_inherited(number: str) -> bool:
    """Tell whether PYTEST_XDIST_WORKER is inherited from a pytest-xdist worker that started this pytest."""
    try:
        with open("/proc/self/environ", "rb") as source:
            return b"PYTEST_XDIST_WORKER=" + number.encode() in source.read().split(b"\0")
    except OSError:
        return False


def _place(process: object) -> str:
    """Return the origin of a process from its position in torch's list of processes.

    The `Process` itself no longer has its target and arguments once it is started. Frames of torch's files (`_ROWS`)
    have the list, while they start the processes and while they wait for them.
    """
    for frame in _frames():
        path = frame.f_code.co_filename.replace(os.sep, "/")
        for end, kind, one, row in _ROWS:
            if not path.endswith(end):
                continue
            found = frame.f_locals
            if found.get(one) is process and isinstance(found.get("i"), int):
                return "%s:%d" % (kind, found["i"])
            started = found.get(row) or getattr(found.get("self"), row, None)
            if isinstance(started, list):
                for number, each in enumerate(started):
                    if each is process:
                        return "%s:%d" % (kind, number)
    return ""


def _process(pid: int) -> Optional[object]:
    """Return the `multiprocessing.Process` of a child, even while it is being started; None for another pid."""
    module = sys.modules.get("multiprocessing.process")
    started: List[object] = list(getattr(module, "_children", ()))
    for each in started:
        if getattr(getattr(each, "_popen", None), "pid", None) == pid:
            return each
    unnumbered = []
    for frame in _frames():
        if frame.f_code.co_name == "_launch" and frame.f_code.co_filename.endswith(_LAUNCHES):
            found, number = frame.f_locals.get("process_obj"), _number(frame)
            if number == pid:
                return found
            if number is None:
                unnumbered.append(found)
    return unnumbered[0] if len(unnumbered) == 1 else None


def _number(frame: FrameType) -> Optional[int]:
    """Return the pid of a process that is being started, None while this process does not know it yet."""
    found = getattr(frame.f_locals.get("self"), "pid", None)
    return found if isinstance(found, int) else None


def _xdist(pid: int) -> str:
    """Return a child's name as a pytest-xdist worker, from the gateways of execnet's Group (execnet/multi.py)."""
    end = session.monotonic() + START_TIMEOUT_S
    while True:
        starting = False
        for frame in _frames():
            if "execnet" not in frame.f_code.co_filename or frame.f_code.co_name != "makegateway":
                continue
            found, io = frame.f_locals, frame.f_locals.get("io")
            starting = starting or io is None  # this gateway may be the child's, whose pid is not known yet
            known = [(io, found.get("spec"))]
            known += [
                (getattr(each, "_io", None), each)
                for each in list(getattr(found.get("self"), "_gateways", ()))
            ]
            for each, named in known:
                name = str(getattr(named, "id", ""))
                if getattr(getattr(each, "popen", None), "pid", None) == pid and name.isalnum():
                    return "xdist:" + name
        if not starting or session.monotonic() > end:
            return ""
        time.sleep(0.005)


def _frames() -> Iterator[FrameType]:
    for top in list(sys._current_frames().values()):
        frame: Optional[FrameType] = top
        while frame is not None:
            yield frame
            frame = frame.f_back


def _parents(member: Member) -> List[int]:
    """Return the pid, in a list, of the process that has started this one; empty if unknown.

    For a process from a forkserver, that is the forkserver's parent.
    """
    if not any("multiprocessing.forkserver" in word for word in member.argv):
        return [os.getppid()]
    return list(itertools.islice(site_entry.above(), 1, 2))


def _ask(path: str) -> str:
    import _socket

    own_end, peer_end = _socket.socketpair()
    asking = _socket.socket(_socket.AF_UNIX, _socket.SOCK_DGRAM)
    try:
        asking.settimeout(ANSWER_TIMEOUT_S)
        rights = peer_end.fileno().to_bytes(4, sys.byteorder)
        asking.connect(os.path.realpath(path))
        asking.sendmsg([QUERY + b"%d" % os.getpid()], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, rights)])
        peer_end.close()
        own_end.settimeout(ANSWER_TIMEOUT_S)
        found = b""
        while not found.endswith(b"\n"):
            piece = own_end.recv(256)
            if not piece:
                break
            found += piece
        return found.decode("ascii", "replace").strip()
    except OSError:  # the parent has ended, or is busy
        return ""
    finally:
        for each in (own_end, peer_end, asking):
            each.close()
