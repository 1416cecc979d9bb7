"""Lengthens waits that are a single call, by as much as the clocks fall behind during the wait; see clocks.py."""

# The modules are the program's, and functions of all signatures are replaced.
# ruff: noqa: ANN401

from __future__ import annotations

import errno
import functools
import gc
import math
import sys

from .slow_clocks import Builtin, State, behind, exchange, keeps_true_clocks
from .untraced import Suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Optional, Tuple, Type

#: Remaining seconds of a wait below which it is not worth calling again.
_RESOLUTION = 0.001


def _lengthen(owner: Any, name: str, **how: Any) -> None:
    setattr(owner, name, _lengthened(getattr(owner, name), **how))


def _lengthen_in_c(owner: Any, name: str, **how: Any) -> None:
    """Lengthen a method of a class written in C, by changing the class's dict directly.

    Python code cannot set attributes of such a class. Replacing the class by a subclass would need a metaclass, by
    which existing objects count as instances; that would conflict with the metaclass of a subclass in the program.
    """
    import ctypes

    [attributes] = gc.get_referents(owner.__dict__)
    attributes[name] = _lengthened(getattr(owner, name), **how)
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(owner))


def _in_ms(seconds: float) -> int:
    return math.ceil(1e3 * seconds)


def _lengthened(
    wait: Any,
    *,
    at: int = 1,
    is_over: Optional[Callable[[Any, Any, Any], object]] = None,
    raises: Tuple[Type[BaseException], ...] = (),
    unit: Callable[[float], Any] = float,
    has_own: bool = False,
) -> Any:
    """Return a function that calls `wait`, and then again with the time by which the clocks fell behind meanwhile.

    Without a timeout, or while no editor is attached, it makes no other Python calls, which are slow under a tracer.

    Args:
        at: position of `wait`'s argument `timeout`; without that argument it waits without limit, unless `has_own`.
        is_over: tells from the arguments and the result whether the wait has ended before its timeout; by default, if
            the result is true or, with `raises`, in any case.
        raises: exceptions that `wait` raises at its timeout. unit: converts seconds to the argument's unit.
        has_own: whether `wait` has a default timeout, so that it has to be repeated without the argument too.
    """

    @functools.wraps(wait)
    def lengthened(*args, **kwargs):  # type: ignore[no-untyped-def]  # noqa: ANN002, ANN003, ANN202 - hints as the true one's
        try:
            if State is None or State.reader is None:
                return wait(*args, **kwargs)
            given = kwargs.get("timeout", args[at] if len(args) > at else None)
            if not (given or has_own):
                return wait(*args, **kwargs)
            before = behind() if State.replaced else 0.0
            while True:
                error, found = None, None
                try:
                    found = wait(*args, **kwargs)
                    if raises or (found if is_over is None else is_over(args, kwargs, found)):
                        return found
                except raises as raised:
                    error = raised
                lost = behind() - before
                if lost <= _RESOLUTION or keeps_true_clocks():
                    if error is not None:
                        raise error
                    return found
                before += lost
                if "timeout" in kwargs:
                    kwargs["timeout"] = unit(lost)
                elif given:
                    args = (*args[:at], unit(lost), *args[at + 1 :])
        finally:
            error = found = None
            del args, kwargs  # a traceback would keep them alive

    return lengthened


def _threading(module: Any) -> None:
    _lengthen(module.Thread, "join", is_over=lambda args, *_: not args[0].is_alive())
    true = module.Condition.wait
    acquire = _lengthened(lambda lock, timeout: lock.acquire(True, timeout))

    @functools.wraps(true)
    def wait(self, timeout=None):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        """Wait as `Condition.wait` does (Event, Barrier and Future use it), with one waiter for the whole time.

        Calling the true `wait` twice would lose a notification that arrives between the two.
        """
        if State is None or State.reader is None or not timeout or timeout < 0 or not self._is_owned():
            return true(self, timeout)
        waiter = module._allocate_lock()
        waiter.acquire()
        self._waiters.append(waiter)
        saved, is_notified = self._release_save(), False
        try:
            is_notified = acquire(waiter, timeout)
            return is_notified
        finally:
            self._acquire_restore(saved)
            if not is_notified:
                with Suppress(ValueError):
                    self._waiters.remove(waiter)

    module.Condition.wait = wait


def _multiprocessing(module: Any) -> None:
    make, true = module.SemLock._make_methods, module.Condition.wait

    @functools.wraps(make)
    def make_methods(self):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        make(self)
        self.acquire = _lengthened(self.acquire)

    @functools.wraps(true)
    def wait(self, timeout=None):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        lock = self._wait_semaphore
        if not hasattr(lock.acquire, "__wrapped__"):  # the condition was created before the attach
            lock.acquire = _lengthened(lock.acquire)
        return true(self, timeout)

    module.SemLock._make_methods, module.Condition.wait = make_methods, wait


