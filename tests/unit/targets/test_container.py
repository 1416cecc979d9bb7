"""Which container a service's name means, where its agent listens, and where the code lies in it."""

import errno
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dkdbg import process
from dkdbg.core.mapping import Workspace
from dkdbg.errors import DkdbgError
from dkdbg.targets import registry
from dkdbg.targets.docker import client, compose_cli, containers
from dkdbg.targets.docker.container import (
    PROJECT_DIR,
    PROJECT_NAME,
    Container,
    ContainerExecutor,
    choose,
    endpoint_of,
    not_running,
    only_debug_service,
    workspace_of,
)
from dkdbg.targets.docker.remote_project import FROM


def container(service: str = "web-debug", *, name: str = "", **more: Any) -> Container:
    values: dict[str, Any] = {
        "id": "abc" * 20, "name": name or f"shop-{service}-1", "label": service if "debug" in service else "", "running": True,
        "host_network": False, "published": {}, "service": service, "created": "2026-01-01",
    }  # fmt: skip
    return Container(**{**values, **more})


def chosen(containers: list[Container], service: str) -> str | None:
    found = choose(containers, service)
    return found and found.name


def pair(local: str, remote: str) -> dict[str, str]:
    return {"localRoot": local, "remoteRoot": remote}


def with_code(*, mappings: Any = None, workdir: str = "") -> Container:
    environment = {} if mappings is None else {"DKDBG_MAPPINGS": json.dumps(mappings)}
    return container(environment=environment, workdir=workdir)


def test_the_debug_twin_comes_before_the_service_unless_it_has_ended():
    assert chosen([container("app"), container("app-debug")], "app") == "shop-app-debug-1"
    three = [container("app"), container("app-dkdbg-2"), container("app-dkdbg")]
    assert chosen(three, "app") == "shop-app-dkdbg-1"
    assert chosen([container("app"), container("app-dkdbg-2")], "app") == "shop-app-dkdbg-2-1"
    assert chosen([container("app"), container("db")], "app") == "shop-app-1"
    assert chosen([container("app")], "db") is None
    assert chosen([container("app"), container("app-debug", running=False)], "app") == "shop-app-1"


def test_of_several_it_is_the_newest_that_ended_the_first_replica_and_what_compose_run_made_last():
    old = container(name="old", running=False)
    new = container(name="new", running=False, created="2026-03-01")
    assert chosen([old, new], "web-debug") == chosen([new, old], "web-debug") == "new"
    both = [container("app", name="shop-app-2", created="2026-03-01"), container("app", name="shop-app-1")]
    assert chosen(both, "app") == "shop-app-1"
    first = container("app", name="shop-app-run-9", one_off=True)
    second = container("app", name="shop-app-run-1", one_off=True, created="2026-02-01")
    assert chosen([first, second, container("app")], "app") == "shop-app-1"
    assert chosen([first, second], "app") == "shop-app-run-1"


def test_without_a_name_it_is_the_only_debug_service_and_one_that_does_not_run_is_named():
    three = [container("app"), container("x-debug"), container("x-debug", running=False)]
    assert only_debug_service(three) == "x-debug"
    with pytest.raises(
        DkdbgError, match=r"2 debug services of this repository are running; there are: a-debug, b-debug"
    ):
        only_debug_service([container("a-debug"), container("b-debug")])
    with pytest.raises(DkdbgError, match="no debug service of this repository is running; there are: app"):
        only_debug_service([container("app"), container("x-debug", running=False)])
    error = not_running([container("db"), container("app", running=False)], "app")
    assert error.message == "the service app is not running; there are: db"


def test_a_container_is_called_by_its_name_or_enough_of_the_beginning_of_its_id():
    one = container(name="web-1")
    called = [name for name in ("web-1", "abcabcabc", "abc", "web") if one.is_called(name)]
    assert called == ["web-1", "abcabcabc"]


@pytest.mark.parametrize(
    ("more", "endpoint"),
    [
        ({"published": {5678: "0.0.0.0:6000"}}, ("127.0.0.1", 6000)),
        ({"published": {5678: ":::6000"}}, ("::1", 6000)),
        ({"published": {80: "127.0.0.1:80"}, "address": "172.17.0.2"}, ("172.17.0.2", 5678)),
        ({"host_network": True, "port": 5680}, ("127.0.0.1", 5680)),
        ({"published": {5678: "127.0.0.1:6000"}, "running": False}, None),
        ({}, None),
    ],
)
def test_the_endpoint_is_the_published_port_else_the_containers_own(more, endpoint):
    assert endpoint_of(container(**more)).address == endpoint


def test_what_an_endpoint_waits_for_is_named_and_a_container_without_an_agent_is_never_connected_to():
    assert endpoint_of(None).why == "there is no container yet"
    assert endpoint_of(container(running=False)).why == "container shop-web-debug-1 is not running"
    assert endpoint_of(container()).why == "its debug port is not published"
    found = endpoint_of(container("app", published={5678: "127.0.0.1:6000"}, address="172.17.0.2"))
    assert (found.address, found.why) == (None, "container shop-app-1 runs without the dkdbg agent")


