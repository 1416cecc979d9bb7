"""The debug service: values in, values out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path, PurePosixPath

import pytest

from dkdbg.errors import DkdbgError
from dkdbg.model.config import Config
from dkdbg.model.facts import DockerfileFact, DockerRun, EntryPoint, PythonFact, RepoFacts, ServiceFact
from dkdbg.model.plan import Mapping
from dkdbg.planner.project import plan_project

TRAIN = EntryPoint(command="python train.py", file="train.py", launcher="python", source="README.md")


def facts(**values) -> RepoFacts:
    given = {
        "root": Path("/r"),
        "name": "r",
        "python": PythonFact(version="3.11", source="test"),
        "package_manager": "none",
    }
    return RepoFacts(**{**given, **values})


def plan(config: Config | None = None, **values):
    return plan_project(facts(**values), config or Config())


def test_a_bare_repository_gets_a_compose_file_and_a_workspace():
    made = plan(entrypoint=TRAIN, candidates=(TRAIN,))
    assert made.service.compose_file == "compose.yaml"
    assert made.service.command == ("python", "train.py")
    assert made.mappings == (Mapping(local=".", remote=PurePosixPath("/workspace")),)
    assert made.image.ours


def test_a_compose_file_without_an_override_gets_one():
    service = ServiceFact(
        name="web",
        file="docker-compose.yml",
        context=".",
        command=("python", "app.py"),
        binds=((".", "/app"),),
    )
    made = plan(
        compose_files=("docker-compose.yml",), services=(service,), service=service, mappings=((".", "/app"),)
    )
    assert made.service.compose_file == "compose.override.yaml"
    assert made.compose_chain == ("docker-compose.yml", "compose.override.yaml")
    assert made.compose_file_value is None
    assert made.service.name == "web-debug"
    assert made.service.mounts == ()


def test_an_override_of_the_users_leads_to_compose_file_in_dotenv():
    service = ServiceFact(name="web", file="docker-compose.yml", context=".", command=("python", "app.py"))
    files = ("docker-compose.yml", "docker-compose.override.yml")
    made = plan(compose_files=files, services=(service,), service=service)
    assert made.compose_file_value == "docker-compose.yml:docker-compose.override.yml:compose.dkdbg.yaml"


def test_compose_file_that_names_our_file_already_stays_as_it_is():
    service = ServiceFact(name="web", file="a.yml", context=".", command=("python", "app.py"))
    made = plan(
        compose_files=("a.yml",), services=(service,), service=service, compose_env="a.yml:compose.dkdbg.yaml"
    )
    assert made.compose_file_value == "a.yml:compose.dkdbg.yaml"


def test_the_command_of_the_image_is_entrypoint_and_cmd():
    dockerfile = DockerfileFact(
        path="Dockerfile",
        base="python:3.11",
        workdir="/app",
        copies=((".", "/app"),),
        code=((".", "/app"),),
        entrypoint=("python",),
        cmd=("app.py",),
    )
    made = plan(dockerfiles=(dockerfile,), mappings=((".", "/app"),))
    assert made.service.argv == ("python", "app.py")
    assert made.service.mounts == ((".", "/app"),)
    assert not made.image.ours


def test_an_entrypoint_of_compose_drops_the_images_cmd():
    dockerfile = DockerfileFact(path="Dockerfile", base="x", cmd=("unused.py",))
    service = ServiceFact(
        name="a", file="compose.yaml", context=".", dockerfile="Dockerfile", entrypoint=("python", "b.py")
    )
    made = plan(
        dockerfiles=(dockerfile,), services=(service,), service=service, compose_files=("compose.yaml",)
    )
    assert made.service.argv == ("python", "b.py")


def test_a_virtual_environment_below_the_mounted_code_stays_visible():
    dockerfile = DockerfileFact(
        path="Dockerfile", base="x", workdir="/app", copies=((".", "/app"),), code=((".", "/app"),), cmd=("/app/.venv/bin/python", "a.py"),
        venvs=("/app/.venv",),
    )  # fmt: skip
    made = plan(dockerfiles=(dockerfile,), mappings=((".", "/app"),))
    assert made.service.masks == ("/app/.venv",)


def test_a_part_of_the_repository_in_the_image_gets_the_whole_beside_it():
    dockerfile = DockerfileFact(
        path="Dockerfile",
        base="x",
        copies=(("app", "/app/app"),),
        code=(("app", "/app/app"),),
        cmd=("python", "a.py"),
    )
    made = plan(dockerfiles=(dockerfile,), mappings=(("app", "/app/app"),))
    assert [str(m.remote) for m in made.mappings] == ["/app/app", "/workspace"]
    assert made.workspace == "/workspace"


def test_a_narrow_mapping_comes_before_a_broad_one():
    dockerfile = DockerfileFact(
        path="Dockerfile",
        base="x",
        copies=((".", "/app"), ("lib", "/opt/lib")),
        code=((".", "/app"), ("lib", "/opt/lib")),
        cmd=("x",),
    )
    made = plan(dockerfiles=(dockerfile,), mappings=((".", "/app"), ("lib", "/opt/lib")))
    assert [m.local for m in made.mappings] == ["lib", "."]


def test_a_server_does_not_wait_for_an_editor_and_a_script_does():
    server = EntryPoint(command="uvicorn main:app", file="main.py", launcher="uvicorn")
    assert plan(entrypoint=server, candidates=(server,)).service.wait == 0
    assert plan(entrypoint=TRAIN, candidates=(TRAIN,)).service.wait == 600


def test_the_command_of_the_flag_beats_what_was_seen():
    assert plan(Config(command="python other.py"), entrypoint=TRAIN).service.command == ("python", "other.py")


def test_a_command_that_needs_a_shell_gets_one():
    assert plan(Config(command="A=1 python x.py | tee log")).service.command[:2] == ("sh", "-c")


def test_a_service_of_the_users_with_our_name_is_not_merged_with_ours():
    services = tuple(
        ServiceFact(name=name, file="compose.yaml", context=".") for name in ("web", "web-debug")
    )
    made = plan(compose_files=("compose.yaml",), services=services, service=services[0])
    assert made.service.name == "web-dkdbg"


def test_an_unknown_service_names_the_ones_there_are():
    service = ServiceFact(name="web", file="compose.yaml")
    with pytest.raises(DkdbgError, match="web"):
        plan(Config(service="nope"), services=(service,), service=service, compose_files=("compose.yaml",))


def test_notebooks_alone_get_an_idle_container_and_a_note():
    made = plan(notebooks=3)
    assert made.service.idle
    assert any("notebooks" in note for note in made.notes)


def test_other_candidates_are_named():
    other = EntryPoint(command="python sample.py", file="sample.py", launcher="python")
    made = plan(entrypoint=TRAIN, candidates=(TRAIN, other))
    assert any("python sample.py" in note for note in made.notes)


def test_an_existing_devcontainer_stays_and_ours_is_a_second_one():
    made = plan(devcontainers=(".devcontainer/devcontainer.json",))
    assert made.devcontainer == ".devcontainer/dkdbg/devcontainer.json"


def test_the_plan_as_text_gives_a_reason_on_each_line():
    text = plan(entrypoint=TRAIN, candidates=(TRAIN,)).describe()
    assert all("because" in line or line.startswith("note:") for line in text.splitlines())


def test_a_documented_launch_on_eight_gpus_is_one_rank_until_the_machine_is_known_and_says_so():
    entry = EntryPoint(
        command="torchrun --standalone --nproc_per_node=8 train.py", file="train.py", launcher="torchrun"
    )
    made = plan(entrypoint=entry, candidates=(entry,))
    assert made.service.argv == ("torchrun", "--standalone", "--nproc_per_node=1", "train.py")
    assert made.service.processes == 8
    assert any("8 processes" in note and "DKDBG_PROCESSES" in note for note in made.notes)


def test_a_placeholder_for_the_number_of_ranks_becomes_one():
    entry = EntryPoint(command="mpiexec -n N python a.py", file="a.py", launcher="mpiexec")
    assert plan(entrypoint=entry, candidates=(entry,)).service.argv == (
        "mpiexec",
        "-n",
        "1",
        "python",
        "a.py",
    )


def test_the_users_own_launch_line_is_never_touched():
    command = "torchrun --nproc_per_node=8 train.py"
    assert plan(Config(command=command)).service.argv == tuple(command.split())


def test_a_service_with_ports_of_its_own_serves_and_does_not_wait():
    service = ServiceFact(
        name="ui", file="compose.yaml", context=".", command=("python", "gui.py"), ports=(7860, 6006)
    )
    made = plan(compose_files=("compose.yaml",), services=(service,), service=service)
    assert made.service.wait == 0


def test_a_training_job_with_tensorboard_beside_it_waits():
    service = ServiceFact(
        name="job", file="compose.yaml", context=".", command=("python", "train.py"), ports=(6006,)
    )
    made = plan(compose_files=("compose.yaml",), services=(service,), service=service)
    assert made.service.wait == 600


def test_a_command_that_compose_says_stays_where_it_is_said():
    service = ServiceFact(name="job", file="compose.yaml", context=".", command=("python", "train.py"))
    assert plan(
        compose_files=("compose.yaml",), services=(service,), service=service
    ).service.inherits_command


@pytest.mark.parametrize(
    "argv",
    [
        ("/bin/bash",),
        ("sleep", "infinity"),
        ("tail", "-f", "/dev/null"),
        ("sh", "-c", "while sleep 1000; do :; done"),
        ("nvidia-smi", "dmon"),
    ],
)
def test_a_service_that_only_keeps_a_shell_open_runs_the_entry_point(argv):
    service = ServiceFact(name="dev", file="compose.yaml", context=".", command=argv)
    made = plan(
        compose_files=("compose.yaml",),
        services=(service,),
        service=service,
        entrypoint=TRAIN,
        candidates=(TRAIN,),
    )
    assert made.service.argv == ("python", "train.py")


@pytest.mark.parametrize(
    ("workdir", "started_in"), [("/home/me", "/workspace"), ("/workspace", None), ("/", "/workspace")]
)
def test_a_documented_command_begins_in_the_repository_wherever_the_image_would_begin(workdir, started_in):
    image = DockerfileFact(path="docker/Dockerfile", base="python:3.11", workdir=workdir)
    service = ServiceFact(
        name="dev", file="compose.yaml", context="docker", dockerfile="docker/Dockerfile", command=("sleep", "infinity")
    )  # fmt: skip
    made = plan(
        compose_files=("compose.yaml",), services=(service,), service=service, dockerfiles=(image,), entrypoint=TRAIN,
        candidates=(TRAIN,),
    )  # fmt: skip
    assert made.service.working_dir == started_in
    own = replace(service, command=("python", "serve.py"))
    kept = plan(compose_files=("compose.yaml",), services=(own,), service=own, dockerfiles=(image,))
    assert kept.service.working_dir is None


def test_nothing_is_mounted_over_all_of_a_container():
    image = DockerfileFact(
        path="Dockerfile", base="python:3.11", copies=(("requirements", "/"), ("pkg", "/pkg")), code=(("requirements", "/"), ("pkg", "/pkg")), cmd=("python", "pkg/a.py")
    )  # fmt: skip
    made = plan(dockerfiles=(image,), entrypoint=TRAIN, candidates=(TRAIN,))
    assert "/" not in {remote for _, remote in made.service.mounts}
    assert ("pkg", "/pkg") in made.service.mounts


def test_a_shell_that_runs_something_is_a_command():
    service = ServiceFact(name="dev", file="compose.yaml", context=".", command=("bash", "-c", "python a.py"))
    made = plan(
        compose_files=("compose.yaml",),
        services=(service,),
        service=service,
        entrypoint=TRAIN,
        candidates=(TRAIN,),
    )
    assert made.service.argv == ("bash", "-c", "python a.py")


COPIES_ALL = DockerfileFact(path="Dockerfile", base="python:3.11", workdir="/app", copies=((".", "/app"),), code=((".", "/app"),), cmd=("python", "train.py"))  # fmt: skip


def writes_bytecode(image: DockerfileFact = COPIES_ALL, **values) -> bool:
    made = plan(
        entrypoint=TRAIN, candidates=(TRAIN,), dockerfiles=(image,), mappings=((".", "/app"),), **values
    )
    assert [each.why for each in made.decisions if "PYTHONDONTWRITEBYTECODE" in each.what] == (
        ["Dockerfile builds from every file here, and with __pycache__ in the repository the next start would install again"]
        if made.service.no_bytecode
        else []
    )  # fmt: skip
    return not made.service.no_bytecode


def test_an_image_of_every_file_gets_no_bytecode_from_the_programs_that_run_in_it():
    assert not writes_bytecode()
    assert not writes_bytecode(dockerignores=(("sub/.dockerignore", True), (".dockerignore", False)))
    assert not writes_bytecode(dockerignores=((".dockerignore", True), ("Dockerfile.dockerignore", False)))


def test_where_it_changes_no_build_or_a_person_has_said_where_it_goes_bytecode_is_written():
    assert writes_bytecode(dockerignores=((".dockerignore", True),))
    assert writes_bytecode(dockerignores=((".dockerignore", False), ("Dockerfile.dockerignore", True)))
    assert writes_bytecode(replace(COPIES_ALL, env=(("PYTHONPYCACHEPREFIX", "/tmp/compiled"),)))
    assert writes_bytecode(replace(COPIES_ALL, env=(("PYTHONDONTWRITEBYTECODE", ""),)))
    assert writes_bytecode(replace(COPIES_ALL, inputs=("./",)))  # a start looks at the dependencies alone
    by_hand = DockerRun(source="README.md", mounts=(), env=(("PYTHONPYCACHEPREFIX", None),))
    assert writes_bytecode(docker_run=by_hand)
    assert plan(entrypoint=TRAIN, candidates=(TRAIN,)).service.no_bytecode is False  # our own Dockerfile


@pytest.mark.parametrize(
    ("variables", "writes"), [((), False), (("PYTHONDONTWRITEBYTECODE",), True), (("TOKEN",), False)]
)
def test_a_service_of_the_users_may_say_so_too(variables, writes):
    service = ServiceFact(
        name="web", file="compose.yml", context=".", dockerfile="Dockerfile", command=("python", "app.py"),
        variables=frozenset(variables),
    )  # fmt: skip
    assert writes_bytecode(compose_files=("compose.yml",), services=(service,), service=service) is writes
