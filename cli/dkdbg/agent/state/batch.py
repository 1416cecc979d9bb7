"""Names the batch job that this process runs in, from environment variables. Pure."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List, Mapping

#: Formats of a batch job's names, and the variables to fill in. They are here and not with the batch systems' targets
#: because the agent is delivered without those. Source: sbatch(1), OUTPUT ENVIRONMENT VARIABLES; PBS Professional's
#: qsub(1B), ENVIRONMENT VARIABLES; LSF's Environment variables set for job execution.
_NAMES = (
    ("{}", "SLURM_JOB_ID"),
    ("{}", "SLURM_ARRAY_JOB_ID"),
    ("{}_{}", "SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID"),
    ("{}", "SLURM_HET_JOB_ID"),
    ("{}+{}", "SLURM_HET_JOB_ID", "SLURM_HET_JOB_OFFSET"),
    ("{}", "PBS_JOBID"),
    ("{}", "LSB_JOBID"),
    ("{}[{}]", "LSB_JOBID", "LSB_JOBINDEX"),  # the index is 0 outside of an array: no job has that name
)

#: Variables with the job ids of the components of a Slurm heterogeneous job, the leader's first; each task has all of
#: them. Source: Slurm's heterogeneous_jobs.html, Environment Variables; a job has at most 128 components.
_PARTS = ["SLURM_JOB_ID_HET_GROUP_%d" % offset for offset in range(128)]


def jobs(environ: Mapping[str, str]) -> List[str]:
    """Return all names of the job; empty outside of a job, and in an ssh login to a job's node."""
    found = set()
    for form, *variables in _NAMES:
        values = [environ.get(each, "") for each in variables]
        if all(values):
            name = form.format(*values)
            number = name.partition(".")[0]  # PBS appends its server; an array as a whole is NUMBER[]
            found |= {name, number, number.partition("[")[0] + "[]" if "[" in number else number}
    parts = [environ[each] for each in _PARTS if environ.get(each)]
    found |= {*parts, *("%s+%d" % (parts[0], offset) for offset in range(len(parts)))}
    return sorted(each[:100] for each in found)
