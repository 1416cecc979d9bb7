"""Finds timeouts of this process that clocks.py cannot stop, from its modules and stacks.

The agent reports them at a stop (supervisor/held_deadlines.py), because they keep running while the program is held.
"""

from __future__ import annotations

import linecache
import os
import re
import sys
import threading
from types import BuiltinFunctionType, FunctionType, ModuleType

from .. import session, stacks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType, FrameType
    from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

_GRPC = "the deadline of gRPC"
#: Module whose clocks keep running -> description, and a test whether the loaded module is in use (None: always).
_MODULES: Dict[str, Tuple[str, Optional[Callable[[Any], object]]]] = {
    "uvloop": ("timeouts of uvloop", None),
    "gevent": ("timeouts of gevent", None),
    "_time_machine": ("Python clocks, because time_machine is imported", None),
    "apscheduler.schedulers.base": ("misfire_grace_time of APScheduler", None),
    "celery.worker.request": ("times of celery's tasks (expires, eta, countdown)", None),
    "huey.api": ("times of huey (expires, eta, delay)", None),
    "grpc": (_GRPC, lambda _: any(map(_polls_for_grpc, list(getattr(threading, "_active", {}).values())))),
    "torch.distributed.rpc.api": (
        "timeouts of torch.distributed.rpc",
        lambda module: session.namespace(module).get("_is_current_rpc_agent_set", bool)(),
    ),
}
#: A call with an argument, probably a timeout, in the source line at which a thread waits in C.
_CALL = re.compile(r"\.(acquire|poll|connect)\([^)\s]")
#: Module or package -> description of the limit of its calls: a deadline that C code checks, or a number of tries.
_DEADLINES = {
    "grpc._channel": _GRPC,
    "curl_cffi": "the timeout of curl",
    "tenacity": "tenacity's retry limit",
    "backoff": "backoff's retry limit",
}
#: Source lines that begin a loop, a `while`, and a loop with a counter.
_LOOP = re.compile(r"\s*(?:for|while)\b")
_WHILE = re.compile(r"\s*while\b")
_RANGE = re.compile(r"\s*for\b.*\bin\s+range\(")
#: A source line that ends a loop early; one that compares with a limit; an assignment that counts; a call of `sleep`.
_ENDS_EARLY = re.compile(r"\s*(?:if\b.*[:;]\s*)?(?:break|return)\b")
_LIMIT = re.compile(r"\s*(?:el)?if\b(?!.*%).*(?:[<>]|==|\bnot\b)")
_STEP = re.compile(r"\b(\w+)\s*(?:[-+]=|=\s*\1\s*[-+])")
_NAP = re.compile(r"\bsleep\(")
#: A call that may wait for a database's lock, with sqlite3 up to the `timeout` of the connection.
_STATEMENT = re.compile(r"\.(execute|executemany|executescript|commit)\(")
#: Module -> its functions and methods that return the current time by a clock that keeps running.
_READS = {
    "datetime": ("now", "utcnow", "today"),
    "time": ("localtime", "gmtime", "clock_gettime", "clock_gettime_ns"),
}
#: Modules whose waits are a single call; names of functions that read a clock. A library's function that uses one of
#: these loops until a deadline, which is extended because the clock stops (clocks.py).
_WAITS, _CLOCKS = {"threading", "multiprocessing.synchronize"}, {"monotonic", "time", "_time"}
#: Minimum seconds of a single-call wait to report: a shorter one is probably a step of a loop.
_MIN_WAIT_S = 5.0
#: Flag that code objects of functions have, and those of modules and classes lack.
_CO_OPTIMIZED = 1
#: Maximum clocks to report.
MAX_CLOCKS = 10


