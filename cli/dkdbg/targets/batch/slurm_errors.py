"""What Slurm's programs say when they refuse, and what to do then. The texts are those of Slurm 22.05, from its programs."""

from __future__ import annotations

from dkdbg.errors import DkdbgError
from dkdbg.printable import printable
from dkdbg.targets.batch.job_errors import NO_COMMANDS, explain_by

#: Pattern of a line, what is wrong, and what to do; `{0}` is the pattern's group, `{job}` and `{node}` what was asked for.
#: The first that fits counts.
_KNOWN = (
    (
        r"Slurm job (\S+) has expired|Expired or invalid job",
        "job {job} has ended, or {node} is not one of its nodes",
        "squeue --me there shows your jobs and their nodes",
    ),
    (
        r"Invalid job id",
        "Slurm knows no job {job}: it has ended some time ago, or never was",
        "squeue --me there shows your jobs",
    ),
    (
        r"Unable to create step for job \S+: Requested node configuration is not available",
        "{node} is not a node of job {job}",
        "squeue --me there shows which nodes it has",
    ),
    (
        r"Access/permission denied",
        "job {job} is not yours: Slurm lets you into your own jobs only",
        "squeue --me there shows those",
    ),
    (
        r"(?:Invalid partition name specified|invalid partition specified: (\S+))",
        "there is no such partition",
        "sinfo there lists them: --partition NAME",
    ),
    (
        r"Invalid account or account/partition combination",
        "your account may not use this partition, or has another name",
        "sacctmgr show associations user=$USER there shows yours: --account NAME",
    ),
    (
        r"Memory specification can not be satisfied|Requested node configuration is not available|More processors requested|Node count specification invalid",
        "no node of this partition can ever give what is asked for",
        "sinfo -N -l there shows what they have",
    ),
    (r"(Invalid --\S+ specification.*|unrecognized option '.*'|invalid option.*|Invalid numeric value .*)", "sbatch does not accept this: {0}", "sbatch --help there shows its options"),
    (
        r"Unable to contact slurm controller|Socket timed out|Slurm backup controller in standby|Connection refused",
        "Slurm's controller does not answer",
        "scontrol ping there says the same; ask whoever runs it, or try again",
    ),
    (r"(?:squeue|sbatch|srun|scancel): (?:command )?not found", f"{NO_COMMANDS} Slurm there", "name the login node: slurm://LOGIN/JOB"),
    (r"[Uu]nrecognized option '--overlap'", "this Slurm is older than 20.11, and has no srun --overlap", "ask for ssh to the nodes of your jobs"),
    (r"pam_slurm_adopt: (.*)", "{node} only lets in users who have a job on it", "is job {job} still running?"),
)  # fmt: skip


def explain(said: str, *, job: str, node: str) -> DkdbgError | None:
    """Return the error for what one of Slurm's programs has said; None when it is not known.

    Args:
        said: its standard error.
        job, node: what was asked for; empty for nothing.
    """
    return explain_by(_KNOWN, said, job=job, node=node)


def no_job(job: str) -> DkdbgError:
    """The error for a job that squeue prints nothing of, such as one of an array that has no such task."""
    return DkdbgError(f"Slurm knows no job {job}", hint="squeue --me there shows your jobs")


def unexplained(said: str, job: str) -> DkdbgError:
    """The error for words that are not known."""
    lines = [printable(line.strip()) for line in said.splitlines() if line.strip()]
    last = lines[-1][-300:] if lines else "it said nothing"
    return DkdbgError(f"Slurm says nothing about job {job}: {last}", hint=f"try there: squeue --jobs={job}")
