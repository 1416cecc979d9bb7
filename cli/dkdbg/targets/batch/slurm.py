"""Slurm: `slurm://LOGIN/JOB[/NODE]`. Command lines and their answers, written for 20.11 to 24.11, tested with 22.05."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from dkdbg.core.jobs import Job
from dkdbg.core.known_errors import last_line
from dkdbg.errors import DkdbgError
from dkdbg.printable import printable
from dkdbg.targets.batch.job import NO_COMMANDS, BatchSystem, absolute, an_array, duration, is_node, on_path
from dkdbg.targets.batch.job_target import kind_of

if TYPE_CHECKING:
    from dkdbg.core.jobs import Phase
    from dkdbg.targets.batch.job import Script

#: Fields of squeue; the working directory, which may contain any text, is last.
_FIELDS = "%i|%T|%u|%B|%L|%r|%Z"
_TASKS, _OUTPUT, _NODES = "tasks ", "output ", "nodes "
#: States of squeue (squeue(1), JOB STATE CODES); all others are final.
_WAITING = {
    "PENDING",
    "CONFIGURING",
    "REQUEUED",
    "REQUEUE_HOLD",
    "REQUEUE_FED",
    "SPECIAL_EXIT",
    "RESV_DEL_HOLD",
}
_RUNNING = {"RUNNING", "STAGE_OUT", "SIGNALING", "RESIZING"}
_HELD = {"SUSPENDED", "STOPPED"}
_PATH = on_path("squeue")

#: Error messages, as the programs of Slurm 22.05 contain them.
_KNOWN = (
    (
        r"Slurm job (\S+) has expired|Expired or invalid job",
        "job {job} has ended, or {node} is not one of its nodes",
        "squeue --me on the login node lists your jobs and their nodes",
    ),
    (
        r"Invalid job id",
        "Slurm has no job {job}: it ended some time ago, or never existed",
        "squeue --me on the login node lists your jobs; the output of an ended one is in slurm-{job}.out where it was submitted, unless --output was given",
    ),
    (
        r"Unable to create step for job \S+: Requested node configuration is not available",
        "{node} is not a node of job {job}",
        "squeue --me on the login node shows which nodes it has",
    ),
    (
        r"Access/permission denied",
        "job {job} is not yours: Slurm lets you into your own jobs only",
        "squeue --me on the login node lists those",
    ),
    (
        r"(?:Invalid partition name specified|invalid partition specified: (\S+))",
        "there is no such partition",
        "sinfo on the login node lists them: --partition NAME",
    ),
    (
        r"Invalid account or account/partition combination",
        "your Slurm account does not exist, or may not use this partition",
        "sacctmgr show associations user=$USER on the login node lists yours: --account NAME",
    ),
    (
        r"Memory specification can not be satisfied|Requested node configuration is not available|More processors requested|Node count specification invalid",
        "no node of this partition can ever satisfy the request",
        "sinfo -N -l on the login node shows what the nodes have",
    ),
    (r"(Invalid --\S+ specification.*|unrecognized option '.*'|invalid option.*|Invalid numeric value .*)", "sbatch does not accept this: {0}", "sbatch --help on the login node shows its options"),
    (
        r"Unable to contact slurm controller|Socket timed out|Slurm backup controller in standby|(?m:^(?!ssh: |channel \d+: ).*Connection refused)",
        "Slurm's controller does not answer",
        "try again, or ask the administrator; scontrol ping on the login node reports the same",
    ),
    (r"(?:squeue|sbatch|srun|scancel): (?:command )?not found", f"{NO_COMMANDS} Slurm in PATH", "name the login node: slurm://LOGIN/JOB"),
    (r"[Uu]nrecognized option '--overlap'", "this Slurm is older than 20.11, and has no srun --overlap", "ask the administrator for ssh to the nodes of your jobs"),
    (r"pam_slurm_adopt: (.*)", "{node} only lets in users who have a job on it", "is job {job} still running?"),
)  # fmt: skip


class Slurm(BatchSystem):
    """Slurm's scripts and command lines, as `BatchSystem` describes them."""

    name, scheme, template, path = "Slurm", "slurm", "templates/jobs/slurm.sh.j2", _PATH
    known = _KNOWN
    #: `7`, `7_3` of an array, or `7+1` of a heterogeneous job.
    job_form = re.compile(r"[0-9]{1,12}(_[0-9]{1,9})?(\+[0-9]{1,6})?")

    def show(self, job: str) -> str:
        """Return the script that queries a job with squeue.

        squeue knows a job for some minutes after its end (MinJobAge).
        """
        one = f"squeue --noheader --states=all --jobs={job}"
        more = f"echo {_TASKS}$({one} --Format=NumTasks); echo {_OUTPUT}$(scontrol show job -o {job} | sed -n 's/.* StdOut=//p')"
        # Even for one part of a heterogeneous job, squeue lists all parts.
        nodes = f"{one} --format='%i %N' | sed -n 's/^{job} //p'" if "+" in job else f"{one} --format=%N"
        more += f'; echo {_NODES}$(scontrol show hostnames "$({nodes})" 2>/dev/null)'
        return f"{_PATH}{one} --format='{_FIELDS}' && {{ {more}; }}"

    def read(self, job: str, code: int, stdout: str, stderr: str) -> Job:
        """Parse the lines, one for each job of an array."""
        rows = [line for line in stdout.splitlines() if line.count("|") >= 6]
        if code:
            raise self.explain(stderr, job=job, node="") or DkdbgError(
                f"Slurm reports nothing about job {job}: {last_line(stderr) or 'no output'}",
                hint=f"try on the login node: squeue --jobs={job}",
            )
        if not rows:
            # for example, the array has no such task
            raise DkdbgError(f"Slurm has no job {job}", hint="squeue --me on the login node lists your jobs")
        found = [each for each in rows if each.partition("|")[0] == job] or rows
        if len(found) > 1:
            raise an_array(job, [each.partition("|")[0] for each in found], self.job_form)
        id_, state, user, batch_host, left, reason, folder = found[0].split("|", 6)
        tasks = re.search(rf"^{_TASKS}\s*(\d{{1,9}})\b", stdout, re.MULTILINE)
        output = re.search(rf"^{_OUTPUT}(/\S+)", stdout, re.MULTILINE)
        nodes = re.search(rf"^{_NODES}(.*)", stdout, re.MULTILINE)
        names = nodes[1].split() if nodes else []
        return Job(
            id=printable(id_), phase=_phase(state), state=printable(state), user=printable(user),
            nodes=tuple(sorted(filter(is_node, names), key=lambda each: each != batch_host)), reason="" if reason == "None" else printable(reason),
            folder=absolute(folder), tasks=int(tasks[1]) if tasks else 0,
            output=output[1] if output else "", succeeded=None if state == "COMPLETING" else state == "COMPLETED",
            left_s=duration(left),
        )  # fmt: skip

    def over(self, job: str) -> str:
        """Return the script that asks squeue whether a job is over; without an answer it counts as running."""
        still = "|".join(f"*{each}*" for each in sorted(_RUNNING | _HELD))
        return (
            f"{_PATH}answer=$(squeue --noheader --states=all --jobs={job} --format=%T 2>&1) && "
            f'case $answer in ""|{still}) exit 1;; *) exit 0;; esac\n'
            'case $answer in *"Invalid job id"*) exit 0;; esac; exit 1'
        )

    def step(self, job: str, node: str, *, tty: bool) -> tuple[str, ...]:
        """Return `srun --overlap` with its options.

        The command then runs beside the job's other steps, with all the job's resources on the node.

        Without --unbuffered srun passes only whole lines on, and a protocol would wait for ever.
        """
        streams = ("--pty",) if tty else ("--unbuffered",)
        number, plus, part = job.partition("+")
        component = (f"--het-group={part}",) if plus else ()
        return (
            "srun", "--quiet", "--overlap", f"--jobid={number}", *component, f"--nodelist={node}", "--nodes=1", "--ntasks=1",
            "--mpi=none", "--job-name=dkdbg", *streams,
        )  # fmt: skip

    def submit(self, script: Script) -> tuple[str, ...]:
        """Return the command that submits with sbatch; the user's own options override dkdbg's."""
        return ("sbatch", "--parsable", f"--job-name={script.name}", *script.options, script.path)

    def submitted(self, stdout: str) -> str:
        """Return the job number of `7` or `7;cluster`."""
        last = stdout.strip().rpartition("\n")[2].partition(";")[0]
        return last if self.job_form.fullmatch(last) else ""

    def jobs(self) -> str:
        """Return the script that lists waiting and running jobs, each with its script's path."""
        return _PATH + "squeue --noheader --me --format='%i %o'"

    def cancel(self, job: str) -> tuple[str, ...]:
        """Return the command that cancels a job with scancel."""
        return ("scancel", job)


def _phase(state: str) -> Phase:
    if state in _WAITING:
        return "waiting"
    if state in _RUNNING:
        return "running"
    return "held" if state in _HELD else "ended"


SLURM = Slurm()
KIND = kind_of(SLURM)
