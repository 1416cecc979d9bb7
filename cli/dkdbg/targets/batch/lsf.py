"""IBM Spectrum LSF: `lsf://LOGIN/JOB[/NODE]`. Command lines and their answers follow the documentation of 10.1.

No LSF was available: the tests run a fake that answers in the documented formats (tests/lsf/fake_lsf.py).
"""

from __future__ import annotations

import json
import posixpath
import re
import shlex
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

_PATH = on_path("bjobs")
#: Fields of `bjobs -o ... -json`, which needs 10.1.0.2; the keys of a record are the fields' names in capitals.
_FIELDS = "jobid jobindex stat user exec_host exec_cwd sub_cwd output_file pend_reason exit_reason exit_code time_left"
#: Phases of the STAT values of bjobs(1); all other values are final: DONE, EXIT, ZOMBI.
_PHASES: dict[str, Phase] = {
    "PEND": "waiting", "PSUSP": "waiting", "WAIT": "waiting", "PROV": "waiting", "RUN": "running",
    "USUSP": "held", "SSUSP": "held", "UNKWN": "held",
}  # fmt: skip
#: bjobs fails if there are no jobs. `command` contains the path of the script.
_JOBS = """\
answer=$(bjobs -noheader -o 'jobid command' 2>&1); code=$?
case $answer in (*'No unfinished job found'*) exit 0;; esac
[ $code = 0 ] || { printf '%s\\n' "$answer" >&2; exit $code; }
printf '%s\\n' "$answer"
"""
#: Error messages of LSF 10.1.
_KNOWN = (
    (r"Job <[^>]*> is not found|No matching job found", "LSF has no job {job}: it ended some time ago, or never existed", "bjobs -a on the login node lists your jobs"),
    (r"User permission denied", "job {job} is not yours", "bjobs on the login node lists yours"),
    (r"Job has already finished", "job {job} has ended", "bjobs -a on the login node lists your jobs"),
    (r"No such queue", "there is no such queue", "bqueues on the login node lists them: -q NAME"),
    (r"(.*\S)\. Job not submitted|([Ii]llegal option.*)", "bsub does not accept this: {0}{1}", "bsub -h on the login node shows its options"),
    (
        r"LSF is down|LIM is down|daemon not responding|Cannot connect to LSF|Failed in an LSF library call",
        "LSF does not answer",
        "try again, or ask the administrator; lsid on the login node reports the same",
    ),
    (r"(?:bjobs|bsub|bkill): (?:command )?not found", f"{NO_COMMANDS} LSF in PATH", "name the login node: lsf://LOGIN/JOB"),
    (r"Permission denied|Host key verification failed", "{node} refuses ssh from the login node", "LSF has no other way into a running job, because blaunch works only inside the job: ask the administrator for ssh to the hosts of your jobs"),
)  # fmt: skip


