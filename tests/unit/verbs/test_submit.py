"""What `dkdbg submit` says at the end of a job; a stand-in for the queue, as Slurm shows a job in its last moments."""

import argparse
import signal
from dataclasses import replace

import pytest

from dkdbg import signals
from dkdbg.core.jobs import Job
from dkdbg.errors import DkdbgError, GoneError
from dkdbg.launchers.lines.wrappers import program_name
from dkdbg.targets.batch.job import JobAddress, an_array, choose_node
from dkdbg.targets.batch.slurm import SLURM
from dkdbg.verbs import submit

JOB = {"id": "7", "state": "COMPLETING", "phase": "ended", "user": "me", "nodes": ("n1",)}
OPTIONS = argparse.Namespace(
    on="slurm://login", ranks=["true"], others=[], folder="", wait=0, json=False, interactive=False, no_attach=False
)  # fmt: skip
RUNS = Job(**JOB, reason="NonZeroExitCode", folder="/code")


class Queue:
    """Shows a job in one state after the other; the last one stays."""

    def __init__(self, *states):
        self.states = list(states)

    def read(self, _job):
        state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        if not state:
            raise DkdbgError("the login node does not answer")
        return replace(RUNS, state=state, succeeded=None if state == "COMPLETING" else False)

    def address(self, job=""):
        return f"slurm://login/{job}"

    def output_tail(self, job):
        return f"the last words of a job that is {job.state}"


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(submit, "_FIRST_POLL_S", 0.0)


def ended(queue):
    return submit._ended(queue, submit._with_outcome(queue, RUNS))


def test_a_job_that_is_about_to_end_is_looked_at_until_it_is_known_how_or_told_as_it_stays():
    error = ended(Queue("COMPLETING", "", "FAILED"))
    assert (
        error.message == "job 7 has ended: FAILED (NonZeroExitCode)\nthe last words of a job that is FAILED"
    )
    assert "has ended: COMPLETING" in ended(Queue("COMPLETING")).message


class Held(Queue):
    """Holds no job yet; a signal comes while its first job waits for nodes."""

    def __init__(self, number):
        super().__init__("PENDING")
        self.number, self.cancelled = number, []

    def held(self):
        return ""

    def submit(self, _wanted):
        return "7"

    def read(self, job):
        number, self.number = self.number, None
        assert number, "it waits on"
        signal.raise_signal(number)
        return super().read(job)

    def cancel(self, job):
        self.cancelled.append(job)


@pytest.mark.parametrize("number", signals.ENDING)
def test_nodes_that_are_waited_for_are_given_back_at_any_signal_that_ends_us(tmp_path, number):
    former = {each: signal.signal(each, lambda *_: None) for each in signals.ENDING}
    queue = Held(number)
    options = argparse.Namespace(ranks=[], others=[], folder="", wait=0, keep=False)
    try:
        assert submit._hold(tmp_path, queue, options, lambda *_, **__: None) == 130
    finally:
        for each, handler in former.items():
            signal.signal(each, handler)
    assert queue.cancelled == ["7"]


class Prompting(Queue):
    """Connects for ever, as while another dkdbg shows a prompt; a signal comes meanwhile."""

    def __init__(self, number):
        super().__init__("PENDING")
        self.number = number

    def connect(self):
        signal.raise_signal(self.number)
        raise AssertionError("it goes on")

    def submit(self, _wanted):
        raise AssertionError("it was submitted")

    def close(self):
        pass


@pytest.mark.parametrize("number", signals.ENDING)
def test_a_signal_ends_it_while_it_connects(tmp_path, monkeypatch, number):
    def end(*_):
        raise KeyboardInterrupt

    former = {each: signal.signal(each, end) for each in signals.ENDING}
    monkeypatch.setattr(submit.registry, "queue_of", lambda _: Prompting(number))
    try:
        with pytest.raises(KeyboardInterrupt):
            submit.call(OPTIONS, tmp_path)
    finally:
        for each, handler in former.items():
            signal.signal(each, handler)


class Array(Prompting):
    """Submits an array, whose first job runs."""

    def __init__(self, *ids):
        super().__init__(0)
        self.ids = ids

    def connect(self):
        pass

    def submit(self, _wanted):
        return "7"

    def cancelling(self, job):
        return f"scancel {job}"

    def read(self, job):
        raise an_array(job, self.ids, SLURM.job_form)


@pytest.mark.parametrize(
    ("ids", "named"),
    [(("7_0", "7_1"), ("7_0", "7_1")), (("7+0", "7+1"), ("7+0", "7+1")), (("7_[0-3]",), ("7",))],
)
def test_each_job_of_a_submitted_array_is_named_with_the_command_that_attaches_to_it(
    tmp_path, monkeypatch, capsys, ids, named
):
    monkeypatch.setattr(submit.registry, "queue_of", lambda _: Array(*ids))
    assert submit.call(OPTIONS, tmp_path) == 0
    commands = [f"dkdbg attach slurm://login/{each}" for each in named]
    assert f": {', '.join(commands)}; they keep running, and scancel 7 on" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("env N=50 python3 code/rk.py --n 1", "rk.py"),
        ("N=50 ./rk", "rk"),
        ("python3 -m rk", "python3"),
        ("python -W ignore -Xdev -O code/rk.py", "rk.py"),
        ("python -c code/rk.py", "python"),
        ("python3 code/", "code"),
        ("env TOKEN=secret", "env"),
        ("rk", "rk"),
    ],
)
def test_a_job_has_the_name_of_its_program(command, name):
    """A variable may hold a secret, and each user of the cluster sees the name."""
    assert program_name(command.split()) == name


def test_an_ended_job_names_the_file_with_its_output():
    address = JobAddress(login=None, job="7", node="", session="")
    for output, hint in (
        ("/code/slurm-7.out", "its output is in /code/slurm-7.out on the login node"),
        ("", "start another"),
    ):
        with pytest.raises(GoneError) as ended:
            choose_node(replace(RUNS, output=output), address, "slurm://login/7")
        assert ended.value.hint.startswith(hint)
