"""Reads the last collectives of this process from torch's flight recorder, for `dkdbg where`.

Torch records those of gloo and NCCL by default (TORCH_FR_BUFFER_SIZE is 2000 in torch 2.13). The recorder is read on a
thread of its own, because that may wait for a device that hangs, and the hook's thread must answer other queries.
"""

from __future__ import annotations

import os
import sys
import time

from . import session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Optional, Tuple

    from .hook.sitecustomize import _Member as Member

_MODULE = "torch._C._distributed_c10d"
#: Torch's functions that dump the flight recorder of NCCL (in builds with CUDA), and that of gloo and the like.
_DUMPS = ("_dump_nccl_trace_json", "_dump_fr_trace_json")
#: Maximum collectives of a group, groups of a process, and tensors of a collective to report.
MAX_COLLECTIVES, MAX_GROUPS, _MAX_TENSORS = 8, 64, 8
#: Number of innermost frames of a waiting thread to search for torch's Python function of the collective.
_WRAPPERS = 4
#: True while a query is in progress, by pid: a forked child inherits its parent's entry, but not its thread.
_asking: Dict[int, bool] = {}


def follow(member: Member, answer: Callable[[str], None], close: Callable[[], None]) -> None:
    """Send the latest collectives as a line, from another thread, and then close the connection.

    If torch has no flight recorder, or an earlier query is still in progress, close the connection at once.
    """
    dumps = [getattr(sys.modules.get(_MODULE), name, None) for name in _DUMPS]
    if not any(dumps) or _asking.get(os.getpid()):
        close()
        return
    _asking[os.getpid()] = True

    def tell() -> None:
        try:
            answer(_answer([dump for dump in dumps if dump is not None]))
        except Exception as error:
            member.say("flight recorder: %r" % (error,))
        finally:
            _asking.clear()
            close()

    if member.joined:
        session.start_hidden(tell, "dkdbg flight recorder")
        return
    import _thread  # a bare thread, like the hook's: a program that counts its threads does not see it

    _thread.start_new_thread(tell, ())


def pending() -> Optional[Tuple[str, float, float]]:
    """Return the collective in which a thread of this process waits; None if no thread does or torch has no record.

    Only those of gloo and the like: dumping NCCL's recorder may wait for a device.

    Returns:
        Name, seconds since the collective began, seconds until its timeout.
    """
    dump = getattr(sys.modules.get(_MODULE), "_dump_fr_trace_json", None)
    if dump is None:
        return None
    import json

    entries = json.loads(dump(True, False)).get("entries") or ()
    for entry in sorted(entries, key=lambda entry: int(entry["time_created_ns"]), reverse=True)[
        :MAX_COLLECTIVES
    ]:
        # Keep no reference to the dict: it contains this function's frame, and such a cycle would keep the locals of
        # all frames alive.
        frame: Any = sys._current_frames().get(int(entry.get("thread_id") or 0))
        for _ in range(_WRAPPERS):
            if frame is None:
                break
            if frame.f_code.co_filename.endswith("torch/distributed/distributed_c10d.py"):
                now = time.clock_gettime(time.CLOCK_REALTIME)  # time.time() is slow during a hold
                age = max(0.0, now - int(entry["time_created_ns"]) / 1e9)
                name = str(entry.get("profiling_name"))[:100].rpartition(":")[2]
                return name, age, int(entry["timeout_ms"]) / 1e3 - age
            frame = frame.f_back
    return None


def _answer(dumps: List[Callable[..., Any]]) -> str:
    import json  # late: torch has imported it already

    now = time.time()
    groups: List[Dict[str, Any]] = []
    for dump in dumps:
        answer = dump(True, False)  # include collectives, and finished ones too
        groups += reduced(json.loads(answer), now)
    return json.dumps(groups[:MAX_GROUPS])


def reduced(answer: Dict[str, Any], now: float) -> List[Dict[str, Any]]:
    """Return the process groups in a dump (format 2.10, of torch 2.13) with their last collectives, the newest last.

    Args:
        now: epoch seconds.
    """
    by_group: Dict[Tuple[str, str], List[Dict[str, Any]]] = {}
    for entry in answer.get("entries") or ():
        if not entry.get("is_p2p"):
            name, description = [*(entry.get("process_group") or ()), "", ""][:2]
            by_group.setdefault((str(name), str(description)), []).append(entry)
    return [
        {"name": name[:100], "description": description[:100], "last": _last(entries, now)}
        for (name, description), entries in by_group.items()
    ]


def _last(entries: List[Dict[str, Any]], now: float) -> List[Dict[str, Any]]:
    entries.sort(key=lambda entry: int(entry["collective_seq_id"]))
    # NCCL's first unfinished collective, on which a rank hangs, may be long before the last ones: keep it too. gloo's
    # stay in the state `scheduled` for good.
    over = [number for number, entry in enumerate(entries) if entry.get("state") == "completed"]
    kept = entries[-MAX_COLLECTIVES:]
    if over and over[-1] + 1 < len(entries) - MAX_COLLECTIVES:
        kept = [entries[over[-1] + 1], *kept[1:]]
    return [
        {
            "seq": int(entry["collective_seq_id"]),
            "op": str(entry.get("profiling_name"))[:100],
            "sizes": [
                [int(n) for n in size[:_MAX_TENSORS]]
                for size in (entry.get("input_sizes") or ())[:_MAX_TENSORS]
            ],
            "types": [str(each)[:40] for each in (entry.get("input_dtypes") or ())[:_MAX_TENSORS]],
            "state": str(entry.get("state"))[:20],
            "age": round(max(0.0, now - int(entry["time_created_ns"]) / 1e9), 3),
        }
        for entry in kept
    ]
