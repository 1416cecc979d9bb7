"""Convert the hang map to JSON values, for `--json` and the page. Pure."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from dkdbg.agent.state import deadlines
from dkdbg.hang import text_output
from dkdbg.hang.collectives import Late

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dkdbg.core.stacks import Frame
    from dkdbg.hang.hang_map import Group, Job, Member


def job(found: Job, *, partial: bool = False) -> dict[str, Any]:
    """Return one job as JSON values.

    Args:
        partial: see `text_output.absent`.
    """
    return {
        "heading": text_output.heading(found),
        "sessions": [
            {"id": each.id, "name": each.name, "target": each.target, "address": each.address} for each in found.sessions
        ],
        "deadlines": deadlines.as_json(found.deadlines, time.time()),
        "world_size": found.world_size,
        "absent": list(found.absent),
        "absent_text": text_output.absent(found, partial=partial),
        "findings": [
            {"kind": "late" if isinstance(each, Late) else "mismatch", "text": "\n".join(text_output.finding_lines(each)), **asdict(each)}
            for each in found.findings
        ],
        "ranks": [_group(each, found) for each in found.ranks],
        "others": [_group(each, found) for each in found.others],
    }  # fmt: skip


def _group(group: Group, found: Job) -> dict[str, Any]:
    return {
        "headline": text_output.headline(group, found),
        "ranks": list(group.ranks),
        "frames": _frames(group.frames),
        "more": group.more,
        "why": group.why,
        "processes": [_process(each) for each in group.members],
        "threads": [
            {
                "name": each.name,
                "of": text_output.owners_text(each, group),
                "pids": [member.process.pid for member in each.members],
                "frames": _frames(each.frames),
            }
            for each in group.asides
        ],
    }


def _process(member: Member) -> dict[str, Any]:
    process = member.process
    return {
        "pid": process.pid, "rank": process.rank, "name": process.name, "session": member.session.id, "state": process.state,
        "stopped": process.stopped, "note": process.note, "by": process.by or "itself",
        "collectives": [
            {"group": each.description or each.name, "last": [asdict(one) for one in each.last]}
            for each in process.collectives or ()
        ],
    }  # fmt: skip


def _frames(frames: Sequence[Frame]) -> list[dict[str, Any]]:
    return [asdict(each) for each in frames]
