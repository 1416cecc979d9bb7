"""The debug service and the user of the dev container: values in, values out."""

from dataclasses import replace
from pathlib import Path

import pytest

from dkdbg.agent.settings import FLAG, PATTERNS, RANKS
from dkdbg.core.config import Config, parse
from dkdbg.core.facts import DockerRun, EntryPoint
from dkdbg.core.settings import KEYS
from dkdbg.setup.plan.project import REMOTE_USER
from dkdbg.setup.render.project import wanted_files
from tests.unit.setup.plan.given import dockerfile, of_service, plan, service

TRAIN = EntryPoint(command="python train.py", file="train.py", launcher="python", source="README.md")


def test_the_command_of_the_image_is_entrypoint_and_cmd_unless_compose_has_an_entrypoint():
    image = dockerfile((".", "/app"), workdir="/app", entrypoint=("python",), cmd=("app.py",))
    made = plan(dockerfiles=(image,), mappings=((".", "/app"),))
    assert made.service.argv == ("python", "app.py")
    assert made.service.mounts == ((".", "/app"),)
    assert not made.image.is_generated
    own = service(None, dockerfile="Dockerfile", entrypoint=("python", "b.py"))
    made = of_service(own, dockerfiles=(dockerfile(cmd=("unused.py",)),))
    assert made.service.argv == ("python", "b.py")
    made = plan(dockerfiles=(replace(image, entrypoint=("/init",)),), mappings=((".", "/app"),))
    assert [note for note in made.notes if "process 1" in note and note.endswith("--command app.py")]


def test_a_program_of_the_repository_runs_by_an_inherited_entrypoint_whose_cmd_is_unknown():
    image = dockerfile(
        (".", "/app"), workdir="/app", entrypoint=("/e.sh",), inherits_entrypoint=True, cmd=None
    )
    found = {"dockerfiles": (image,), "mappings": ((".", "/app"),)}
    assert plan(**found).service.argv == ("sleep", "infinity")
    assert plan(**found, entrypoint=TRAIN).service.argv == ("/e.sh", "python", "train.py")
    own = plan(**found | {"dockerfiles": (replace(image, cmd=("python", "a.py")),)}, entrypoint=TRAIN)
    assert own.service.argv == ("/e.sh", "python", "a.py")


@pytest.mark.parametrize(
    ("entrypoint", "command", "user", "is_owner"),
    [
        ((), ("python3", "train.py"), None, True),
        ((), ("sh", "-c", "cd src && PYTHONPATH=lib exec python3 -u train.py"), None, True),
        ((), ("uv", "run", "train.py"), None, True),
        (("./entrypoint.sh",), ("python3", "train.py"), None, False),
        (("./entrypoint.sh",), ("python3", "train.py"), "app", True),
        ((), ("gosu", "app", "python3", "train.py"), None, False),
        ((), ("sh", "-c", "chown -R app /data && su app -c 'python3 train.py'"), None, False),
        ((), ("supervisord", "-n"), None, False),
        ((), ("gunicorn", "--user", "app", "web:app"), None, False),
    ],
)
def test_the_owner_of_the_workspace_runs_what_needs_no_root(entrypoint, command, user, is_owner):
    image = dockerfile((".", "/app"), entrypoint=entrypoint, cmd=command, user=user)
    made = plan(dockerfiles=(image,), mappings=((".", "/app"),))
    assert made.service.as_owner is is_owner
    assert ("it runs as the user of its image" in [each.what for each in made.decisions]) is not is_owner


@pytest.mark.parametrize(("user", "whose"), [(None, "its image"), ("1000:1000", "web in compose.yaml")])
def test_a_service_that_drops_setuid_stays_with_the_user_of_plain_compose(user, whose):
    image = dockerfile((".", "/app"), cmd=("python3", "train.py"), user="app")
    made = of_service(
        service(None, dockerfile="Dockerfile", fixes_user=True, user=user), dockerfiles=(image,)
    )
    assert not made.service.as_owner
    [why] = [each.why for each in made.decisions if each.what == f"it runs as the user of {whose}"]
    assert "drops SETUID" in why


