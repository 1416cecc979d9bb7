"""MPI: mpirun, mpiexec, orterun (Open MPI, MPICH, Intel MPI, MVAPICH)."""

from __future__ import annotations

from dkdbg.launchers.shapes import Spreader


class Mpirun(Spreader):
    """mpirun; whole command lines stand behind its options."""

    names = ("mpirun", "mpiexec")
    programs = ("mpirun", "mpiexec", "orterun", "mpiexec.hydra")
    runs_commands = True
    value_options = (
        "-n", "-np", "--np", "-c", "-N", "-npernode", "--npernode", "-ppn", "-H", "-host", "--host", "-hosts", "-hostfile",
        "--hostfile", "-machinefile", "--machinefile", "-f", "-x", "-wdir", "--wdir", "-wd", "-bind-to", "--bind-to",
        "-map-by", "--map-by", "-rank-by", "--rank-by", "-genvlist", "-envlist", "-prefix", "--prefix", "-output-filename",
        "--output-filename", "-path", "--path", "-pernode", "-rf", "--rankfile",
    )  # fmt: skip
    count_options = ("-np", "-n", "--np", "-c")
    gpu = "always"
    ranks = ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "MV2_COMM_WORLD_RANK")
    local_ranks = ("OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "MV2_COMM_WORLD_LOCAL_RANK")
    local_sizes = ("OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "MV2_COMM_WORLD_LOCAL_SIZE")
    world_sizes = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE")


LAUNCHER = Mpirun()
