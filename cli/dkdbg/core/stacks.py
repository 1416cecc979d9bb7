"""Check the answer of `agent where` about the processes of a target on arrival: all of it is untrusted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dkdbg.agent.state import deadlines
from dkdbg.core.record import BadRecord, decode

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dkdbg.agent.contract import Deadline

#: Maximum sessions of one answer, processes of a session, threads of a process, frames of a thread.
_SESSIONS, _PROCESSES, _THREADS, _FRAMES = 100, 4096, 100, 100
#: Maximum process groups of a process, collectives of a group, tensors of a collective.
_GROUPS, _COLLECTIVES, _TENSORS = 64, 16, 8
#: Maximum characters of a path, a name, and a line of text.
_PATH, _NAME, _LINE = 500, 200, 500
_MAX = 1 << 31


@dataclass(frozen=True)
class Frame:
    """One frame.

    Attributes:
        path: source file on the target.
        line: from 1 on; 0 if unknown.
        function: name of the function.
        own: whether it is the program's own code, not an installed package.
    """

    path: str
    line: int
    function: str
    own: bool


@dataclass(frozen=True, kw_only=True)
class Thread:
    """One thread.

    Attributes:
        name: as Python knows it; may be empty.
        main: whether it is the process's main thread.
        frames: innermost first.
        more: number of frames omitted in the middle.
    """

    name: str
    main: bool
    frames: tuple[Frame, ...]
    more: int = 0


@dataclass(frozen=True, kw_only=True)
class Collective:
    """One collective that a process has reached.

    Attributes:
        seq: its number in the group, from 1 on.
        op: operation, such as `all_reduce`.
        tensors: its inputs, such as `Float [4, 2]`.
        state: as torch names it.
        age: seconds since the process reached it.
    """

    seq: int
    op: str
    tensors: tuple[str, ...]
    state: str
    age: float


@dataclass(frozen=True, kw_only=True)
class ProcessGroup:
    """The last collectives of a process in one process group, the newest last; never empty.

    Attributes:
        name, description: the same in all processes of the group.
    """

    name: str
    description: str
    last: tuple[Collective, ...]


@dataclass(frozen=True, kw_only=True)
class Process:
    """One Python process.

    Attributes:
        name: description, such as `rank 3 (train.py)`.
        rank: global rank; None without a rank, or if it is inherited from the parent.
        world_size: number of ranks; 0 if unknown.
        state: the kernel's letter, such as `S`; empty if unknown.
        threads: the main one first; None if the process did not answer, and `why` describes what is visible.
        note: why more is not visible.
        stopped: source line at which a debugger holds the process; empty if none does.
        by: the tool that inspected it, if not the process itself.
        collectives: by process group, as far as torch has recorded them; None if unknown. Agents up to 0.1 do not
            distinguish unknown collectives from no collectives.
    """

    pid: int
    ppid: int
    name: str
    rank: int | None
    world_size: int
    state: str = ""
    threads: tuple[Thread, ...] | None = None
    why: str = ""
    note: str = ""
    stopped: str = ""
    by: str = ""
    collectives: tuple[ProcessGroup, ...] | None = ()


@dataclass(frozen=True, kw_only=True)
class Session:
    """One session.

    Attributes:
        target, address: its target, for display and as any verb accepts it.
        deadlines: time limits that keep running while a debugger holds its program.
    """

    id: str
    name: str
    target: str
    address: str
    processes: tuple[Process, ...]
    deadlines: tuple[Deadline, ...] = ()


def parse(text: str, *, target: str, address: str) -> list[Session]:
    """Parse an agent's answer to `agent where`.

    Args:
        target, address: the target that was queried.

    Raises:
        BadRecord: it is invalid.
    """
    value = decode(text)
    if not isinstance(value, dict) or value.get("version") != 1:
        raise BadRecord("its answer contains no stacks")
    return [
        Session(
            id=_text(each, "id", _NAME), name=_text(each, "name", _NAME), target=target, address=address,
            processes=_processes(each), deadlines=tuple(deadlines.parse(each.get("deadlines"))),
        )
        for each in _listed(value, "sessions", _SESSIONS)
    ]  # fmt: skip


def _processes(session: dict[str, Any]) -> tuple[Process, ...]:
    found = tuple(_process(each) for each in _listed(session, "processes", _PROCESSES))
    ranks = {each.pid: each.rank for each in found}
    # A child process inherits its parent's rank variables, so it has no rank of its own if the ranks are equal.
    return tuple(
        each
        if each.rank is None or ranks.get(each.ppid) != each.rank
        else Process(**{**vars(each), "rank": None})
        for each in found
    )


def _process(value: dict[str, Any]) -> Process:
    rank = value.get("rank")
    threads = collectives = None
    if value.get("threads") is not None:
        threads = tuple(_thread(each) for each in _listed(value, "threads", _THREADS))
    if value.get("collectives") is not None:
        groups = _listed(value, "collectives", _GROUPS)
        collectives = tuple(_process_group(each) for each in groups if each.get("last"))
    return Process(
        pid=_number(value, "pid"), ppid=_number(value, "ppid"), name=_text(value, "name", _NAME),
        rank=None if rank is None else _number(value, "rank"),
        world_size=0 if value.get("world_size") is None else _number(value, "world_size"),
        state=_text(value, "os", 1), threads=threads, why=_text(value, "why", _LINE), note=_text(value, "note", _LINE),
        stopped=_text(value, "stopped", _LINE), by=_text(value, "by", _NAME),
        collectives=collectives,
    )  # fmt: skip


def _process_group(value: dict[str, Any]) -> ProcessGroup:
    return ProcessGroup(
        name=_text(value, "name", _NAME), description=_text(value, "description", _NAME),
        last=tuple(_collective(each) for each in _listed(value, "last", _COLLECTIVES)),
    )  # fmt: skip


def _collective(value: dict[str, Any]) -> Collective:
    sizes = _listed(value, "sizes", _TENSORS, lambda each: isinstance(each, list))
    types = _listed(value, "types", _TENSORS, lambda each: isinstance(each, str))
    age = value.get("age")
    if isinstance(age, bool) or not isinstance(age, int | float) or not 0 <= age < _MAX:
        raise BadRecord("its age is not a time")
    return Collective(
        seq=_number(value, "seq"), op=_text(value, "op", _NAME).rpartition(":")[2], state=_text(value, "state", _NAME),
        age=float(age),
        tensors=tuple(f"{kind} {size}"[:_NAME] for kind, size in zip(types, sizes, strict=False)),
    )  # fmt: skip


def _thread(value: dict[str, Any]) -> Thread:
    return Thread(
        name=_text(value, "name", _NAME), main=bool(_number(value, "main")), more=_number(value, "more"),
        frames=tuple(_frame(each) for each in _listed(value, "frames", _FRAMES, lambda each: isinstance(each, list))),
    )  # fmt: skip


def _frame(value: Any) -> Frame:  # noqa: ANN401 - untrusted
    match value:
        case [str(path), int(line), str(function), int(own)] if 0 <= line < _MAX:
            return Frame(path[:_PATH], line, function[:_NAME], bool(own))
        case _:
            raise BadRecord("one of its frames is malformed")


def _listed(
    value: dict[str, Any],
    key: str,
    max_items: int,
    fits: Callable[[object], bool] = lambda each: isinstance(each, dict),
) -> Sequence[Any]:
    found = value.get(key, [])
    if not isinstance(found, list) or not all(fits(each) for each in found):
        raise BadRecord(f"its {key} are not a list")
    return found[:max_items]


def _text(value: dict[str, Any], key: str, max_chars: int) -> str:
    found = value.get(key, "")
    if not isinstance(found, str):
        raise BadRecord(f"its {key} is not text")
    return found[:max_chars]


def _number(value: dict[str, Any], key: str) -> int:
    found = value.get(key, 0)
    if not isinstance(found, int) or not 0 <= found <= _MAX:
        raise BadRecord(f"its {key} is not a number")
    return int(found)
