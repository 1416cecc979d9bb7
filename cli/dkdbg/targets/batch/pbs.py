"""PBS (OpenPBS, PBS Pro, Torque): `pbs://LOGIN/JOB[/NODE]`. Command lines and their answers.

Tested with Torque's commands over Slurm (slurm-wlm-torque), and with recorded answers of OpenPBS 23.06.
"""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

from dkdbg.core.jobs import Job
from dkdbg.core.known_errors import last_line
from dkdbg.errors import EXIT_USAGE, DkdbgError
from dkdbg.printable import printable
from dkdbg.targets.batch.job import NO_COMMANDS, BatchSystem, absolute, an_array, duration, is_node, on_path
from dkdbg.targets.batch.job_target import kind_of
from dkdbg.targets.batch.slurm import SLURM

if TYPE_CHECKING:
    from dkdbg.core.jobs import Phase
    from dkdbg.targets.batch.job import Script

_ATTRIBUTE = re.compile(r"\s+([A-Za-z_]+(?:\.[A-Za-z_]+)?) = (.*)")
#: Phases of the values of job_state (qstat(1B)); all other values are final: C, E, F, X.
_PHASES: dict[str, Phase] = {
    "Q": "waiting", "H": "waiting", "W": "waiting", "T": "waiting", "M": "waiting", "R": "running", "B": "running",
    "S": "held", "U": "held",
}  # fmt: skip
_WORDS = {
    "Q": "queued", "H": "held in the queue", "W": "waiting for its time", "T": "being moved", "R": "running",
    "S": "suspended", "E": "exiting", "C": "completed", "F": "finished", "X": "finished",
}  # fmt: skip
_PATH = on_path("qstat")
#: Script that prints number and name of this user's jobs that have not ended.
_JOBS = (
    """qstat -f | awk -v me="$(id -un)" '/^Job Id:/ {id = $NF} / Job_Name = |\\tJob_Name = / {name = $NF} """
    """/Job_Owner = / {split($NF, who, "@")} /job_state = / {if (who[1] == me && $NF !~ /^[CEFX]$/) print id, name}'"""
)

#: Error messages: seen with Torque's commands over Slurm, or recorded from OpenPBS 23.06.
_KNOWN = (
    (
        r"node\(s\) specification error",
        "qsub rejects these nodes: OpenPBS does not support :gpus=",
        "OpenPBS: -l select=1:ncpus=2:ngpus=1:host=node4; Torque: -l nodes=node4:ppn=2:gpus=1",
    ),
    (r"Unknown Job I[dD] (\S+)", "PBS has no job {job}: it ended some time ago, or never existed", "qstat -u $USER on the login node lists your jobs"),
    (
        r"(?:qstat|qsub|qdel|awk): (?:command )?not found",
        f"{NO_COMMANDS} PBS in PATH",
        "name the login node: pbs://LOGIN/JOB",
    ),
    (r"(Invalid time limit specified \(.*\)|Unknown option: \S+|illegally formed.*|usage: qsub.*)", "qsub does not accept this: {0}", "man qsub on the login node shows its options"),
    (r"Permission denied|Host key verification failed", "{node} refuses ssh from the login node", "PBS has no other way into a running job: ask the administrator for ssh to the nodes of your jobs"),
)  # fmt: skip


