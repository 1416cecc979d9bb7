"""launch.json's entry and the tasks: a plan in, JSON values out."""

from dkdbg.core.config import Config
from dkdbg.setup.plan.editor import DOWN_LABEL, UP_LABEL, tasks
from dkdbg.targets.docker.compose import ComposeService
from tests.unit.setup.plan.given import plan

PLAN = plan(Config(command="python train.py"))


def test_up_and_down_are_dockers_commands_without_a_posix_shell_and_all_others_need_docker_alone():
    up, *_, down = tasks(PLAN)
    assert (up["label"], down["label"]) == (UP_LABEL, DOWN_LABEL)
    service = ComposeService(service=PLAN.service.name)
    windows = up["windows"]
    assert (windows["command"], *windows["args"]) == service.up(build=True, wait_timeout=300)
    removes = (down["windows"]["command"], *down["windows"]["args"])
    assert [word for word in removes if word not in {"--progress", "plain"}] == list(service.down())
    assert "--profile debug" in " ".join(service.down_project())
    found = {each["label"]: each for each in tasks(PLAN)}
    for what, last in (("restart", "restart"), ("stop", PLAN.service.name), ("down", PLAN.service.name)):
        task = found[f"dkdbg: {what}"]
        assert (task["command"], task["args"]) == ("sh", [".dkdbg/up.sh", what])
        assert (task["windows"]["command"], task["windows"]["args"][-1]) == ("docker", last)