def test_a_virtual_environment_stays_visible_a_part_gets_the_whole_beside_it_and_a_narrow_mapping_comes_first():
    command = ("/app/.venv/bin/python", "a.py")
    image = dockerfile((".", "/app"), workdir="/app", cmd=command, venvs=("/app/.venv",))
    made = plan(dockerfiles=(image,), mappings=((".", "/app"),))
    assert made.service.masks == ("/app/.venv",)
    made = plan(dockerfiles=(dockerfile(("app", "/app/app")),), mappings=(("app", "/app/app"),))
    assert [str(m.remote) for m in made.mappings] == ["/app/app", "/workspace"]
    assert made.workspace == "/workspace"
    whole = of_service(service(binds=((".", "/app"),)), mappings=((".", "/app"),))
    assert whole.service.mounts == ()
    copies = ((".", "/app"), ("lib", "/opt/lib"))
    made = plan(dockerfiles=(dockerfile(*copies),), mappings=copies)
    assert [m.local for m in made.mappings] == ["lib", "."]


def test_a_script_waits_for_an_editor_and_a_server_or_a_service_with_ports_does_not():
    server = EntryPoint(command="uvicorn main:app", file="main.py", launcher="uvicorn")
    assert plan(entrypoint=server, candidates=(server,)).service.wait == 0
    assert plan(entrypoint=TRAIN, candidates=(TRAIN,)).service.wait == 600
    assert of_service(service(ports=(7860, 6006))).service.wait == 0


def test_the_command_of_the_flag_counts_untouched_and_in_a_shell_where_it_needs_one():
    assert plan(Config(command="python other.py"), entrypoint=TRAIN).service.command == ("python", "other.py")
    assert plan(Config(command="A=1 python x.py | tee log")).service.command[:2] == ("sh", "-c")
    command = "torchrun --nproc_per_node=8 train.py"
    assert plan(Config(command=command)).service.argv == tuple(command.split())


def test_a_service_with_our_name_is_not_merged_with_ours_and_a_devcontainer_of_the_users_stays():
    services = tuple(service(None, name=name) for name in ("web", "web-debug"))
    made = of_service(services[0], services=services)
    assert made.service.name == "web-dkdbg"
    made = plan(devcontainers=(".devcontainer/devcontainer.json",))
    assert made.devcontainer == ".devcontainer/dkdbg/devcontainer.json"


def test_other_candidates_and_notebooks_are_named_and_each_line_has_a_reason():
    other = EntryPoint(command="python sample.py", file="sample.py", launcher="python")
    made = plan(entrypoint=TRAIN, candidates=(TRAIN, other))
    (command,) = (each for each in made.choices if each.topic == "command")
    assert [each.value for each in command.options] == [TRAIN.command, "python sample.py"]
    made = plan(notebooks=3)
    assert made.service.idle
    assert any("notebooks" in note for note in made.notes)
    text = plan(entrypoint=TRAIN, candidates=(TRAIN,)).describe()
    assert all("because" in line or line.startswith("note:") for line in text.splitlines())


def test_a_placeholder_for_a_number_of_processes_is_one_rank_which_is_said():
    entry = EntryPoint(command="mpiexec -n N python a.py", file="a.py", launcher="mpiexec")
    made = plan(entrypoint=entry, candidates=(entry,))
    assert made.service.argv == ("mpiexec", "-n", "1", "python", "a.py")
    assert any("starts N; DKDBG_PROCESSES=2" in note for note in made.notes)


def test_a_number_of_processes_is_set_where_another_word_goes():
    command = "accelerate launch --multi_gpu --mixed_precision fp16 --num_processes 4 train.py"
    entry = EntryPoint(command=command, file="train.py", launcher="accelerate")
    made = plan(entrypoint=entry, candidates=(entry,))
    assert made.service.argv == (
        "accelerate",
        "launch",
        "--mixed_precision",
        "fp16",
        "--num_processes",
        "1",
        "train.py",
    )
    assert made.service.from_env == ((5, "${DKDBG_PROCESSES:-1}"),)


