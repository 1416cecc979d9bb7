"""What PBS's programs say.

TORQUE is what `qstat -f` of slurm-wlm-torque 22.05 printed. OPENPBS is put together from single lines that were noted
from an OpenPBS 23.06 once, in the form that its manual gives; no test runs one.
"""

import pytest

from dkdbg.errors import EXIT_USAGE, DkdbgError
from dkdbg.targets.batch.job import Script
from dkdbg.targets.batch.pbs import PBS

TORQUE = """\
Job Id:	8
	Job_Name = p.sh
	Job_Owner = me@login
	job_state = R
	queue = batch
	qtime = Sun Nov 22 21:16:20 2026
	exec_host = node-12/3+node-22/1
	Priority = 4294901754
	euser = me(1000)
	Resource_List.walltime = 8760:00:00
	Resource_List.nodect = 2

Job Id:	9
	job_state = Q
"""
OPENPBS = """\
Job Id: 3.pbs
    Job_Name = debug
    Job_Owner = me@pbs
    job_state = R
    resources_used.walltime = 00:01:02
    Resource_List.walltime = 01:00:00
    exec_host = node4/0*2+node5/0
    Output_Path = pbs:/home/me/debug.o3
    Variable_List = PBS_O_HOME=/home/me,PBS_O_LANG=C,PBS_O_LOGNAME=me,
	PBS_O_PATH=/usr/bin:/bin,PBS_O_SHELL=/bin/bash,PBS_O_HOST=pbs,PBS_O_WORKDI
	R=/home/me/code,PBS_O_SYSTEM=Linux
    comment = Job run at Sun Nov 22 at 21:16 on (node4:ncpus=2)+(node5:ncpus=1)
"""


def test_both_forms_are_read_with_lines_that_go_on_and_a_node_once_a_core():
    job = PBS.read("8", 0, TORQUE, "")
    assert (job.phase, job.user, job.nodes) == ("running", "me", ("node-12", "node-22"))
    assert job.left_s == 8760 * 3600
    job = PBS.read("3.pbs", 0, OPENPBS, "")
    assert job.left_s == 3600 - 62
    assert (job.nodes, job.folder, job.output) == (("node4", "node5"), "/home/me/code", "/home/me/debug.o3")
    text = TORQUE.replace("node-12/3+node-22/1", "node4/0+node4/1+node5/0")
    assert PBS.read("8", 0, text, "").nodes == ("node4", "node5")


def test_an_array_that_has_begun_is_no_single_job():
    text = OPENPBS.replace("job_state = R", "job_state = B\n    array_indices_submitted = 0-6:2")
    text = text.replace("    exec_host = node4/0*2+node5/0\n", "")
    with pytest.raises(DkdbgError, match=r"job 3\[\].pbs is an array; .*: 3\[0\].pbs$"):
        PBS.read("3[].pbs", 0, text, "")


@pytest.mark.parametrize(("state", "phase"), [("Q", "waiting"), ("H", "waiting"), ("S", "held"), ("E", "ended"), ("C", "ended"), ("F", "ended")])  # fmt: skip
def test_states_are_told_apart(state, phase):
    assert PBS.read("8", 0, TORQUE.replace("job_state = R", f"job_state = {state}"), "").phase == phase


@pytest.mark.parametrize("node", ["-oProxyCommand=id/0", "$(id)/0", "a b/0"])
def test_a_node_with_a_name_that_none_has_is_left_out(node):
    assert PBS.read("8", 0, TORQUE.replace("node-12/3", node), "").nodes == ("node-22",)


def test_a_job_that_is_not_there_is_named():
    with pytest.raises(
        DkdbgError, match="PBS has no job 99"
    ):  # slurm-wlm-torque ends with 153 and says nothing
        PBS.read("99", 153, "", "")


@pytest.mark.parametrize("options", [("-N", "mine"), ("-l", "nodes=1", "-Nmine")])
def test_a_name_of_the_user_s_is_refused_because_a_later_submission_would_remove_its_script(options):
    with pytest.raises(DkdbgError) as caught:
        PBS.submit(Script(path="/h/job-12345678/job.sh", tag="job-12345678", name="x", options=options))
    assert caught.value.exit_code == EXIT_USAGE
    assert caught.value.hint.startswith("leave out -N")
