"""One job's ranks on two nodes of a real Slurm, each with an agent of its own: attached to late, they are one job."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from tests.engine.host_doors import host_door
from tests.one_job import FILES, stop_and_go_together
from tests.slurm.cluster import NODES
from tests.slurm.test_place import CODE, running

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("slurm")]


def test_ranks_on_two_nodes_attached_to_late_stop_at_one_iteration_and_go_on_by_one_key(laptop, tmp_path):
    for name, text in FILES.items():
        laptop.put(f"{CODE}/{name}", text)
        (tmp_path / name).write_text(text)
    target = f"slurm://login/{laptop.job(nodes=2, options=f'-D {CODE}')}"
    with ExitStack() as stack:
        programs = []
        for number, node in enumerate(NODES):
            words = ("--on", f"{target}/{node}", "--", "python3", "launcher.py", str(number), NODES[0])
            programs.append(stack.enter_context(running(tmp_path, *words)))
        stack.callback(laptop.put, f"{CODE}/stop", "")

        def all_run() -> bool:
            for each in programs:
                assert each.poll() is None, each.communicate()
            return len(laptop.sh("login", f"ls {CODE}/up? 2>/dev/null", check=False).split()) == 4

        laptop.until(all_run)
        door = stack.enter_context(host_door(tmp_path, target))
        names = [f"rank {rank} (local {rank % 2}) on {NODES[rank // 2]}" for rank in range(4)]
        stop_and_go_together(door.port, tmp_path, CODE, names)
        assert door.end() == 0