def test_a_command_that_compose_says_or_a_shell_that_runs_something_stays():
    assert of_service(service()).service.inherits_command
    made = of_service(service(("bash", "-c", "python a.py")), entrypoint=TRAIN, candidates=(TRAIN,))
    assert made.service.argv == ("bash", "-c", "python a.py")


SLEEPS = ("sh", "-c", "while sleep 1000; do :; done")


@pytest.mark.parametrize(
    "argv", [("/bin/bash",), ("tail", "-f", "/dev/null"), SLEEPS, ("nvidia-smi", "dmon")]
)
def test_a_service_that_only_keeps_a_shell_open_runs_the_entry_point(argv):
    made = of_service(service(argv), entrypoint=TRAIN, candidates=(TRAIN,))
    assert made.service.argv == ("python", "train.py")


def test_a_service_that_keeps_a_shell_open_behind_an_entrypoint_keeps_that_before_the_entry_point():
    idle = service(("tail", "-f", "/dev/null"), dockerfile="Dockerfile")
    image = dockerfile(entrypoint=("/entry.sh",), cmd=None)
    made = of_service(idle, dockerfiles=(image,), entrypoint=TRAIN, candidates=(TRAIN,))
    assert made.service.argv == ("/entry.sh", "python", "train.py")


def test_a_program_starts_behind_an_entrypoint_script_that_only_passes_its_command_on():
    image = dockerfile((".", "/app"), entrypoint=("/bin/entry.sh",), cmd=None)
    found = {
        "dockerfiles": (image,),
        "mappings": ((".", "/app"),),
        "passing_scripts": frozenset({"entry.sh"}),
    }
    assert plan(**found, entrypoint=TRAIN).service.argv == ("/bin/entry.sh", "python", "train.py")
    assert plan(**found).service.idle  # nothing to pass on: it would end at once
    for command in ("python b.py", "/bin/entry.sh python b.py"):
        made = plan(Config(command=command), **found, entrypoint=TRAIN)
        assert made.service.argv == ("/bin/entry.sh", "python", "b.py")
    works = {**found, "passing_scripts": frozenset()}
    assert plan(**works, entrypoint=TRAIN).service.argv == ("/bin/entry.sh",)
    assert plan(Config(command="python b.py"), **works).service.argv == ("python", "b.py")


def test_what_a_document_sets_before_the_command_is_said():
    sets = ("CUDA_VISIBLE_DEVICES=0", "NCCL_DEBUG=INFO")
    entry = replace(TRAIN, source="README.md", assigned=sets)
    said = " ".join(plan(entrypoint=entry, candidates=(entry,)).notes)
    assert "dkdbg init --command 'env NCCL_DEBUG=INFO python train.py'" in said
    assert "CUDA_VISIBLE" not in said


@pytest.mark.parametrize(
    ("files", "said"), [((".env",), "which is missing"), ((".env", "b.env"), "some of which are missing")]
)
def test_one_missing_environment_file_is_not_called_some(files, said):
    assert said in " ".join(of_service(service(env_files=files)).notes)


def test_a_service_of_the_same_image_that_is_left_out_is_said():
    onbuild = dockerfile(base="acme/onbuild:1", cmd=("/app/go.sh",))
    own = service(None, name="pretrain", dockerfile="Dockerfile")
    others = (
        service(None, name="web", dockerfile="web/Dockerfile"),
        service(("npm", "start"), dockerfile="Dockerfile"),
    )
    made = plan(dockerfiles=(onbuild,), services=(own, *others))
    [said] = [each for each in made.notes if "left out" in each]
    assert said.startswith("pretrain of compose.yaml runs this image too")
    known = plan(dockerfiles=(onbuild,), services=(replace(own, is_python=True),))
    assert not [each for each in known.notes if "left out" in each]


