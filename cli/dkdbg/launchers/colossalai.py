"""Colossal-AI (colossalai/cli/launcher): `colossalai run`; its ranks have the variables of torchrun."""

from __future__ import annotations

from dkdbg.launchers.shapes import Spreader


class ColossalAI(Spreader):
    """colossalai run."""

    names = ("colossalai",)
    programs = ("colossalai",)
    value_options = (
        "-H", "--host", "--hostfile", "--include", "--exclude", "--nproc_per_node", "--num_nodes", "--master_addr",
        "--master_port", "--extra_launch_args", "--ssh-port",
    )  # fmt: skip
    count_options = ("--nproc_per_node",)


LAUNCHER = ColossalAI()
