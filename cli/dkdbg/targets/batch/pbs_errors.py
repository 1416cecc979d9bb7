"""What PBS's programs say when they refuse, and what to do then.

Texts of Torque's commands over Slurm (slurm-wlm-torque 22.05) were seen there, those of OpenPBS 23.06 recorded once.
"""

from __future__ import annotations

from dkdbg.errors import DkdbgError
from dkdbg.printable import printable
from dkdbg.targets.batch import slurm_errors
from dkdbg.targets.batch.job_errors import NO_COMMANDS, explain_by

#: As in `slurm_errors`.
_KNOWN = (
    (
        r"node\(s\) specification error",
        "qsub does not take these nodes: OpenPBS knows no :gpus= there",
        "as OpenPBS spells it: -l select=1:ncpus=2:ngpus=1:host=node4; Torque: -l nodes=node4:ppn=2:gpus=1",
    ),
    (r"Unknown Job I[dD] (\S+)", "PBS knows no job {job}: it has ended some time ago, or never was", "qstat -u $USER there shows your jobs"),
    (
        r"(?:qstat|qsub|qdel|awk): (?:command )?not found",
        f"{NO_COMMANDS} PBS there",
        "name the login node: pbs://LOGIN/JOB",
    ),
    (r"(Invalid time limit specified \(.*\)|Unknown option: \S+|illegally formed.*|usage: qsub.*)", "qsub does not accept this: {0}", "man qsub there shows its options"),
    (r"Permission denied|Host key verification failed", "{node} lets nobody in by ssh from there", "PBS has no other way into a running job: ask for ssh to the nodes of your jobs"),
)  # fmt: skip


def explain(said: str, *, job: str, node: str) -> DkdbgError | None:
    """Return the error for what one of PBS's programs has said; None when it is not known.

    Args:
        said: its standard error.
        job, node: what was asked for; empty for nothing.
    """
    found = explain_by(_KNOWN, said, job=job, node=node)
    if found is not None or "sbatch" not in said:
        return found
    # Torque's commands on Slurm quote it.
    return slurm_errors.explain(said, job=job, node=node)


def no_job(job: str, said: str, code: int) -> DkdbgError:
    """The error for a job that qstat tells nothing of."""
    lines = [printable(line.strip()) for line in said.splitlines() if line.strip()]
    why = f": {lines[-1][-300:]}" if lines else f" (qstat ends with {code})"
    return DkdbgError(f"PBS knows no job {job}{why}", hint="qstat -u $USER there shows your jobs")