def test_a_relative_pythonpath_before_the_command_is_the_debug_services_unless_its_own_has_one():
    entry = replace(TRAIN, source="Makefile", assigned=("PYTHONPATH=.:src", "OUT=$HOME/out"))
    idle = dockerfile((".", "/app"), cmd=None)
    made = plan(entrypoint=entry, candidates=(entry,), dockerfiles=(idle,))
    assert made.service.env == (("PYTHONPATH", ".:src"),)
    assert ("environment PYTHONPATH=.:src", "the documented command line sets it") in [
        (each.what, each.why) for each in made.decisions
    ]
    [said] = [each for each in made.notes if "before the command" in each]
    assert said.startswith("Makefile sets OUT=$HOME/out before the command; dkdbg leaves that out.")
    assert said.endswith("'env PYTHONPATH=.:src '\"'\"'OUT=$HOME/out'\"'\"' python train.py'")
    given = DockerRun(source="README.md", mounts=((".", "/app"),), env=(("PYTHONPATH", "/app/lib"),))
    documented = plan(entrypoint=entry, candidates=(entry,), dockerfiles=(idle,), docker_run=given)
    theirs = service(("tail", "-f", "/dev/null"), pythonpath="/app/lib", variables=frozenset({"PYTHONPATH"}))
    extended = of_service(theirs, entrypoint=entry, candidates=(entry,))
    assert (documented.service.env, extended.service.env) == (given.env, ())
    for value in ("/home/al/proj", "$PWD", "~/proj", ""):
        other = replace(entry, assigned=(f"PYTHONPATH={value}",))
        assert plan(entrypoint=other, candidates=(other,), dockerfiles=(idle,)).service.env == ()
    copied = plan(
        entrypoint=entry, candidates=(entry,), dockerfiles=(idle,), mappings=((".", "/app"),),
        installed=(("Dockerfile", "copied"),), source_root="src",
    )  # fmt: skip
    assert copied.service.pythonpath == "/app/src:.:src"


@pytest.mark.parametrize(
    ("workdir", "started_in"), [("/home/me", "/workspace"), ("/workspace", None), ("/", "/workspace")]
)
def test_a_documented_command_begins_in_the_repository_wherever_the_image_would_begin(workdir, started_in):
    image = dockerfile(path="docker/Dockerfile", workdir=workdir, cmd=None)
    idle = service(("sleep", "infinity"), context="docker", dockerfile=image.path)
    made = of_service(idle, dockerfiles=(image,), entrypoint=TRAIN, candidates=(TRAIN,))
    assert made.service.working_dir == started_in
    kept = of_service(replace(idle, command=("python", "serve.py")), dockerfiles=(image,))
    assert kept.service.working_dir is None


COPIES_ALL = dockerfile((".", "/app"), workdir="/app", cmd=("python", "train.py"))


