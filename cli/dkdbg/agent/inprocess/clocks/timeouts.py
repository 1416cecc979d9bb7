"""Raises PyTorch's process group timeouts while an editor is attached: a stopped rank must not end the job.

Gloo, NCCL and the store behind them end a job if one rank does not take part for longer than the groups' timeouts.
While an editor is attached, all ranks, even those that are not debugged, wait for up to a day. When it has left, each
group gets the program's timeout back.

A collective keeps the timeout with which it began, and when a rank crashes, the others are already in one. So with
`--on-crash hold=20m`, all groups wait 20 minutes longer from the start.
"""

# torch is the user's, and is only used after the program has imported it.
# ruff: noqa: ANN401

from __future__ import annotations

import os
import sys

from .. import collectives, duration, importing, session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Optional, Tuple

#: Timeout in seconds; longer than any stop.
RAISED_S = 86400
MODULE = "torch.distributed.distributed_c10d"
#: torch's variable with the seconds after which it ends a process whose NCCL watchdog thread gives no sign of life;
#: torch reads it when a group is created.
_HEARTBEAT = "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC"
#: torch's default for _HEARTBEAT, in seconds.
_HEARTBEAT_S = 600


class _State:
    """Changes to this process's timeouts.

    Attributes:
        raised: whether an editor is attached, so that the timeouts are RAISED_S.
        extra: seconds by which timeouts are longer while no editor is attached.
        groups: the program's own timeouts of its groups, by name and device. store: its own timeout of the store.
    """

    raised = False
    extra = 0.0
    patched = False
    groups: Dict[Tuple[str, str], Any] = {}  # noqa: RUF012
    store: Any = None


def follow(directory: str) -> str:
    """Raise the timeouts if an editor is attached, else restore them.

    Returns:
        `raised N OWN`: the timeouts of N groups are raised; the program's own are at least OWN seconds.
        `raised N OWN waits OP AGE LEFT`: in addition, a thread waits in the collective OP, which began AGE seconds ago
        with the old timeout, and gives up in LEFT seconds.
        `as they were`: the timeouts are restored. `not raised: ERROR`: they are unchanged.
    """
    try:
        return _follow(directory)
    except Exception as error:  # another version of torch: its timeouts stay unchanged
        return "not raised: %r" % (error,)


def allow_for_crashes() -> None:
    """Lengthen the timeouts of this rank's groups from the start, by the seconds for which a crashed rank is held."""
    _State.extra = duration.hold_seconds(os.environ.get("DKDBG_ON_CRASH", ""))
    importing.after(MODULE, _patch)


def _follow(directory: str) -> str:
    _State.raised = session.editor_is_attached(directory)
    module = sys.modules.get(MODULE)
    if module is None or not hasattr(module, "_store_based_barrier"):
        # torch is not imported yet: after the import, clocks.py calls this function again.
        return "raised 0 0" if _State.raised else "as they were"
    if _State.raised:
        _patch(module)
        found = _raise_groups(module)
        waits = collectives.pending() if found else None
        is_old = waits is not None and waits[1] + waits[2] < RAISED_S
        own = min((each.total_seconds() for each in _State.groups.values()), default=0.0)
        return "raised %d %.0f" % (found, own) + (
            " waits %s %.1f %.1f" % waits if waits is not None and is_old else ""
        )
    _restore(module)
    return "as they were"


