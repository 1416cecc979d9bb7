"""Which container a service's name means, and where the code lies in it."""

from __future__ import annotations

import json

import pytest

from dkdbg.errors import DkdbgError
from dkdbg.targets.container import Container, Listed, Workspace, choose, workspace_of


def listed(service, *, session="", name=""):
    return Listed(
        id=f"id-{service}",
        name=name or f"shop-{service}-1",
        service=service,
        project_dir="/shop",
        session=session,
    )


def inspected(*, mappings=None, workdir=""):
    environment = [] if mappings is None else [f"DKDBG_MAPPINGS={json.dumps(mappings)}"]
    return {"Config": {"Env": ["PATH=/bin", *environment], "WorkingDir": workdir}}


def pair(local, remote):
    return {"localRoot": local, "remoteRoot": remote}


def test_the_debug_twin_of_a_service_comes_before_the_service():
    assert choose([listed("app"), listed("app-debug", session="app-debug")], "app").service == "app-debug"
    assert choose([listed("app"), listed("db")], "app").service == "app"


def test_without_a_name_it_is_the_only_debug_service():
    assert choose([listed("app"), listed("x-debug", session="x")], "").service == "x-debug"
    with pytest.raises(DkdbgError, match=r"2 debug services run here; there are: a, b"):
        choose([listed("a", session="a"), listed("b", session="b")], "")
    with pytest.raises(DkdbgError, match="no debug service of this repository runs; there are: app"):
        choose([listed("app")], "")


def test_a_service_that_does_not_run_is_named_with_those_that_do():
    with pytest.raises(DkdbgError, match="the service app does not run here; there are: db"):
        choose([listed("db")], "app")


def test_of_several_replicas_the_first_by_name_is_taken_every_time():
    both = [listed("app", name="shop-app-2"), listed("app", name="shop-app-1")]
    assert choose(both, "app").name == "shop-app-1"


def test_the_planned_mapping_beats_the_workdir():
    found = workspace_of(inspected(mappings=[pair("${workspaceFolder}", "/workspace")], workdir="/srv"))
    assert found == Workspace(local=".", remote="/workspace", why="the mapping that dkdbg init planned")


def test_a_mapping_of_one_folder_is_that_folder():
    found = workspace_of(inspected(mappings=[pair("${workspaceFolder}/src", "/app/src")]))
    assert (found.local, found.remote) == ("src", "/app/src")


def test_without_a_mapping_it_is_the_workdir_and_never_the_whole_file_system():
    assert workspace_of(inspected(workdir="/srv/code")).remote == "/srv/code"
    for folder in ("", "/"):
        with pytest.raises(DkdbgError, match="nothing says where the code lies"):
            workspace_of(inspected(workdir=folder))


def test_several_mapped_folders_are_listed():
    several = [pair("${workspaceFolder}/a", "/app/a"), pair("${workspaceFolder}/b", "/app/b")]
    with pytest.raises(DkdbgError, match="a at /app/a, b at /app/b"):
        workspace_of(inspected(mappings=several))


def test_a_command_runs_in_it_without_a_shell():
    assert Container(name="c1", label="docker://c1").wrap(["python3", "-c", "x"]) == (
        "docker",
        "exec",
        "-i",
        "c1",
        "python3",
        "-c",
        "x",
    )


def test_a_line_of_docker_ps_is_read_as_it_was_asked_for():
    assert Listed.template().count("\t") == 4
    assert Listed.parse("i\tn\ts\t/p\t") == Listed(
        id="i", name="n", service="s", project_dir="/p", session=""
    )
