"""A fake of IBM Spectrum LSF 10.1: bsub, bjobs, bkill, and the ssh that leads to a host of it, which is this machine.

It answers in the formats that IBM documents, and starts the command of a job as a process. Its jobs are files of the
folder `FAKE_LSF`; where that has a file `closed`, hosts let nobody in by ssh. Run by a link with the program's name.
"""

import contextlib
import getpass
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

FOLDER = Path(os.environ["FAKE_LSF"])
#: A job's hosts: three slots on two.
EXEC_HOST, HOSTS, MCPU_HOSTS = "2*hosta:hostb", "hosta hosta hostb", "hosta 2 hostb 1"
UNFINISHED = {"PEND", "PSUSP", "RUN", "USUSP", "SSUSP"}
#: Options of bsub with a value, of those that tests type.
VALUED = {"-J", "-o", "-oo", "-q", "-n", "-R", "-m", "-W", "-P", "-gpu"}


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")


def fail(text: str) -> NoReturn:
    sys.stderr.write(f"{text}\n")
    sys.exit(255)


def path(job: str) -> Path:
    return FOLDER / f"{job}.json"


def read(job: str) -> dict[str, Any]:
    return json.loads(path(job).read_text())


def write(job: dict[str, Any], **changed: object) -> None:
    new = path(job["jobid"]).with_suffix(".new")
    new.write_text(json.dumps({**job, **changed}))
    new.replace(path(job["jobid"]))


def bsub(words: list[str]) -> None:
    options: dict[str, str] = {}
    while words and words[0].startswith("-"):
        option = words.pop(0)
        if option not in {*VALUED, "-H", "-x"}:
            fail(f"Illegal option: {option}. Job not submitted.")
        options[option] = words.pop(0) if option in VALUED else ""
    if options.get("-q", "normal") != "normal":
        fail(f"{options['-q']}: No such queue. Job not submitted.")
    number = str(7 + len([*FOLDER.glob("*.json")]))
    job = {
        "jobid": number, "jobindex": "0", "stat": "PSUSP" if "-H" in options else "PEND", "user": getpass.getuser(),
        "job_name": options.get("-J", ""), "command": " ".join(words), "sub_cwd": str(Path.cwd()),
        "output_file": options.get("-o", ""), "pend_reason": "New job is waiting for scheduling;",
    }  # fmt: skip
    write(job)
    if "-H" not in options:
        subprocess.Popen(
            [sys.executable, __file__, "--run", number], start_new_session=True, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
    where = f"queue <{options['-q']}>" if "-q" in options else "default queue <normal>"
    say(f"Job <{number}> is submitted to {where}.")


def run(number: str) -> None:
    """What sbatchd does: the job's command, in the folder that it was submitted from, until it ends."""
    job = read(number)
    output = Path(job["sub_cwd"], job["output_file"].replace("%J", number))
    variables = {"LSB_JOBID": number, "LSB_JOBINDEX": "0", "LSB_HOSTS": HOSTS, "LSB_MCPU_HOSTS": MCPU_HOSTS}
    with output.open("a") as stream:
        started = subprocess.Popen(
            ["sh", "-c", job["command"]], cwd=job["sub_cwd"], env={**os.environ, **variables}, stdout=stream,
            stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        job |= {"stat": "RUN", "exec_host": EXEC_HOST, "exec_cwd": job["sub_cwd"], "pgid": started.pid}
        write(job)
        code = started.wait()
    job = read(number)
    write(job, stat="EXIT" if code else "DONE", exit_code=str(code % 256) if code else "")


def bjobs(words: list[str]) -> None:
    fields: list[str] = []
    asked = ""
    while words:
        word = words.pop(0)
        if word == "-o":
            fields = words.pop(0).split()
        elif word[0] != "-":
            asked = word
    in_json = "-json" in sys.argv
    if asked:
        if not path(asked).exists():
            error = f"Job <{asked}> is not found"
            if in_json:
                say(
                    json.dumps({"COMMAND": "bjobs", "JOBS": 1, "RECORDS": [{"JOBID": asked, "ERROR": error}]})
                )
                sys.exit(255)
            fail(error)
        found = [read(asked)]
    else:
        known = [json.loads(each.read_text()) for each in FOLDER.glob("*.json")]
        found = [each for each in known if each["stat"] in UNFINISHED]
        if not found:
            fail("No unfinished job found")
    if in_json:
        records = [{field.upper(): job.get(field, "") for field in fields} for job in found]
        say(json.dumps({"COMMAND": "bjobs", "JOBS": len(records), "RECORDS": records}, indent=2))
        return
    if "-noheader" not in sys.argv:
        say(" ".join(fields).upper())
    for job in found:
        say(" ".join(job.get(field) or "-" for field in fields))


def bkill(words: list[str]) -> None:
    [asked] = words
    if not path(asked).exists():
        fail(f"Job <{asked}>: No matching job found")
    job = read(asked)
    if job["user"] != getpass.getuser():
        fail(f"Job <{asked}>: User permission denied")
    if job["stat"] not in UNFINISHED:
        fail(f"Job <{asked}>: Job has already finished")
    if job["stat"] == "RUN":
        write(job, exit_reason="TERM_OWNER: job killed by owner")
        with contextlib.suppress(ProcessLookupError):  # it has ended at the first one
            for number in (signal.SIGINT, signal.SIGTERM):
                os.killpg(job["pgid"], number)
                time.sleep(0.1)
    else:
        write(job, stat="EXIT", exit_reason="TERM_OWNER: job killed by owner")
    say(f"Job <{asked}> is being terminated")


def ssh(words: list[str]) -> NoReturn:
    host, *command = words[words.index("--") + 1 :]
    if host not in HOSTS.split() or (FOLDER / "closed").exists():
        fail(f"me@{host}: Permission denied (publickey).")
    if host != HOSTS.split(maxsplit=1)[0]:  # where no session runs
        os.environ["DKDBG_RUNTIME_DIR"] = str(FOLDER / host)
    os.execvp("sh", ["sh", "-c", " ".join(command)])


if __name__ == "__main__":
    if sys.argv[1:2] == ["--run"]:
        run(sys.argv[2])
    else:
        {"bsub": bsub, "bjobs": bjobs, "bkill": bkill, "ssh": ssh}[Path(sys.argv[0]).name](sys.argv[1:])
