"""launch.json's entry and the tasks: a plan in, JSON values out."""

from __future__ import annotations

from pathlib import PurePosixPath

from dkdbg.model.config import Config
from dkdbg.model.plan import Mapping
from dkdbg.planner.editor import DOWN_LABEL, UP_LABEL, inputs, launch_entry, path_mappings, tasks
from dkdbg.targets.compose import ComposeService
from tests.unit.planner.given import plan

PLAN = plan(Config(command="python train.py"))


def test_the_entry_is_whole():
    assert launch_entry(PLAN, 5999) == {
        "name": "dkdbg: attach",
        "type": "debugpy",
        "request": "attach",
        "connect": {"host": "127.0.0.1", "port": 5999},
        "pathMappings": [{"localRoot": "${workspaceFolder}", "remoteRoot": "/workspace"}],
        "justMyCode": True,
        "subProcess": True,
        "redirectOutput": True,
        "internalConsoleOptions": "openOnSessionStart",
        "preLaunchTask": "dkdbg: up",
        "presentation": {"group": "0_dkdbg", "order": 1},
    }


def test_a_part_of_the_repository_is_mapped_below_the_local_root():
    parts = (
        Mapping(local="src/app", remote=PurePosixPath("/srv/app")),
        Mapping(local=".", remote=PurePosixPath("/workspace")),
    )
    assert path_mappings(parts) == [
        {"localRoot": "${workspaceFolder}/src/app", "remoteRoot": "/srv/app"},
        {"localRoot": "${workspaceFolder}", "remoteRoot": "/workspace"},
    ]


def test_the_task_of_the_entry_exists_and_runs_our_script():
    up = next(task for task in tasks(PLAN) if task["label"] == launch_entry(PLAN, 1)["preLaunchTask"])
    assert (up["command"], up["args"]) == ("sh", [".dkdbg/up.sh"])


def test_no_task_is_a_background_task():
    """VS Code would wait for a pattern in its output; ours ends when an attach will work."""
    assert not any(task.get("isBackground") for task in tasks(PLAN))
    assert all(task["problemMatcher"] == [] for task in tasks(PLAN))


def test_a_build_of_minutes_is_seen():
    presentation = tasks(PLAN)[0]["presentation"]
    assert isinstance(presentation, dict)
    assert presentation["reveal"] == "always"


def test_without_a_posix_shell_the_task_is_dockers_own_command():
    up, *_, down = tasks(PLAN)
    assert (up["label"], down["label"]) == (UP_LABEL, DOWN_LABEL)
    service = ComposeService(service=PLAN.service.name)
    windows = up["windows"]
    assert (windows["command"], *windows["args"]) == service.up(build=True, wait_timeout=300)
    assert [word for word in (down["command"], *down["args"]) if word not in {"--progress", "plain"}] == list(
        service.down()
    )


def test_restart_and_stop_are_tasks_that_need_docker_alone():
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
