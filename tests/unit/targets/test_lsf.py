"""What LSF's programs say, in the formats and texts of IBM's documentation of 10.1; no LSF was at hand."""

import json

import pytest

from dkdbg.errors import DkdbgError
from dkdbg.targets.batch.job import Script
from dkdbg.targets.batch.lsf import LSF

RECORD = {
    "JOBID": "12", "JOBINDEX": "0", "STAT": "RUN", "USER": "me", "EXEC_HOST": "4*host1:host2:2*host3", "EXEC_CWD": "/home/me/code",
    "SUB_CWD": "$HOME/code", "OUTPUT_FILE": "dkdbg-%J.out", "PEND_REASON": "", "EXIT_REASON": "", "EXIT_CODE": "",
}  # fmt: skip


def answer(*records):
    return json.dumps({"COMMAND": "bjobs", "JOBS": len(records), "RECORDS": records})


def read(job="12", **changed):
    return LSF.read(job, 0, answer({**RECORD, **changed}), "")


def test_a_running_job_has_its_hosts_its_folder_and_its_output():
    job = read()
    assert (job.id, job.phase, job.user, job.nodes) == ("12", "running", "me", ("host1", "host2", "host3"))
    assert (job.folder, job.output, job.reason) == ("/home/me/code", "/home/me/code/dkdbg-12.out", "")


@pytest.mark.parametrize(("said", "seconds"), [("1:59 L", 7140), ("0:05 X", 300), ("1:59 E", None), ("-", None), ("", None)])  # fmt: skip
def test_a_run_limit_is_told_apart_from_an_estimate(said, seconds):
    assert read(TIME_LEFT=said).left_s == seconds


def test_a_folder_that_bjobs_writes_by_a_variable_is_not_used():
    job = read(STAT="PEND", EXEC_HOST="", EXEC_CWD="", PEND_REASON="New job is waiting for scheduling;")
    assert (job.folder, job.output, job.nodes) == ("", "", ())
    assert job.reason == "New job is waiting for scheduling;"


@pytest.mark.parametrize(("state", "phase"), [("PEND", "waiting"), ("PSUSP", "waiting"), ("USUSP", "held"), ("SSUSP", "held"), ("UNKWN", "held"), ("DONE", "ended"), ("EXIT", "ended"), ("ZOMBI", "ended")])  # fmt: skip
def test_states_are_told_apart(state, phase):
    job = read(STAT=state)
    assert (job.phase, job.succeeded) == (phase, state == "DONE")


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        ({"EXIT_CODE": "3"}, "exit code 3"),
        ({"EXIT_CODE": "130", "EXIT_REASON": "TERM_OWNER: job killed by owner"}, "TERM_OWNER: job killed by owner"),
    ],
)  # fmt: skip
def test_a_failed_job_says_why(record, reason):
    assert read(STAT="EXIT", **record).reason == reason


@pytest.mark.parametrize("host", ["-oProxyCommand=id", "$(id)", "2*a b"])
def test_a_host_with_a_name_that_none_has_is_left_out(host):
    assert read(EXEC_HOST=f"{host}:host2").nodes == ("host2",)


def test_a_job_of_an_array_is_named_with_its_index():
    both = answer({**RECORD, "JOBINDEX": "1"}, {**RECORD, "JOBINDEX": "2", "OUTPUT_FILE": "/o/%J-%I"})
    job = LSF.read("12[2]", 0, both, "")
    assert (job.id, job.output) == ("12[2]", "/o/12-2")
    with pytest.raises(
        DkdbgError, match=r"job 12 is an array; the address matches several of its jobs: 12\[1\], 12\[2\]"
    ):
        LSF.read("12", 0, both, "")


@pytest.mark.parametrize(
    ("said", "complained", "code", "error"),
    [
        (answer({"JOBID": "99", "ERROR": "Job <99> is not found"}), "", 255, "LSF has no job 99"),
        ("", "Job <99> is not found\n", 255, "LSF has no job 99"),
        *((each, "", 1, "LSF reports nothing about job 99") for each in ("", "{", "[]", '{"RECORDS": 1}', '{"RECORDS": ["x"]}')),
    ],
)  # fmt: skip
def test_a_job_that_is_not_there_and_an_answer_that_makes_no_sense_are_errors(said, complained, code, error):
    with pytest.raises(DkdbgError, match=error):
        LSF.read("99", code, said, complained)


def test_a_name_makes_no_array_and_output_of_the_user_s_own_is_kept():
    script = Script(path="/s/job.sh", tag="job-12345678", name="dkdbg-a[1-9].py", options=("-n", "2"))
    assert LSF.submit(script) == (
        "bsub", "-J", "dkdbg-a_1-9_.py", "-o", "dkdbg-%J.out", "-n", "2", "sh", "/s/job.sh",
    )  # fmt: skip
    assert "dkdbg-%J.out" not in LSF.submit(Script(path="x", tag="x", name="x", options=("-oo", "mine")))
