"""launch.json's entry and the tasks: a plan in, JSON values out."""

from pathlib import PurePosixPath

from dkdbg.core.config import Config
from dkdbg.core.plan import Mapping
from dkdbg.setup.plan.editor import DOWN_LABEL, UP_LABEL, inputs, launch_entry, path_mappings, tasks
from dkdbg.targets.docker.compose import ComposeService
from tests.unit.setup.plan.given import plan

PLAN = plan(Config(command="python train.py"))


def test_the_task_of_the_entry_runs_our_script_and_parts_are_mapped_below_the_local_root():
    up = next(task for task in tasks(PLAN) if task["label"] == launch_entry(PLAN, 1)["preLaunchTask"])
    assert (up["command"], up["args"]) == ("sh", [".dkdbg/up.sh"])
    parts = (
        Mapping(local="src/app", remote=PurePosixPath("/srv/app")),
        Mapping(local=".", remote=PurePosixPath("/workspace")),
    )
    assert path_mappings(parts) == [
        {"localRoot": "${workspaceFolder}/src/app", "remoteRoot": "/srv/app"},
        {"localRoot": "${workspaceFolder}", "remoteRoot": "/workspace"},
    ]


def test_up_and_down_are_dockers_commands_without_a_posix_shell_and_restart_and_stop_need_docker_alone():
    up, *_, down = tasks(PLAN)
    assert (up["label"], down["label"]) == (UP_LABEL, DOWN_LABEL)
    service = ComposeService(service=PLAN.service.name)
    windows = up["windows"]
    assert (windows["command"], *windows["args"]) == service.up(build=True, wait_timeout=300)
    assert [word for word in (down["command"], *down["args"]) if word not in {"--progress", "plain"}] == list(
        service.down()
    )
    assert "--profile debug" in " ".join(service.down_project())
    found = {each["label"]: each for each in tasks(PLAN)}
    for what, last in (("restart", "restart"), ("stop", PLAN.service.name)):
        task = found[f"dkdbg: {what}"]
        assert (task["command"], task["args"]) == ("sh", [".dkdbg/up.sh", what])
        assert (task["windows"]["command"], task["windows"]["args"][-1]) == ("docker", last)


def test_a_token_is_only_referred_to():
    plans = {kind: plan(Config(command="python train.py", token=kind)) for kind in ("env", "prompt")}
    assert launch_entry(plans["env"], 5678)["dkdbgToken"] == "${env:DKDBG_TOKEN}"
    assert inputs(plans["env"]) == ()
    (asked,) = inputs(plans["prompt"])
    assert launch_entry(plans["prompt"], 5678)["dkdbgToken"] == f"${{input:{asked['id']}}}"
    assert asked["password"] is True
