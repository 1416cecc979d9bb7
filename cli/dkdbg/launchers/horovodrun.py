"""Horovod (horovod/runner/launch.py)."""

from __future__ import annotations

from dkdbg.launchers.shapes import Spreader


class Horovodrun(Spreader):
    """horovodrun; over Gloo its ranks know themselves by HOROVOD_RANK, over MPI by MPI's variables."""

    names = ("horovodrun",)
    programs = ("horovodrun",)
    modules = ("horovod.runner.launch",)
    runs_commands = True
    value_options = (
        "-np", "--num-proc", "-p", "--ssh-port", "-i", "--ssh-identity-file", "-H", "--hosts", "-hostfile", "--hostfile",
        "--start-timeout", "--output-filename", "--min-np", "--max-np", "--slots-per-host", "--network-interface",
        "--fusion-threshold-mb", "--cycle-time-ms", "--cache-capacity", "--timeline-filename", "--config-file",
    )  # fmt: skip
    count_options = ("-np", "--num-proc")
    ranks = ("HOROVOD_RANK",)
    local_ranks = ("HOROVOD_LOCAL_RANK",)
    world_sizes = ("HOROVOD_SIZE",)


LAUNCHER = Horovodrun()
