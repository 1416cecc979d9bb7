"""Detects the batch job around this process from the environment. Pure."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List, Mapping

#: Names that a batch system gives to a job: the form of each, and the variables in it. They are here and not with the
#: system's target because the agent is delivered without the targets. Source: sbatch(1), OUTPUT ENVIRONMENT VARIABLES;
#: PBS Professional's qsub(1B), ENVIRONMENT VARIABLES; LSF's Environment variables set for job execution.
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

#: Variables with the job ids of a heterogeneous job's parts, its own id first; each task has them all.
#: Source: heterogeneous_jobs.html of Slurm, Environment Variables; a job has 128 parts at most.
_PARTS = ["SLURM_JOB_ID_HET_GROUP_%d" % offset for offset in range(128)]


def jobs(environ: Mapping[str, str]) -> List[str]:
    """Return the job's names; empty outside of a job, and on a node that was reached by ssh."""
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
