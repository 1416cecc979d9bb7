"""Slurm: srun runs the command behind it once a task."""

from __future__ import annotations

from dkdbg.launchers.launcher import Launcher


class Srun(Launcher):
    """srun; the person thinks of the command behind it, so that is what is shown."""

    names = ("srun",)
    programs = ("srun",)
    wraps = True
    value_options = (
        "-n", "--ntasks", "-N", "--nodes", "-p", "--partition", "-c", "--cpus-per-task", "-A", "--account", "-J", "--job-name",
        "-t", "--time", "-w", "--nodelist", "-x", "--exclude", "-o", "--output", "-e", "--error", "-i", "--input", "-D",
        "--chdir", "-G", "--gpus", "-C", "--constraint", "-q", "--qos", "-d", "--dependency", "-m", "--distribution",
        "--gres", "--mem", "--ntasks-per-node", "--gpus-per-node", "--gpus-per-task", "--cpu-bind", "--gpu-bind",
        "--jobid", "--mpi", "--export", "--container-image", "--container-mounts", "--container-workdir", "--reservation",
        "-u", "-g",
    )  # fmt: skip
    ranks = ("SLURM_PROCID",)
    local_ranks = ("SLURM_LOCALID",)
    world_sizes = ("SLURM_NTASKS",)
    nodes = ("SLURM_STEP_NUM_NODES", "SLURM_NNODES")


LAUNCHER = Srun()
