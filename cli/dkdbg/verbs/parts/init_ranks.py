"""`dkdbg init --ranks N`: write a launch entry a rank and a compound, for editors that open no child sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dkdbg.agent.contract import LOOPBACK
from dkdbg.setup.plan import editor
from dkdbg.setup.render.editor_files import launch_port, ranks_files
from dkdbg.verbs.parts.offer import changes_json, next_steps, offer
from dkdbg.verbs.parts.repository import check_root, check_written, make_plan

if TYPE_CHECKING:
    from pathlib import Path


def init_ranks(
    root: Path, count: int, *, port: int | None, yes: bool, diff: bool, check: bool, as_json: bool
) -> int:
    """Plan the entries, their compound and the task that opens their ports, show and write them; return the exit code.

    Args:
        port: local port of rank 0; the next ranks use the next ports. None for 5678, or for the ports after the debug
            service's if that is among them.

    Raises:
        DkdbgError: the repository is not set up, or a file cannot be read or written.
    """
    check_root(root)
    plan, _ = make_plan(root)
    check_written(root, plan.service.compose_file)
    service = launch_port(root) or plan.service.port
    base = port or editor.first_rank_port(service, count)
    entries = editor.rank_entries(plan, base, count)
    files = ranks_files(root, entries, editor.ranks_compound(entries), editor.ranks_task(base))
    more = f"other editors: rank r is on {LOOPBACK}:{base} + r while `dkdbg attach --ports {base}` runs"
    return offer(
        root, {**files}, f"F5 attaches to {count} ranks, each by a port of its own from {base} on", yes=yes, diff=diff,
        check=check, next_steps=lambda written: next_steps(editor.RANKS_NAME, written, more),
        as_json=None if not as_json else lambda todo, kept, written: {
            "ranks": count, "port": base, **changes_json(todo, kept, written=written)
        },
    )  # fmt: skip