def _patch(module: Any) -> None:
    """Patch torch, once, so that a new group gets a raised timeout if timeouts are raised at its creation."""
    if _State.patched:
        return
    make, meet, barrier = module._new_process_group_helper, module.rendezvous, module._store_based_barrier

    def new_group(*args: Any, **kwargs: Any) -> Any:
        given = kwargs.get("timeout")
        if given is None or not (_State.raised or _State.extra):
            return make(*args, **kwargs)
        store = kwargs.get("store", args[4] if len(args) > 4 else None)
        if _State.store is None and store is not None:
            _State.store = given
            _quietly(lambda: store.set_timeout(_longer(given)))
        kwargs["timeout"] = _longer(given)
        former = os.environ.get(_HEARTBEAT)
        os.environ[_HEARTBEAT] = _longer_heartbeat(former)
        try:
            made = make(*args, **kwargs)
        finally:
            if former is None:
                os.environ.pop(_HEARTBEAT, None)
            else:
                os.environ[_HEARTBEAT] = former
        _quietly(lambda: _record_timeout(made[0], given))
        return made

    def rendezvous(*args: Any, **kwargs: Any) -> Any:
        if kwargs.get("timeout") is not None:
            kwargs["timeout"] = _longer(kwargs["timeout"])
        return meet(*args, **kwargs)

    def store_based_barrier(rank: Any, store: Any, name: Any, size: Any, timeout: Any, *args: Any) -> Any:
        return barrier(rank, store, name, size, _longer(timeout), *args)

    def monitored_barrier(self: Any, *args: Any, **kwargs: Any) -> Any:
        if args and args[0] is not None:
            args = (_longer(args[0]), *args[1:])
        elif kwargs.get("timeout") is not None:
            kwargs["timeout"] = _longer(kwargs["timeout"])
        return monitored(self, *args, **kwargs)

    monitored = module.ProcessGroup.monitored_barrier
    _State.patched = True  # not earlier: the above fails while another thread is still importing the module
    module.ProcessGroup.monitored_barrier = monitored_barrier
    module._new_process_group_helper = new_group
    module.rendezvous = rendezvous
    module._store_based_barrier = store_based_barrier


def _longer_heartbeat(former: Optional[str]) -> str:
    """Return the raised value for _HEARTBEAT; a malformed value is returned unchanged, for torch to report."""
    if _State.raised:
        return str(RAISED_S)
    try:
        return str(int(float(former or _HEARTBEAT_S) + _State.extra))
    except (ValueError, OverflowError):
        return former or ""


def _record_timeout(group: Any, given: Any) -> None:
    """Record the program's timeout of a new group; replace a former one, as torch reuses names of destroyed groups."""
    for device, _ in _backends(group):
        _State.groups[(str(group.group_name), device)] = given


def _raise_groups(module: Any) -> int:
    """Raise the timeouts of the existing groups; return their number."""
    groups = list(module._world.pg_map)
    for group in groups:
        found = _backends(group)
        # Read all before raising the first: several devices may have the same backend, gloo's.
        for device, backend in found:
            _State.groups.setdefault((str(group.group_name), device), backend.options._timeout)
        for device, backend in found:
            backend._set_default_timeout(_longer(_State.groups[str(group.group_name), device]))
    if groups:
        _quietly(lambda: _raise_store(module._get_default_store()))
    return len(groups)


def _raise_store(store: Any) -> None:
    while hasattr(store, "underlying_store"):  # a PrefixStore does not report its timeout
        store = store.underlying_store
    if _State.store is None:
        _State.store = store.timeout
    store.set_timeout(_longer(_State.store))


def _restore(module: Any) -> None:
    for group in list(module._world.pg_map):
        for device, backend in _backends(group):
            given = _State.groups.get((str(group.group_name), device))
            if given is not None:
                backend._set_default_timeout(_longer(given))
    if _State.store is not None:
        timeout = _longer(_State.store)
        _quietly(lambda: module._get_default_store().set_timeout(timeout))
    if not _State.extra:
        _State.store = None
        _State.groups.clear()


def _backends(group: Any) -> Any:
    """Return the pairs (device, backend) of a group whose backend has a timeout that can be set."""
    found = []
    for device in group._device_types:
        backend: Optional[Any] = group._get_backend(device)
        if hasattr(backend, "_set_default_timeout") and hasattr(backend, "options"):
            found.append((str(device), backend))
    return found


def _longer(timeout: Any) -> Any:
    import datetime

    if _State.raised:
        return max(timeout, datetime.timedelta(seconds=RAISED_S))
    return timeout + datetime.timedelta(seconds=_State.extra) if _State.extra else timeout


def _quietly(do: Callable[[], object]) -> None:
    try:
        do()
    except Exception:  # another version of torch
        return
