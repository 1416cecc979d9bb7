"""The text of a job protocol: what changes in it, and what never does; held against OpenPAI's own schemas."""

import difflib

import pytest

from dkdbg.targets.openpai import task_command
from dkdbg.targets.openpai.job import MARKER, BadJob, PaiJob
from tests.openpai import jobs, protocol

COMMAND = f"{MARKER} 1\ncat <<'X'\nQUJD\nX\nexport A=1"


def edited(text, role, command=COMMAND):
    job = PaiJob(text)
    return job.with_debugging(job.roles[role], command).text


def gone(before, after):
    lines = difflib.ndiff(before.splitlines(), after.splitlines())
    return [line[2:] for line in lines if line.startswith("- ")]


@pytest.mark.parametrize(
    ("text", "role", "changed"),
    [
        (jobs.PLAIN, "worker", []),
        (jobs.DEPLOYED, "worker", ["  deployment: prod  # the usual one"]),
        (
            jobs.DEPLOYED, "ps",
            ["    resourcePerInstance: {cpu: 1, memoryMB: 1024, gpu: 0}", "  deployment: prod  # the usual one"],
        ),
    ],
)  # fmt: skip
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_nothing_goes_but_the_name_of_the_deployment(text, role, changed, newline):
    text = text.replace("\n", newline)
    after = edited(text, role)
    assert gone(text, after) == changed
    assert after.count("\n") == after.count(newline)
    before, job = protocol.load(text), protocol.load(after)
    assert job["taskRoles"][role].pop("resourcePerInstance")["ports"]["debug"] == 1
    assert before["taskRoles"][role].pop("resourcePerInstance")
    assert job["taskRoles"] == before["taskRoles"]
    assert job["defaults"] == {**before.get("defaults", {}), "deployment": "debug"}
    assert PaiJob(after).with_debugging(PaiJob(after).roles[role], COMMAND).text == after


def test_the_debug_deployment_does_what_the_jobs_own_does_after_ours():
    job = protocol.load(edited(jobs.DEPLOYED, "worker"))
    debug, prod = job["deployments"]
    ours, theirs = (each["taskRoles"]["worker"] for each in (debug, prod))
    assert ours["preCommands"] == [COMMAND, *theirs["preCommands"]]
    assert ours["postCommands"] == theirs["postCommands"]


def test_the_recipe_by_hand_loses_its_download_and_keeps_the_rest():
    after = edited(jobs.BY_HAND, "train")
    deployment = protocol.load(after)["deployments"][0]
    assert deployment["taskRoles"]["train"]["preCommands"] == [COMMAND, "echo data"]
    assert "          # the data\n          - echo data\n" in after
    assert "wget" not in after
    assert after.endswith("\n\ndefaults:\n  deployment: debug")
    other = edited(after, "train", COMMAND.replace("A=1", "A=2"))
    assert gone(after, other) == ["            export A=1"]


@pytest.mark.parametrize(
    ("ports", "after"),
    [
        ("ports: {}", "ports: {debug: 1}"),
        ("ports:", 'ports: {"debug": 1}'),
        ("ports: {http: 2}", "ports: {debug: 1, http: 2}"),
        ("ports: null", 'ports: {"debug": 1}'),
    ],
)
def test_ports_in_other_spellings(ports, after):
    text = jobs.PLAIN.replace("      gpu: 0   # none left\n", f"      gpu: 0\n      {ports}\n")
    assert f"      {after}\n" in edited(text, "worker")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: [", "it is not YAML: line"),
        ("- 1\n", "not an OpenPAI job protocol"),
        ("apiVersion: batch/v1\nkind: Job\n", "it is a Kubernetes manifest (Job)"),
        ("services: {}\n", "it is a compose file"),
        (jobs.PLAIN.replace("type: job", "type: data"), "a component of the type data"),
        (jobs.PLAIN.replace("protocolVersion: 2", "protocolVersion: 1"), "its protocolVersion is 1"),
        (jobs.PLAIN.replace("  worker:\n", "  my-worker:\n"), "its task role 'my-worker' is malformed"),
        (jobs.PLAIN.partition("taskRoles:")[0] + "taskRoles: {}\n", "it has no task role"),
        (jobs.PLAIN.replace("- python setup.py install\n", "- 7\n"), "commands of its task role worker"),
        ("x" * (1 << 21), "larger than any job protocol"),
    ],
)
def test_what_is_no_job_is_told(text, said):
    with pytest.raises(BadJob) as error:
        PaiJob(text)
    assert said in str(error.value)


def test_what_two_roles_share_is_not_changed_for_one():
    own = "    resourcePerInstance:\n      cpu: 1\n      memoryMB: 1024\n      gpu: 0\n      ports:\n        rpc: 2  # ours\n"
    text = jobs.DEPLOYED.replace(own, "    resourcePerInstance: *shared\n").replace(
        "{cpu: 1,", "&shared {cpu: 1,"
    )
    with pytest.raises(BadJob, match="something else too"):
        edited(text, "worker")


@pytest.mark.parametrize(
    ("commands", "found"),
    [
        (["python train.py"], [("python", (), "train.py")]),
        (["cd a && CUDA_VISIBLE_DEVICES=0 python3 -u b/train.py --x 1; ls"], [("python3", ("-u",), "b/train.py")]),
        (["python setup.py install", "python train.py \\", "--lr 1"], [("python", (), "train.py"), ("python", (), "setup.py")]),
        (["python train.py --data <% $data.uri[0] %>"], [("python", (), "train.py")]),
        (["python $SCRIPT", "bash -c 'python a.py'", "/usr/bin/python a.py", "python -m pip install x", "python -m $APP"], []),
        (["pip install x", "python3 -u -m app.train --lr 1"], [("python3", ("-u", "-m"), "app.train")]),
        (["torchrun --nproc_per_node=4 train.py"], [("torchrun", (), "")]),
        (["accelerate config default; accelerate launch train.py"], [("accelerate", (), "launch")]),
        (["mpirun -np 4 python train.py", "colossalai check -i"], [("mpirun", (), "")]),
        (["mpirun -np 2 ./all_reduce_perf", "mpirun --version", "python train.py"], [("python", (), "train.py")]),
        (["accelerate-launch train.py"], []),
        (["python -m torch.distributed.launch train.py"], [("python", ("-m",), "torch.distributed.launch")]),
        (["echo 'unfinished", "time python3.8 a.py"], [("python3.8", (), "a.py")]),
    ],
)  # fmt: skip
def test_the_script_of_a_jobs_commands(commands, found):
    assert [(each.python, each.flags, each.path) for each in task_command.scripts_of(commands)] == found
