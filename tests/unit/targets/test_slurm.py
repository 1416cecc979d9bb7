"""What Slurm's programs say, on their real texts (22.05, and 24.11 where it differs)."""

from dataclasses import replace

import pytest

from dkdbg.core import address
from dkdbg.errors import DkdbgError
from dkdbg.targets.batch.job import choose_node, job_address
from dkdbg.targets.batch.slurm import SLURM

RUNNING = "1|RUNNING|me|node-30|1-02:03:04|None|/home/me/my code\ntasks 8 \noutput \nnodes node-12 node-22 -x node-30 n;id node-49\n"


def test_a_running_job_has_its_nodes_folder_and_tasks_and_an_array_is_no_single_job():
    job = SLURM.read("1", 0, RUNNING, "")
    assert job.nodes == ("node-30", "node-12", "node-22", "node-49")
    assert (job.phase, job.folder, job.tasks, job.reason) == ("running", "/home/me/my code", 8, "")
    assert SLURM.read("1", 0, RUNNING.replace("tasks 8", "tasks " + "8" * 5000), "").tasks == 0
    assert job.left_s == (26 * 60 + 3) * 60 + 4
    lines = "6_1|RUNNING|me|node-12|UNLIMITED|None|/h\n6_2|RUNNING|me|node-12|UNLIMITED|None|/h\n"
    with pytest.raises(DkdbgError, match="6_1, 6_2") as caught:
        SLURM.read("6", 0, lines, "")
    assert caught.value.hint == "name one: 6_1"
    with pytest.raises(DkdbgError, match=r"several of its jobs: 6_1, 6_2$"):  # a range is no address
        SLURM.read("6", 0, "6_[3-9]|PENDING|me|n/a|NOT_SET|Resources|/h\n" + lines, "")
    assert SLURM.read("6_2", 0, lines, "").id == "6_2"
    assert SLURM.read("6_2", 0, lines, "").left_s is None


def test_a_heterogeneous_job_is_told_from_an_array():
    lines = "6+0|RUNNING|me|node-12|UNLIMITED|None|/h\n6+1|RUNNING|me|node-22|UNLIMITED|None|/h\n"
    with pytest.raises(DkdbgError, match=r"job 6 has several parts: 6\+0, 6\+1"):
        SLURM.read("6", 0, lines, "")
    assert SLURM.read("6+1", 0, lines, "").id == "6+1"
    words = SLURM.step("6+1", "node-22", tty=False)  # srun: Invalid numeric value "6+1" for --jobid
    assert {"--jobid=6", "--het-group=1"} <= {*words}


@pytest.mark.parametrize(
    ("line", "phase", "reason"),
    [
        ("2|PENDING|me|n/a|NOT_SET|Resources|/home/me", "waiting", "Resources"),
        ("2|CANCELLED|me|n/a|INVALID|PartitionNodeLimit|/home/me", "ended", "PartitionNodeLimit"),
        ("2|TIMEOUT|me|node-12|0:00|TimeLimit|/home/me", "ended", "TimeLimit"),
        ("2|SUSPENDED|me|node-12|UNLIMITED|None|/home/me", "held", ""),
        ("2|CONFIGURING|me|node-12|UNLIMITED|None|/home/me", "waiting", ""),
    ],
)
def test_states_are_told_apart(line, phase, reason):
    job = SLURM.read("2", 0, line + "\ntasks 1\n", "")
    assert (job.phase, job.reason) == (phase, reason)


def test_words_of_others_are_quoted_and_not_explained():
    said = "Traceback (most recent call last):\n"
    refused = (
        "channel 0: open failed: connect failed: Connection refused\n"
        "ssh: connect to host n1 port 22: Connection refused\n"  # by the node, not by Slurm's controller
    )
    for each in (said, refused):
        assert SLURM.explain(each, job="7", node="n1") is None
    assert SLURM.explain(f"{refused}slurm_load_jobs error: Connection refused\n", job="7", node="n1")
    with pytest.raises(DkdbgError) as caught:
        SLURM.read("7", 1, "", said)
    assert caught.value.message.endswith(said.strip())


@pytest.mark.parametrize(
    ("text", "job", "node", "session"),
    [
        ("slurm://login/7", "7", "", ""), ("slurm://me@a,login/7_3/node-12", "7_3", "node-12", ""),
        ("slurm:///7+1/node-12:rank3", "7+1", "node-12", "rank3"), ("slurm://login/7:rank3", "7", "", "rank3"),
    ],
)  # fmt: skip
def test_an_address_names_a_job_a_node_and_a_session(text, job, node, session):
    found = job_address(address.parse(text, local_schemes={"slurm"}), SLURM.job_form)
    assert (found.job, found.node, found.session) == (job, node, session)
    assert (found.login is None) == text.startswith("slurm:///")


def test_a_rank_of_a_requeued_job_is_on_the_node_at_its_place():
    """The user has named the job, not a node: it had other nodes before."""
    requeued = SLURM.read("7", 0, "7|RUNNING|me|node-22|1:00|None|/h\ntasks 2\nnodes node-22 node-30\n", "")
    named = job_address(address.parse("slurm://login/7/node-22", local_schemes={"slurm"}), SLURM.job_form)
    assert choose_node(requeued, named, "7") == "node-22"
    found = replace(named, nodes=("node-12", "node-22"))
    assert [choose_node(requeued, replace(found, node=node), "7") for node in found.nodes] == [
        "node-22",
        "node-30",
    ]
    with pytest.raises(DkdbgError, match="node-12 is not a node of job 7"):
        choose_node(requeued, replace(named, node="node-12"), "7")
    shrunk = replace(requeued, nodes=("node-22",))
    assert choose_node(shrunk, replace(found, node="node-22"), "7") == "node-22"