def _simple_queue(module: Any) -> None:
    _lengthen_in_c(module.SimpleQueue, "get", at=2, raises=(module.Empty,))


class _Select(Builtin):
    """Replacement of `select.select`; not a function, which would be a method in the class of `selectors`."""

    def __call__(self, rlist: Any, wlist: Any, xlist: Any, timeout: Any = None) -> Any:
        if not timeout or State is None or State.reader is None:
            return self.true(rlist, wlist, xlist, timeout)
        if not (type(rlist) is type(wlist) is type(xlist) is list):
            rlist, wlist, xlist = map(tuple, (rlist, wlist, xlist))  # to use iterators in several calls
        before = behind() if State.replaced else 0.0
        while True:
            found = self.true(rlist, wlist, xlist, timeout)
            if found[0] or found[1] or found[2]:
                return found
            timeout = behind() - before
            if timeout <= _RESOLUTION or keeps_true_clocks():
                return found
            before += timeout


def _select(module: Any) -> None:
    module.select = _Select(module.select, "select")
    _lengthen_in_c(type(module.poll()), "poll", unit=_in_ms)
    _lengthen_in_c(module.epoll, "poll")


def _socket(module: Any) -> None:
    """Lengthen reading and accepting. Sending and connecting cannot be lengthened: they must not be repeated."""
    for name in ("recv", "recv_into", "recvfrom", "recvfrom_into", "recvmsg", "recvmsg_into", "_accept"):
        _lengthen_socket(module.socket, name, module.timeout)


def _ssl(module: Any) -> None:
    for name in ("read", "do_handshake"):
        _lengthen_socket(module.SSLSocket, name, sys.modules["socket"].timeout)


def _lengthen_socket(owner: Any, name: str, timeout: Type[OSError]) -> None:
    read, socket_class = getattr(owner, name), sys.modules["socket"].socket

    @functools.wraps(read)
    def lengthened(self, *args, **kwargs):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN002, ANN003, ANN202
        if State is None or State.reader is None:
            return read(self, *args, **kwargs)
        before = behind() if State.replaced else 0.0
        while True:
            try:
                return read(self, *args, **kwargs)
            except (timeout, BlockingIOError) as error:
                # On a socket without a timeout, only SO_RCVTIMEO (EAGAIN) is a timeout of this call; the exception
                # `timeout` then comes from a signal handler.
                is_blocking = isinstance(self, socket_class) and self.gettimeout() is None
                # A timeout has no errno, or EAGAIN with ZeroMQ. Other values are errors of the connection.
                if is_blocking != isinstance(error, BlockingIOError) or error.errno not in (
                    None,
                    errno.EAGAIN,
                ):
                    raise
                lost = behind() - before
                if lost <= _RESOLUTION or keeps_true_clocks():
                    raise
            before += lost  # then wait again, for the whole timeout

    setattr(owner, name, lengthened)


def _zmq_poll(module: Any) -> None:
    _lengthen(module, "zmq_poll", unit=_in_ms)


def _zmq_socket(module: Any) -> None:
    _lengthen_socket(module.Socket, "recv", sys.modules["zmq.error"].Again)


def _torch(module: Any) -> None:
    """Lengthen the waits of torch's stores, and `Work.wait(timeout)`. timeouts.py handles the timeouts of groups."""
    import datetime

    unit, own = (
        (lambda seconds: datetime.timedelta(seconds=seconds)),
        (getattr(module, "DistStoreError", RuntimeError),),
    )
    store = module.Store
    _lengthen(store, "wait", at=2, raises=own, unit=unit, has_own=True)
    _lengthen(store, "get", at=2, raises=own, has_own=True)
    _lengthen(module.distributed_c10d.Work, "wait", raises=(RuntimeError,), unit=unit)


def _ray(module: Any) -> None:
    gives_up = (sys.modules["ray.exceptions"].GetTimeoutError,)
    _lengthen(module.Worker, "get_objects", at=2, raises=gives_up)
    wait = module.wait
    module.wait = _lengthened(
        wait, is_over=lambda _args, kwargs, found: len(found[0]) >= kwargs.get("num_returns", 1)
    )
    exchange({wait: module.wait})


#: Module -> function that lengthens its waits once it is imported.
WAITS: Dict[str, Callable[[Any], None]] = {
    "threading": _threading,
    "multiprocessing.synchronize": _multiprocessing,
    "multiprocess.synchronize": _multiprocessing,
    "billiard.synchronize": _multiprocessing,
    "loky.backend.synchronize": _multiprocessing,
    "joblib.externals.loky.backend.synchronize": _multiprocessing,
    "queue": _simple_queue,
    "select": _select,
    "signal": lambda module: _lengthen(module, "sigtimedwait"),
    "socket": _socket,
    "ssl": _ssl,
    "zmq.sugar.poll": _zmq_poll,
    "zmq.sugar.socket": _zmq_socket,
    "torch.distributed": _torch,
    "ray._private.worker": _ray,
}