def found() -> List[str]:
    """Return at most MAX_CLOCKS different descriptions, such as `datetime.now() at train.py:7`."""
    texts = [
        text
        for name, (text, is_used) in _MODULES.items()
        if name in sys.modules and (is_used is None or is_used(sys.modules[name]))
    ]
    for frame in sys._current_frames().values():
        each: Optional[FrameType] = frame
        limit = _deadline_of(frame) or _older_wait_of(frame)
        text = limit or _wait_of(frame)
        while each is not None:
            read, line = _read_in(each)
            if _is_program(each):
                text, line = (read, line) if read else (text, each.f_lineno or 0)
                if text:
                    where = "%s:%d" % (os.path.basename(each.f_code.co_filename), line)
                    texts.append("%s at %s" % (text, where))
                    text = ""
            elif read:
                texts.append("%s of %s" % (read, _name_of(each).partition(".")[0]))
            each = each.f_back
        if text and text == limit:  # no frame of the program was found: the thread is a library's
            texts.append(text)
    placed = [each.partition(" at ")[0] for each in texts if " at " in each]
    return list(dict.fromkeys(each for each in texts if each not in placed))[:MAX_CLOCKS]


def _is_program(frame: FrameType) -> bool:
    """Return whether a frame is the program's own, as `__main__` always is, even an installed module or script."""
    return _name_of(frame) == "__main__" or stacks.is_own(frame.f_code.co_filename)


def _read_in(frame: FrameType) -> Tuple[str, int]:
    """Return the call in a frame's function that reads a clock that keeps running, and its line; "" and 0 without one.

    The call may also be in a global function that it uses, such as `def now(): return datetime.now()`.
    """
    names = frame.f_globals
    read = _read_of(frame.f_code, names)
    if read:
        return read, _line_of(read, frame.f_code)
    is_function = frame.f_code.co_flags & _CO_OPTIMIZED  # a module's code has the names of all its functions
    for name in frame.f_code.co_names if is_function else ():
        helper = names.get(name)
        if type(helper) is FunctionType:
            read = _read_of(helper.__code__, helper.__globals__)
            if read:
                return read, _line_of(name, frame.f_code)
    return "", 0


def _read_of(code: CodeType, names: Dict[str, Any]) -> str:
    """Return the call in code that reads a clock that keeps running, or ""; `names` are the code's globals."""
    for module, reads in _READS.items():
        read = next((each for each in reads if each in code.co_names), "")
        if read and any(each == module or _is_of(names.get(each), module) for each in code.co_names):
            return "%s.%s()" % (module, read)
    return ""


def _is_of(value: Any, module: str) -> bool:  # noqa: ANN401 - of any type
    """Return whether a value is this module of the standard library, or one of its classes or functions."""
    if type(value) is ModuleType:
        return value is sys.modules.get(module)
    return type(value) in (type, BuiltinFunctionType) and getattr(value, "__module__", "") == module


def _polls_for_grpc(thread: Any) -> bool:  # noqa: ANN401 - of any class
    """Return whether a thread is the poller of grpc.aio, which runs while the program has a channel or a server."""
    return getattr(getattr(thread, "_target", None), "__name__", "") == "_poll_wrapper"


def _deadline_of(frame: Optional[FrameType]) -> str:
    """Return a description of the time limit of the library call that a thread is in; empty if there is no limit."""
    while frame is not None and not stacks.is_own(frame.f_code.co_filename):
        name = _name_of(frame)
        text = _DEADLINES.get(name) or _DEADLINES.get(name.partition(".")[0])
        if text:
            return text
        if name == "multiprocessing.managers" and _waits_for_a_client(frame.f_locals):
            return "the timeout of acquire of a lock of a multiprocessing manager"
        frame = frame.f_back
    return ""


def _waits_for_a_client(variables: Dict[str, Any]) -> bool:
    """Return whether a multiprocessing manager waits with a timeout for a lock, for a client of the manager.

    Args:
        variables: the local variables of a frame of multiprocessing.managers (`serve_client`).
    """
    return variables.get("methodname") == "acquire" and bool(variables.get("args") or variables.get("kwds"))