class Pbs(BatchSystem):
    """PBS's scripts and command lines, as `BatchSystem` describes them.

    There is no `step`: a command in a running job is started by ssh.
    """

    name, scheme, template, path = "PBS", "pbs", "templates/jobs/pbs.sh.j2", _PATH
    known = _KNOWN
    #: `12`, `12.server`, or `12[3].server` of an array.
    job_form = re.compile(r"[0-9]{1,12}(\[[0-9]{0,9}\])?(\.[A-Za-z0-9][A-Za-z0-9._-]*)?")

    def show(self, job: str) -> str:
        """Return the script that queries a job with qstat.

        OpenPBS shows ended jobs only with -x, which Torque does not know.
        """
        quoted = shlex.quote(job)
        return f"{_PATH}qstat -f {quoted} || qstat -x -f {quoted} 2>/dev/null"

    def read(self, job: str, code: int, stdout: str, stderr: str) -> Job:
        """Parse the attributes of the first job in the answer. Raises SeveralJobsError for an array that has begun."""
        known = attributes(stdout)
        state = known.get("job_state", "")
        if not state:
            last = last_line(stderr)
            raise self.explain(stderr, job=job, node="") or DkdbgError(
                f"PBS has no job {job}" + (f": {last}" if last else f" (qstat ends with {code})"),
                hint="qstat -u $USER on the login node lists your jobs",
            )
        if state == "B" and (first := re.search(r"\d{1,9}", known.get("array_indices_submitted", ""))):
            raise an_array(job, [job.replace("[]", f"[{first[0]}]")], self.job_form)
        nodes = [each.partition("/")[0] for each in known.get("exec_host", "").split("+")]
        variables = dict(each.partition("=")[::2] for each in known.get("Variable_List", "").split(","))
        folder = known.get("init_work_dir") or variables.get("PBS_O_WORKDIR", "")
        output = known.get("Output_Path", "").rpartition(":")[2]
        return Job(
            id=job, phase=_PHASES.get(state, "ended"), state=printable(_WORDS.get(state, state)),
            user=printable(known.get("Job_Owner", "").partition("@")[0]),
            nodes=tuple(dict.fromkeys(each for each in nodes if is_node(each))), reason=printable(known.get("comment", ""))[:200],
            folder=absolute(folder), tasks=1,
            output=absolute(output),
            succeeded=None if state == "E" else state in "CF",  # C (complete) and F (finished) include failed jobs
            left_s=_left(known),
        )  # fmt: skip

    def over(self, job: str) -> str:
        """Return the script that asks qstat whether a job is over; without an answer it counts as running.

        qstat exits with 153 for an unknown job (PBSE_UNKJOBID, 15001); Torque's command over Slurm prints nothing in
        that case.
        """
        return (
            f"{_PATH}answer=$(qstat -f {shlex.quote(job)} 2>&1); [ $? = 153 ] && exit 0\n"
            'case $answer in *"job_state = "[QHWTRBSU]*) exit 1;; '
            '*"job_state = "*|*"Unknown Job I"*|*"Job has finished"*) exit 0;; esac; exit 1'
        )

    def explain(self, stderr: str, *, job: str, node: str) -> DkdbgError | None:
        """Explain an error message of PBS, or of Slurm where Torque's commands on Slurm quote it."""
        found = super().explain(stderr, job=job, node=node)
        return SLURM.explain(stderr, job=job, node=node) if found is None and "sbatch" in stderr else found

    def submit(self, script: Script) -> tuple[str, ...]:
        """Return the command that submits with qsub.

        qstat lists no scripts, so the job's name is the script's tag, which fits into the 15 characters of a name.

        Raises:
            DkdbgError: the options name the job: without its tag a later submission would remove its script.
        """
        if any(each.startswith("-N") for each in script.options):
            raise DkdbgError(
                "qsub's -N cannot be used: dkdbg recognizes its PBS jobs by the name that it gives them",
                hint="leave out -N",
                exit_code=EXIT_USAGE,
            )
        return ("qsub", "-N", script.tag, *script.options, script.path)

    def submitted(self, stdout: str) -> str:
        """Return the job number, `12.server`."""
        last = stdout.strip().rpartition("\n")[2]
        return last if self.job_form.fullmatch(last) else ""

    def jobs(self) -> str:
        """Return the script that lists jobs, each with its name."""
        return _PATH + _JOBS

    def cancel(self, job: str) -> tuple[str, ...]:
        """Return the command that cancels a job with qdel."""
        return ("qdel", job)


def _left(known: dict[str, str]) -> float | None:
    """Return the seconds until the walltime is used up."""
    limit = duration(known.get("Resource_List.walltime", ""))
    used = duration(known.get("resources_used.walltime", "0:00"))
    return None if limit is None or used is None else limit - used


def attributes(text: str) -> dict[str, str]:
    """Return the attributes of the first job of `qstat -f`; long values continue on the next line, after a tab."""
    found: dict[str, str] = {}
    key = ""
    for line in text.splitlines():
        if line.startswith("Job Id:"):
            if found:
                break
            continue
        match = _ATTRIBUTE.fullmatch(line)
        if match:
            key = match[1]
            found[key] = match[2]
        elif key and line.startswith("\t"):
            found[key] += line[1:]
    return found


PBS = Pbs()
KIND = kind_of(PBS)