def writes_bytecode(image=COPIES_ALL, **values):
    made = plan(
        entrypoint=TRAIN, candidates=(TRAIN,), dockerfiles=(image,), mappings=((".", "/app"),), **values
    )
    assert [each.why for each in made.decisions if "PYTHONDONTWRITEBYTECODE" in each.what] == (
        ["Dockerfile copies code before it installs packages, so that new __pycache__ files would make the next start install again"]
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
    own = service(dockerfile="Dockerfile", variables=frozenset(variables))
    assert writes_bytecode(compose_files=(own.file,), services=(own,), service=own) is writes


def test_an_image_of_ours_has_no_user_of_its_own_and_that_of_the_repositorys_dockerfile_is_taken():
    assert plan(entrypoint=TRAIN).remote_user == REMOTE_USER
    assert plan(entrypoint=TRAIN, dockerfiles=(dockerfile(user="trainer:users"),)).remote_user == "trainer"


@pytest.mark.parametrize("user", [None, "root", "0:0", "1000", "${UID}:${GID}"])
def test_root_a_number_or_a_variable_is_no_user_to_reopen_as(user):
    own = service(None, context=None, image="i", user=user, is_python=True)
    assert of_service(own, entrypoint=TRAIN).remote_user == REMOTE_USER


@pytest.mark.parametrize("key", [key for key, each in KEYS.items() if each.in_compose])
def test_each_key_for_the_debug_service_is_the_default_of_its_variable_there(key, tmp_path):
    setting = KEYS[key]
    kinds = {FLAG: ("true", "1"), RANKS: ('"0,3"', "0,3"), PATTERNS: ('"beat*"', "beat*")}
    if isinstance(setting.values, range):
        typed, shown = str(setting.values[7]), str(setting.values[7])
    elif isinstance(setting.values, tuple):
        other = next(each for each in setting.values if each != setting.default)
        typed, shown = f'"{other}"', other
    else:
        typed, shown = kinds[setting.values]
    config = parse(f"[debug]\n{key} = {typed}\n")
    made = plan(config, entrypoint=TRAIN, candidates=(TRAIN,))
    files = wanted_files(tmp_path, made, config, local_port=5678)
    assert f"${{{setting.env}:-{shown}}}" in files[made.service.compose_file].content.decode()


def test_code_that_is_copied_into_the_working_directory_of_an_unknown_base_is_named():
    image = dockerfile((".", "/"), base="mlbox:1", workdir_is_assumed=True)
    wanted = "Dockerfile has no absolute WORKDIR, so its COPY depends on mlbox:1"
    assert [note for note in plan(dockerfiles=(image,)).notes if note.startswith(wanted)]
    below = replace(image, workdir="/sub", copies=((".", "/sub"),))
    assert [
        note for note in plan(dockerfiles=(below,), mappings=below.copies).notes if note.startswith(wanted)
    ]
    built = of_service(service(dockerfile="Dockerfile"), dockerfiles=(image,))
    assert [note for note in built.notes if note.startswith(f"{wanted}: write")]
    placed = dockerfile((".", "/app"), base="mlbox:1", workdir="/app")
    assert not [
        note for note in plan(dockerfiles=(placed,), mappings=((".", "/app"),)).notes if "WORKDIR" in note
    ]


def test_a_mount_that_the_readme_names_is_no_reason_for_one_of_an_image_of_ours():
    run = DockerRun(source="README.md", mounts=((".", "/workspace"),))
    [why] = [
        each.why
        for each in plan(entrypoint=TRAIN, docker_run=run).decisions
        if each.what == "mapping . -> /workspace"
    ]
    assert why == "the repository is mounted there"


@pytest.mark.parametrize(("root", "named"), [("/home/al/proj", 0), ("/home/al/x:y/proj", 1)])
def test_a_checkout_that_docker_cannot_mount_is_named(root, named):
    notes = plan(root=Path(root)).notes
    assert [f"cannot mount {root}," in note for note in notes].count(True) == named


SRC_APP = EntryPoint(command="python src/app.py", file="src/app.py", launcher="python")
COPIES_PARTS = {"workdir": "/app", "cmd": None}
CONSOLE_SCRIPT = EntryPoint(command="mytool train", file="src/pkg/cli.py", launcher="console-script")
MODULE = EntryPoint(command="python -m pkg.train", file="src/pkg/train.py", launcher="python", home="src")


@pytest.mark.parametrize(
    ("entry", "image", "installed", "mapped"),
    [
        (SRC_APP, dockerfile(("src", "/opt/src"), cmd=None), "", [". -> /workspace"]),
        (SRC_APP, dockerfile(("src", "/app/src"), ("lib", "/app/lib"), **COPIES_PARTS), "", [". -> /workspace"]),
        (TRAIN, dockerfile((".", "/app"), ("lib", "/opt/lib"), **COPIES_PARTS), "", [". -> /app"]),
        (TRAIN, dockerfile(("src", "/opt/src"), env=(("PYTHONPATH", "/opt/src"),), cmd=None), "", ["src -> /opt/src", ". -> /workspace"]),
        (TRAIN, dockerfile(("src", "/app/src"), ("train.py", "/app/train.py"), **COPIES_PARTS), "editable", ["src -> /app/src", ". -> /workspace"]),
        (SRC_APP, dockerfile(("src", "/opt/src"), env=(("PYTHONPATH", "/opt/src"),), cmd=None), "", [". -> /workspace"]),
        (CONSOLE_SCRIPT, dockerfile(("src", "/app/src"), **COPIES_PARTS), "editable", ["src -> /app/src", ". -> /workspace"]),
        (MODULE, dockerfile(("src", "/app/src"), **COPIES_PARTS), "editable", ["src -> /app/src", ". -> /workspace"]),
        (replace(MODULE, home="."), dockerfile(("src", "/app/src"), **COPIES_PARTS), "editable", [". -> /workspace"]),
        (TRAIN, dockerfile(("libs", "/opt/libs"), env=(("PYTHONPATH", "/usr/lib/foo"),), cmd=None), "", [". -> /workspace"]),
        (TRAIN, dockerfile(("libs", "/opt/libs"), env=(("PYTHONPATH", "$X/libs"),), cmd=None), "", ["libs -> /opt/libs", ". -> /workspace"]),
        (None, dockerfile(("src", "/opt/src"), cmd=("python", "/opt/src/app.py")), "", ["src -> /opt/src", ". -> /workspace"]),
        (None, dockerfile(("src", "/src"), (".", "/workspace"), workdir="/workspace", cmd=("python", "src/app.py")), "", [". -> /workspace"]),
        ("python src/app.py", dockerfile(("src", "/src"), workdir="/workspace"), "", [". -> /workspace"]),
        ("python -m src.app", dockerfile(("src", "/src"), workdir="/workspace"), "", [". -> /workspace"]),
        ("python ../src/app.py", dockerfile(("src", "/src"), workdir="/workspace"), "", ["src -> /src", ". -> /workspace"]),
        ("python /src/app.py", dockerfile(("src", "/src"), workdir="/workspace"), "", ["src -> /src", ". -> /workspace"]),
        ("python run.py", dockerfile(("src", "/src"), workdir="/workspace", env=(("PYTHONPATH", "/src"),)), "", ["src -> /src", ". -> /workspace"]),
        ("cd /src && python app.py", dockerfile(("src", "/src"), workdir="/workspace"), "", ["src -> /src", ". -> /workspace"]),
    ],
)  # fmt: skip
def test_files_that_a_command_loads_from_the_workspace_are_not_mapped_to_the_copies_of_the_image(
    entry, image, installed, mapped
):
    config = Config(command=entry) if isinstance(entry, str) else None
    values = {"entrypoint": entry, "candidates": (entry,)} if entry and not config else {}
    made = of_service(
        service(None, dockerfile=image.path), config, dockerfiles=(image,), mappings=image.copies,
        installed=((image.path, installed),), **values,
    )  # fmt: skip
    assert [f"{m.local} -> {m.remote}" for m in made.mappings] == mapped
    assert [each.what for each in made.decisions if each.what.startswith("mapping")] == [
        f"mapping {each}" for each in mapped
    ]
    assert {*image.copies} <= {*made.service.mounts}


def test_a_mount_of_the_user_s_service_stays_mapped_beside_the_workspace():
    base = service(None, dockerfile="Dockerfile", binds=(("libs", "/opt/libs"),))
    made = of_service(
        base, dockerfiles=(dockerfile(cmd=None),), mappings=base.binds, entrypoint=TRAIN, candidates=(TRAIN,)
    )
    assert [f"{m.local} -> {m.remote}" for m in made.mappings] == ["libs -> /opt/libs", ". -> /workspace"]


@pytest.mark.parametrize(("target", "is_said"), [("/w", True), ("/w/data", False)])
def test_a_volume_that_the_mounted_checkout_replaces_is_named(target, is_said):
    one = service(dockerfile="Dockerfile", volumes=(("data", target),))
    made = of_service(one, dockerfiles=(dockerfile((".", "/w")),))
    assert made.service.mounts == ((".", "/w"),)
    assert any("your volume data at /w is replaced" in note for note in made.notes) == is_said


def test_the_reason_for_a_new_compose_file_does_not_deny_the_one_of_a_subfolder():
    made = of_service(service(file="examples/compose.yml"))
    said = next(each for each in made.decisions if each.what.startswith("service "))
    assert said.what == "service web-debug in compose.yaml"
    assert said.why.endswith("examples/compose.yml under debugpy; this folder has no compose file yet")