def _wait_of(frame: FrameType) -> str:
    """Return a description of the time limit of the C call that a thread waits in; empty if there is no limit.

    Args:
        frame: the thread's innermost frame.
    """
    is_own, has_sqlite = _is_program(frame), "sqlite3" in sys.modules
    if _counts_naps(frame):
        of = "" if is_own else " of " + _name_of(frame).partition(".")[0]
        return "a loop%s that counts its sleeps" % of
    is_own = is_own or _name_of(frame) == "socket"
    if is_own or has_sqlite:
        line = linecache.getline(frame.f_code.co_filename, frame.f_lineno or 0)
        if has_sqlite and _STATEMENT.search(line):
            return "the timeout of sqlite3"
        call = _CALL.search(line) if is_own else None
        if call is not None:
            return "the timeout of %s" % call[1]
    return ""


def _older_wait_of(frame: Optional[FrameType]) -> str:
    """Return a description of a thread's wait that began before the attach, or ""; waits.py lengthens later waits."""
    timeout = frame.f_locals.get("timeout") if frame is not None and _name_of(frame) in _WAITS else None
    if not isinstance(timeout, (int, float)) or timeout < _MIN_WAIT_S:
        return ""
    while frame is not None and not stacks.is_own(frame.f_code.co_filename):
        if _name_of(frame).startswith(__package__) or not _CLOCKS.isdisjoint(frame.f_code.co_names):
            return ""
        if frame.f_code is threading.Timer.run.__code__:
            return "a threading.Timer of %g s that began before the attach" % timeout
        frame = frame.f_back
    if frame is None or _is_period(frame):  # a library's thread
        return ""
    return "a wait of %g s that began before the attach," % timeout


def _is_period(frame: FrameType) -> bool:
    """Return whether a frame waits in the first line of a loop, or in a `while`, as a monitor does periodically."""
    lines, at = linecache.getlines(frame.f_code.co_filename), (frame.f_lineno or 0) - 1
    if not 0 <= at < len(lines):
        return False
    if _LOOP.match(lines[at]):
        return True
    return any(_WHILE.match(lines[above]) for above in _enclosing(lines, at, frame))


def _line_of(call: str, code: CodeType) -> int:
    """Return the number of the first line in a function with this call; without the source, that of the function."""
    first = max(code.co_firstlineno, 1)
    lines = linecache.getlines(code.co_filename)[first - 1 :]
    name = re.compile(r"\b%s\b" % call.rstrip("()").rpartition(".")[2])
    return next((number for number, line in enumerate(lines, first) if name.search(line)), first)


def _name_of(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__"))


def _counts_naps(frame: FrameType) -> bool:
    """Return whether a frame sleeps in a loop that gives up, or does something, after a number of iterations."""
    if "sleep" not in frame.f_code.co_names:
        return False
    lines, at = linecache.getlines(frame.f_code.co_filename), (frame.f_lineno or 0) - 1
    if not (0 <= at < len(lines) and _NAP.search(lines[at])):
        return False
    head = next((above for above in _enclosing(lines, at, frame) if _LOOP.match(lines[above])), None)
    if head is None:
        return False
    loop = [head]
    for index in range(head + 1, len(lines)):
        if lines[index].strip() and _depth(lines[index]) <= _depth(lines[head]):
            break
        loop.append(index)
    if _RANGE.match(lines[head]):
        return any(_ENDS_EARLY.match(lines[each]) for each in loop)
    limits = {head, *(each for each in loop if _LIMIT.match(lines[each]))}
    around = set(_enclosing(lines, at, frame))
    for index in loop:
        for name in _STEP.findall(lines[index]):
            # A comparison around the counting but not around the sleep counts other events, such as torchrun's
            # restarts.
            others = limits - (set(_enclosing(lines, index, frame)) - around)
            if any(re.search(r"\b%s\b" % name, lines[each]) for each in others):
                return True
    return False


def _enclosing(lines: List[str], at: int, frame: FrameType) -> Iterator[int]:
    """Yield the indexes of the lines that enclose line `at` by indentation, within the function, innermost first."""
    depth = _depth(lines[at])
    for above in range(at - 1, frame.f_code.co_firstlineno - 2, -1):
        if lines[above].strip() and _depth(lines[above]) < depth:
            depth = _depth(lines[above])
            yield above


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip())