def test_inspect_says_service_project_port_address_and_workdir_if_any():
    labels = {
        "dev.dkdbg.session": "web-debug", "com.docker.compose.service": "web-debug", "com.docker.compose.oneoff": "True",
        "com.docker.compose.project.working_dir": "/home/me/repo",
    }  # fmt: skip
    found = Container.of(
        {
            "Id": "a", "Name": "/x", "Created": "2026",
            "Config": {"Labels": labels, "Env": ["A=1", "DKDBG_PORT=5690"], "WorkingDir": "/srv/"},
            "State": {"Running": True}, "HostConfig": {"NetworkMode": "n", "DeviceRequests": [{"Count": -1}]},
            "NetworkSettings": {"Ports": {}, "Networks": {"n": {"IPAddress": "172.18.0.3", "Gateway": "172.18.0.1"}}},
        }
    )  # fmt: skip
    assert (found.service, found.port, found.address, found.workdir, found.one_off, found.devices) == (
        "web-debug", 5690, "172.18.0.3", "/srv", True, True,
    )  # fmt: skip
    bare = {
        "Id": "a", "Name": "/x", "Config": {"Labels": None, "Env": None}, "State": {"Running": False},
        "HostConfig": {}, "NetworkSettings": {"Networks": {"back": {"IPAddress": "172.18.0.3", "Gateway": ""}}},
    }  # fmt: skip
    found = Container.of(bare)
    assert (found.label, found.service, found.published, found.devices) == ("", "", {}, False)
    assert found.address == "", "an internal network's"


def test_the_code_lies_at_the_one_planned_mapping_else_in_the_workdir_and_never_everywhere():
    found = workspace_of(with_code(mappings=[pair("${workspaceFolder}", "/workspace")], workdir="/srv"))
    assert found == Workspace(local=".", remote="/workspace", why="the mapping that dkdbg init planned")
    found = workspace_of(with_code(mappings=[pair("${workspaceFolder}/src", "/app/src")]))
    assert (found.local, found.remote) == ("src", "/app/src")
    assert workspace_of(with_code(workdir="/srv/code")).remote == "/srv/code"
    with pytest.raises(DkdbgError, match="the location of the code is unknown"):
        workspace_of(with_code())
    several = [pair("${workspaceFolder}/a", "/app/a"), pair("${workspaceFolder}/b", "/app/b")]
    with pytest.raises(DkdbgError, match="a at /app/a, b at /app/b"):
        workspace_of(with_code(mappings=several))


def test_a_command_runs_in_it_without_a_shell():
    executor = ContainerExecutor(name="c1", label="docker://c1")
    assert executor.wrap(["python3", "-c", "x y"]) == ("docker", "exec", "-i", "c1", "python3", "-c", "x y")
    assert executor.wrap(["sh"], tty=True) == ("docker", "exec", "-it", "c1", "sh")


def test_a_project_in_a_folder_that_we_may_not_look_into_is_anothers(monkeypatch, tmp_path):
    """Homes are closed to others: its containers would be replaced."""

    stat = Path.stat

    def closed(self, **options):
        if self.is_relative_to("/home/bob"):
            raise PermissionError(errno.EACCES, "Permission denied", str(self))
        return stat(self, **options)

    rows = {PROJECT_NAME: [("1", "shop")], PROJECT_DIR: [("1", "/home/bob/shop")]}
    monkeypatch.setattr(containers, "_listed", rows.__getitem__)
    assert containers.other_folder("shop", tmp_path) == ""  # it is gone
    monkeypatch.setattr(Path, "stat", closed)
    assert containers.other_folder("shop", tmp_path) == "/home/bob/shop"


def test_a_project_of_another_user_of_a_remote_engine_is_not_taken_down(monkeypatch, tmp_path):
    """Compose takes its containers for ours, also where none of ours is there."""
    monkeypatch.setattr(client, "endpoint", lambda: SimpleNamespace(is_local=False, is_podman=False))
    monkeypatch.setattr(compose_cli, "check_project", lambda *_, **__: {"name": "shop", "services": {}})
    rows = {
        PROJECT_NAME: [("1", "shop")],
        PROJECT_DIR: [("1", "/home/bob/shop")],
        FROM: [("1", "bob@box:/shop")],
    }
    monkeypatch.setattr(containers, "_listed", rows.__getitem__)
    monkeypatch.setattr(process, "run", lambda *_, **__: pytest.fail("something is removed"))
    target = registry.home(tmp_path, "app-debug")
    with pytest.raises(DkdbgError, match="already has a compose project called shop"):
        target.down(SimpleNamespace(image_volumes=(), image_files=""), everything=True)
