"""Which job of a batch system this process is in, by what the system has put into its environment. Pure."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List, Mapping


def jobs(environ: Mapping[str, str]) -> List[str]:
    """Return the names that its job goes by; none outside of one, and none where it was reached by ssh.

    Source: sbatch(1), OUTPUT ENVIRONMENT VARIABLES; PBS Professional's qsub(1B), ENVIRONMENT VARIABLES.
    """

    def of(name: str) -> str:
        return environ.get(name, "")

    found = [of("SLURM_JOB_ID"), of("SLURM_ARRAY_JOB_ID"), of("SLURM_HET_JOB_ID"), of("PBS_JOBID")]
    if found[1] and of("SLURM_ARRAY_TASK_ID"):
        found.append("%s_%s" % (found[1], of("SLURM_ARRAY_TASK_ID")))
    if found[2] and of("SLURM_HET_JOB_OFFSET"):
        found.append("%s+%s" % (found[2], of("SLURM_HET_JOB_OFFSET")))
    number = found[3].partition(".")[0]
    found += [number, number.partition("[")[0] + "[]" if "[" in number else ""]
    return sorted({each[:100] for each in found if each})
