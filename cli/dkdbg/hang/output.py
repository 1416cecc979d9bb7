"""Format the hang map as text for a terminal and as JSON. Escapes control characters from the processes. Pure."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from dkdbg.agent.inprocess.ranks import spans
from dkdbg.agent.state import deadlines
from dkdbg.core.sessions import age
from dkdbg.hang.collectives import Late
from dkdbg.printable import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dkdbg.core.stacks import Frame
    from dkdbg.hang.collectives import Mismatch
    from dkdbg.hang.hang_map import Aside, Group, Job, Member, Staleness

#: Maximum frames to show of a thread; maximum other threads to show of a group.
_MAX_FRAMES, _MAX_ASIDES = 12, 8
#: Outermost frames of every thread, left out of the text.
_THREAD_START = (
    "Thread._bootstrap",
    "Thread._bootstrap_inner",
    "Thread.run",
    "_bootstrap",
    "_bootstrap_inner",
)
#: Folders of installed packages; below them a file's path is that of its module.
_LIBRARY_FOLDERS = ("/site-packages/", "/dist-packages/", "/lib/python")


def lines(job: Job, staleness: Staleness | None = None, *, partial: bool = False) -> list[str]:
    """Return a job as lines of text.

    Args:
        staleness: how long each group's stacks have been the same; None unless watching.
        partial: see `absent`.
    """
    common = _common(job)
    found = [heading(job), ""]
    if going := deadlines.line(job.deadlines, time.time()):
        found += [going, ""]
    if job.absent:
        found += [absent(job, partial=partial), ""]
    for finding in job.findings:
        found += [*finding_lines(finding), ""]
    for each in job.ranks:
        found += _group(each, job, common, staleness)
    if job.others and job.ranks:
        found += ["other processes", ""]
    for each in job.others:
        found += _group(each, job, common, staleness)
    return found[:-1]


def heading(job: Job) -> str:
    """Return a heading with the job's sessions and the number of its ranks."""
    where = ", ".join(dict.fromkeys(f"{each.name} ({each.target})" for each in job.sessions))
    present = sum(len(each.ranks) for each in job.ranks)
    others = sum(len(each.members) for each in job.others)
    count = []
    if present or job.world_size:
        count.append(
            f"{present} of {job.world_size} ranks" if job.world_size > present else _count(present, "rank")
        )
    if others or not present:
        count.append(_count(others, "other process" if present else "process", "es"))
    return f"{printable(where)}: {', '.join(count)}"


def absent(job: Job, *, partial: bool = False) -> str:
    """Return a sentence about the absent ranks; empty if no rank is absent.

    Args:
        partial: whether some targets could not be queried; the absent ranks may be there.
    """
    if not job.absent:
        return ""
    why = (
        "ended, never started, or on a target that cannot be queried"
        if partial
        else "ended, or never started"
    )
    return f"{ranks(job.absent)} {'is' if len(job.absent) == 1 else 'are'} missing: {why}"


def headline(group: Group, job: Job) -> str:
    """Describe a group and where it is: `3 ranks (0, 1, 3) in all_reduce, from step at train.py:41`."""
    members = _members(group, job)
    return f"{members} {_spot(group.frames)}" if group.frames else f"{members}: {printable(group.why)}"


def finding_lines(finding: Late | Mismatch) -> list[str]:
    """Return the lines that describe late ranks or a mismatch."""
    if isinstance(finding, Late):
        late, waiting = ranks(finding.late), ranks(finding.waiting)
        verb = "has" if len(finding.late) == 1 else "have"
        what = f"{printable(finding.op)} #{finding.seq} {printable(finding.group)}"
        return [f"{late} {verb} not reached {what}: {waiting} arrived {_ago(finding.age)}"]
    found = [
        f"collective #{finding.seq} {printable(finding.group)} differs between ranks ({_ago(finding.age)}):"
    ]
    return found + [f"    {ranks(callers)}: {printable(call)}" for call, callers in finding.calls]


def _ago(seconds: float) -> str:
    return f"{age(seconds)} ago"


def _members(group: Group, job: Job) -> str:
    """Format a group's ranks; for processes without a rank, their names."""
    if group.ranks:
        name = ranks(group.ranks)
        return name if len(group.ranks) == 1 else f"{len(group.ranks)} ranks ({name.removeprefix('ranks ')})"
    names = [each.process.name or "python" for each in group.members]
    shown = ", ".join(
        f"{name} ({each.process.pid})" for name, each in zip(names[:4], group.members, strict=False)
    )
    more = f" and {len(names) - 4} more" if names[4:] else ""
    where = {each.session.target for each in group.members}
    at = f" on {', '.join(sorted(where))}" if len(job.sessions) > 1 and len(where) <= 2 else ""
    return printable(shown + more + at)


def short(path: str) -> str:
    """Return a path without the Python installation's folder."""
    for folder in _LIBRARY_FOLDERS[:2]:
        if folder in path:
            return path.rpartition(folder)[2]
    if _LIBRARY_FOLDERS[2] in path:
        return path.rpartition(_LIBRARY_FOLDERS[2])[2].partition("/")[2] or path
    return path


def _spot(frames: Sequence[Frame]) -> str:
    inner = frames[0]
    own = next((each for each in frames if each.own), inner)
    at = f"{printable(own.function)} at {printable(own.path.rpartition('/')[2])}:{own.line}"
    return f"in {at}" if own is inner else f"in {printable(inner.function)}, from {at}"