class Lsf(BatchSystem):
    """LSF's scripts and command lines, as `BatchSystem` describes them.

    There is no `step`: blaunch works only in the job, lsrun only outside it.
    """

    name, scheme, template, path = "LSF", "lsf", "templates/jobs/lsf.sh.j2", _PATH
    known = _KNOWN
    #: `12`, or `12[3]` of an array.
    job_form = re.compile(r"[0-9]{1,12}(\[[0-9]{1,9}\])?")

    def show(self, job: str) -> str:
        """Return the script that queries a job with bjobs.

        bjobs knows a job for an hour after its end (CLEAN_PERIOD).
        """
        return f"{_PATH}bjobs -o '{_FIELDS}' -json {shlex.quote(job)}"

    def read(self, job: str, code: int, stdout: str, stderr: str) -> Job:
        """Parse the records, one for each job of an array."""
        records = _records(stdout)
        found = {_id(each): each for each in records if each.get("STAT")}
        if not found:
            errors = "\n".join([stderr, *(each.get("ERROR", "") for each in records)])
            raise self.explain(errors, job=job, node="") or DkdbgError(
                f"LSF reports nothing about job {job}: {last_line(errors) or f'bjobs ends with {code}'}",
                hint=f"try on the login node: bjobs -l {job}",
            )
        if len(found) > 1 and job not in found:
            raise an_array(job, [*found], self.job_form)
        id_, record = (job, found[job]) if job in found else next(iter(found.items()))
        state = record["STAT"]
        folder = absolute(record.get("EXEC_CWD", "")) or absolute(record.get("SUB_CWD", ""))
        phase = _PHASES.get(state, "ended")
        status = f"exit code {record['EXIT_CODE']}" if record.get("EXIT_CODE") else ""
        reason = record.get("PEND_REASON", "") if phase == "waiting" else record.get("EXIT_REASON") or status
        number, _, index = id_.rstrip("]").partition("[")
        output = record.get("OUTPUT_FILE", "").replace("%J", number).replace("%I", index or "0")
        return Job(
            id=printable(id_), phase=phase, state=printable(state), user=printable(record.get("USER", "")),
            nodes=_nodes(record.get("EXEC_HOST", "")), reason=printable(reason)[:200], folder=folder, tasks=1,
            output=absolute(posixpath.join(folder, output)) if output else "", succeeded=state == "DONE", left_s=_left(record.get("TIME_LEFT", "")),
        )  # fmt: skip

    def over(self, job: str) -> str:
        """Return the script that asks bjobs whether a job is over; without an answer it counts as running."""
        return (
            f"{_PATH}answer=$(bjobs -noheader -o stat {shlex.quote(job)} 2>&1)\n"
            "case $answer in *RUN*|*SUSP*|*PEND*|*WAIT*|*PROV*|*UNKWN*) exit 1;; "
            '*DONE*|*EXIT*|*ZOMBI*|*"is not found"*) exit 0;; esac; exit 1'
        )

    def submit(self, script: Script) -> tuple[str, ...]:
        """Return the command that submits with bsub.

        Without -o, LSF mails the output. A bracket in a name would create an array.
        """
        output = () if {"-o", "-oo"} & {*script.options} else ("-o", "dkdbg-%J.out")
        name = re.sub(r"[^\w.-]", "_", script.name)
        return ("bsub", "-J", name, *output, *script.options, "sh", script.path)

    def submitted(self, stdout: str) -> str:
        """Return the number in a line `Job <12> is submitted to default queue <normal>.`."""
        found = re.search(r"^Job <(\d{1,12})> is submitted to ", stdout, re.MULTILINE)
        return found[1] if found else ""

    def jobs(self) -> str:
        """Return the script that lists waiting and running jobs, each with its command."""
        return _PATH + _JOBS

    def cancel(self, job: str) -> tuple[str, ...]:
        """Return the command that cancels a job with bkill."""
        return ("bkill", job)


def _records(stdout: str) -> list[dict[str, str]]:
    """Return the records of a JSON answer, none if it is invalid; drop missing values (empty or `-`)."""
    try:
        found = json.loads(stdout[stdout.find("{") :], strict=False)["RECORDS"]
        return [{key: str(value) for key, value in each.items() if value not in ("", "-")} for each in found]
    except (ValueError, KeyError, TypeError, AttributeError):
        return []


def _id(record: dict[str, str]) -> str:
    number, index = record.get("JOBID", ""), record.get("JOBINDEX", "0")
    return number if index in {"", "0"} or "[" in number else f"{number}[{index}]"


def _left(text: str) -> float | None:
    """Return the seconds of TIME_LEFT, such as `1:59 L` (hours, minutes); None for an estimate (`E`)."""
    limit, _, kind = text.partition(" ")
    return duration(f"{limit}:00") if kind in ("L", "X") else None


def _nodes(text: str) -> tuple[str, ...]:
    """Return the hosts of `4*host1:host2`; the first one runs the job's script."""
    names = (each.rpartition("*")[2] for each in text.split(":"))
    return tuple(dict.fromkeys(each for each in names if is_node(each)))


LSF = Lsf()
KIND = kind_of(LSF)