def _common(job: Job) -> set[tuple[str, tuple[Frame, ...]]]:
    """Return the threads with the same stack in all ranks, by name and frames; they are shown without frames."""
    ranks = [set(each.ranks) for each in job.ranks]
    everybody = set().union(*ranks)
    found: dict[tuple[str, tuple[Frame, ...]], set[int | None]] = {}
    for group in job.ranks:
        for aside in group.asides:
            found.setdefault((aside.name, aside.frames), set()).update(
                each.process.rank for each in aside.members
            )
    return {key for key, present in found.items() if len(everybody) > 1 and present == everybody}


def _group(
    group: Group, job: Job, common: set[tuple[str, tuple[Frame, ...]]], staleness: Staleness | None
) -> list[str]:
    found = [
        headline(group, job) + (f", for {age(staleness.seconds(group))}" if staleness is not None else "")
    ]
    held = sorted({each.process.stopped for each in group.members if each.process.stopped})
    if held:
        found.append(
            f"    a debugger has stopped {'it' if len(group.members) == 1 else 'some of them'}: {printable(held[0])}"
        )
    found += _stack(group.frames, group.more, "    ")
    for aside in group.asides[:_MAX_ASIDES]:
        found += _aside(aside, group, is_common=(aside.name, aside.frames) in common)
    if group.asides[_MAX_ASIDES:]:
        found.append(f"  and {_count(len(group.asides) - _MAX_ASIDES, 'other thread')} (--json shows all)")
    notes = {each.process.note for each in group.members if each.process.note}
    return [*found, *(f"  {printable(each)}" for each in sorted(notes)), ""]


def owners_text(aside: Aside, group: Group) -> str:
    """Name the members of a group that have these threads; return "" if all members have them."""
    if len(aside.members) == len(group.members):
        return ""
    return (
        ranks(aside.ranks) if aside.ranks else ", ".join(str(each.process.pid) for each in aside.members[:4])
    )


def _aside(aside: Aside, group: Group, *, is_common: bool) -> list[str]:
    of = owners_text(aside, group)
    spot = _spot(aside.frames) if aside.frames else "in C code"
    found = [f"  thread {printable(aside.name) or 'without a name'}{of and f' of {of}'} {spot}"]
    return found if is_common else found + _stack(aside.frames, 0, "      ")


def _stack(frames: Sequence[Frame], more: int, indent: str) -> list[str]:
    while len(frames) > 1 and frames[-1].function in _THREAD_START and not frames[-1].own:
        frames = frames[:-1]
    shown = frames[:_MAX_FRAMES]
    width = max((len(printable(each.function)) for each in shown), default=0)
    found = [
        f"{indent}{printable(each.function).ljust(min(width, 40))}  {printable(short(each.path))}:{each.line}"
        for each in shown
    ]
    left = len(frames) - len(shown) + more
    return [*found, f"{indent}... {left} more"] if left else found


def ranks(numbers: Sequence[int]) -> str:
    """Format ranks: `rank 2`, `ranks 0-3, 7`."""
    found = spans(numbers)
    shown = ", ".join(str(a) if a == b else f"{a}{'-' if b - a > 1 else ', '}{b}" for a, b in found[:12])
    shown += ", ..." if found[12:] else ""
    return f"rank{'s' if len(numbers) > 1 else ''} {shown}"


def _count(number: int, one: str, ending: str = "s") -> str:
    return f"{number} {one}{'' if number == 1 else ending}"


def as_json(found: Job, *, partial: bool = False) -> dict[str, Any]:
    """Return one job as JSON values, for `--json` and the page.

    Args:
        partial: see `absent`.
    """
    return {
        "heading": heading(found),
        "sessions": [
            {"id": each.id, "name": each.name, "target": each.target, "address": each.address} for each in found.sessions
        ],
        "deadlines": deadlines.as_json(found.deadlines, time.time()),
        "world_size": found.world_size,
        "absent": list(found.absent),
        "absent_text": absent(found, partial=partial),
        "findings": [
            {"kind": "late" if isinstance(each, Late) else "mismatch", "text": "\n".join(finding_lines(each)), **asdict(each)}
            for each in found.findings
        ],
        "ranks": [_group_json(each, found) for each in found.ranks],
        "others": [_group_json(each, found) for each in found.others],
    }  # fmt: skip


def _group_json(group: Group, found: Job) -> dict[str, Any]:
    return {
        "headline": headline(group, found),
        "ranks": list(group.ranks),
        "frames": _frames_json(group.frames),
        "more": group.more,
        "why": group.why,
        "processes": [_process_json(each) for each in group.members],
        "threads": [
            {
                "name": each.name,
                "of": owners_text(each, group),
                "pids": [member.process.pid for member in each.members],
                "frames": _frames_json(each.frames),
            }
            for each in group.asides
        ],
    }


def _process_json(member: Member) -> dict[str, Any]:
    process = member.process
    return {
        "pid": process.pid, "rank": process.rank, "name": process.name, "session": member.session.id, "state": process.state,
        "stopped": process.stopped, "note": process.note, "by": process.by or "itself",
        "collectives": [
            {"group": each.description or each.name, "last": [asdict(one) for one in each.last]}
            for each in process.collectives or ()
        ],
    }  # fmt: skip


def _frames_json(frames: Sequence[Frame]) -> list[dict[str, Any]]:
    return [asdict(each) for each in frames]
