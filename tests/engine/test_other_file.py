"""A service that is not all in the compose file of the root: what it needs comes with it, and the user's own stays as it is."""

import json

import pytest

from tests.engine.projects import command, dkdbg, must, repo

pytestmark = pytest.mark.engine

DOCKERFILE = "FROM python:3.11\nWORKDIR /code\nCOPY . .\n"
FILES = {"Dockerfile": DOCKERFILE, "train.py": "print(1)\n", "key": "k", "docker/key": "k"}
APP = """\
services:
  app:
    build: {context}
    command: python train.py
    volumes: ["cache:/cache", "./key:/plain", {{type: volume, source: scratch, target: /scratch}}, "/anonymous"]
    networks: {{inner: {{aliases: [trainer]}}}}
    secrets: [key]
    configs: [{{source: conf, target: /conf}}]
"""
PARTS = """\
volumes: {cache: {labels: {of: "${OWNER:-nobody}"}}, scratch: , unused: , kept: {labels: {of: db}}}
networks: {inner: {internal: true}, unused: }
secrets: {key: {file: key}, unused: {file: nowhere}}
configs: {conf: {file: ./key}}
"""
DEPENDS = "    depends_on: [db]\n"
DB = "  db: {image: postgres, volumes: ['kept:/data'], depends_on: [key-server], env_file: not-there.env}\n  key-server: {image: vault}\n"


def config(root, *flags):
    """What compose makes of the repository."""
    return json.loads(command(["docker", "compose", *flags, "config", "--format", "json"], root).stdout)


@pytest.fixture
def made(tmp_path):
    def make(files, *words, at="repo"):
        root = repo(tmp_path / at, {**FILES, **files})
        before = config(root) if "compose.yaml" in files else None
        said = must(dkdbg(root, "init", "--yes", *words)).stdout
        if before is not None:
            assert config(root) == before
        return root, said

    return make


def test_networks_volumes_configs_and_secrets_of_a_file_in_a_subfolder_come_with_it(made):
    root, _ = made({"docker/compose.yaml": APP.format(context="..") + PARTS})
    found = config(root, "--profile", "debug")
    service = found["services"]["app-debug"]
    assert service["networks"] == {"inner": {"aliases": ["trainer", "app"]}}
    assert {"cache", "scratch"} <= {each.get("source") for each in service["volumes"]}
    assert found["networks"]["inner"]["internal"] is True
    assert found["volumes"]["cache"]["labels"] == {"of": "nobody"}
    assert [found[section][name]["file"] for section, name in (("secrets", "key"), ("configs", "conf"))] == [
        str(root / "docker/key")
    ] * 2
    assert not [section for section in ("networks", "volumes", "secrets") if "unused" in found[section]]
    written = (root / ".dkdbg/service.compose").read_text()
    assert '"${OWNER:-nobody}"' in written


def test_what_the_compose_file_in_the_root_has_under_the_same_name_stays_as_it_is(made):
    main = (
        "services: {db: {image: postgres, volumes: ['cache:/c']}}\nvolumes: {cache: {labels: {of: root}}}\n"
    )
    root, _ = made({"compose.yaml": main, "compose-train.yaml": APP.format(context=".") + PARTS})
    found = config(root, "--profile", "debug")
    assert found["volumes"]["cache"]["labels"] == {"of": "root"}
    assert "scratch" in found["volumes"]


@pytest.mark.parametrize(
    ("file", "main"),
    [
        ("docker/compose.yaml", {}),
        ("compose-train.yaml", {"compose.yaml": "services: {web: {image: nginx, ports: ['8080:80']}}\n"}),
    ],
)
def test_what_it_depends_on_comes_with_it_and_starts_with_the_debug_service_alone(made, file, main):
    context = ".." if "/" in file else "."
    root, _ = made({**main, file: APP.format(context=context) + DEPENDS + DB + PARTS})
    if main:
        assert list(config(root)["services"]) == ["web"]
    found = config(root, "--profile", "debug")
    assert list(found["services"]["app-debug"]["depends_on"]) == ["db"]
    assert found["services"]["db"]["image"] == "postgres"
    assert found["services"]["key-server"]["image"] == "vault"
    assert found["volumes"]["kept"]["labels"] == {"of": "db"}


@pytest.mark.parametrize(
    ("file", "include", "env"),
    [
        ("svc/compose.yaml", "[svc/compose.yaml]", "svc/.env"),
        ("svc/compose.yaml", "[{path: svc/compose.yaml, project_directory: ., env_file: env/a}]", "env/a"),
        ("docker/compose.yaml", "", "docker/.env"),
    ],
)
def test_variables_of_a_file_in_a_subfolder_have_the_values_of_its_own_environment_file(
    made, file, include, env
):
    app = f"services:\n  app: {{build: {'.' if 'env/a' in env else '..'}, command: python train.py, environment: ['TAG=${{TAG:?give it}}']}}\n"
    main = {"compose.yaml": f"include: {include}\n"} if include else {}
    root, _ = made({**main, file: app, env: "TAG=inner\n"}, "--service", "app")
    assert config(root, "--profile", "debug")["services"]["app-debug"]["environment"]["TAG"] == "inner"


def test_a_file_that_itself_includes_what_is_depended_on_is_included(made):
    app = APP.format(context="..") + DEPENDS + PARTS + "include: [db.yaml]\n"
    root, _ = made({"docker/compose.yaml": app, "docker/db.yaml": "services: {db: {image: postgres}}\n"})
    found = config(root, "--profile", "debug")
    assert found["services"]["db"]["image"] == "postgres"


@pytest.mark.parametrize("gpu", ["", "    gpus: all\n"])
def test_it_runs_without_what_cannot_be_read_beside_the_compose_file_in_the_root_and_that_is_said(made, gpu):
    main = "services: {db: {image: mariadb}}\n"
    root, said = made(
        {"compose.yaml": main, "compose-train.yaml": APP.format(context=".") + gpu + DEPENDS + DB + PARTS}
    )
    found = config(root, "--profile", "debug")
    assert "depends_on" not in found["services"]["app-debug"]
    assert "runs without db, " in said


WEB = "services: {web: {image: nginx}}\n"
TRAINER = "{build: ., command: python train.py, volumes: ['.:/app']"


def trainer(more="", rest=""):
    return f"services:\n  trainer: {TRAINER}{more}}}\n{rest}"


@pytest.mark.parametrize(
    ("env", "files"),
    [
        ("./compose.yaml:./compose-train.yaml", {"compose.yaml": WEB, "compose-train.yaml": trainer(", depends_on: [db]", "  db: {image: postgres}\n")}),
        ("compose.yaml;compose-train.yaml\nCOMPOSE_PATH_SEPARATOR=;", {"compose.yaml": WEB, "compose-train.yaml": trainer()}),
        ("", {"compose.yaml": WEB, "compose.override.yaml": trainer()}),
    ],
)  # fmt: skip
def test_a_service_of_a_later_file_that_compose_merges_is_extended_from_there(made, env, files):
    named = {".env": f"COMPOSE_FILE={env}\n"} if env else {}
    root, _ = made({**files, **named}, "--service", "trainer")
    found = config(root, "--profile", "debug")["services"]["trainer-debug"]
    assert "/app" in [each["target"] for each in found["volumes"]]
    assert ("db" in found.get("depends_on", {})) == ("depends_on" in files.get("compose-train.yaml", ""))


GPU = "deploy: {resources: {reservations: {devices: [{driver: nvidia, count: 1, capabilities: [gpu]}]}}}"


@pytest.mark.parametrize("gpu", ["", f", {GPU}, runtime: nvidia"])
def test_what_an_override_adds_to_the_service_is_in_the_debug_service(made, gpu):
    added = f"{{volumes: ['.:/app', './:/work'], environment: {{A: '1'}}, command: python train.py 2, shm_size: 16gb{gpu}}}"
    base = "{build: ., command: python train.py, container_name: trainer, environment: {B: '2'}, env_file: [c.env]}"
    files = {"compose.yaml": base, "compose.override.yaml": added}
    root, _ = made(
        {"c.env": "C=3", **{name: f"services:\n  trainer: {body}\n" for name, body in files.items()}}
    )
    services = config(root, "--profile", "debug", "--profile", "devcontainer")["services"]
    for found in (services["trainer-debug"], services["trainer-debug-devcontainer"]):
        assert {"/app", "/work"} <= {each["target"] for each in found["volumes"]}
        assert found["environment"].items() >= {"A": "1", "B": "2", "C": "3"}.items()
        assert found["shm_size"] == str(16 << 30)
        assert not found.keys() & {"container_name", "runtime"}
        assert "devices" not in str(found.get("deploy"))
    assert services["trainer-debug"]["command"][-3:] == ["python", "train.py", "2"]
    if gpu:
        (root / ".env").write_text((root / ".env").read_text() + "\nDKDBG_GPU=nvidia\n")
        found = config(root, "--profile", "debug")["services"]["trainer-debug"]
        assert len(found["deploy"]["resources"]["reservations"]["devices"]) == 1


def test_of_a_file_in_another_folder_mounts_and_command_are_taken_and_the_rest_is_said(made):
    more = "services:\n  trainer: {volumes: ['./data:/data'], command: python train.py 3, environment: {A: '1'}}\n"
    named = {".env": "COMPOSE_FILE=compose.yaml:deploy/gpu.yaml\n", "data/x.py": ""}
    root, said = made({"compose.yaml": trainer(), "deploy/gpu.yaml": more, **named})
    found = config(root, "--profile", "debug")["services"]["trainer-debug"]
    assert str(root / "data") in [each["source"] for each in found["volumes"] if each["target"] == "/data"]
    assert found["command"][-3:] == ["python", "train.py", "3"]
    assert "A" not in found["environment"]
    assert "deploy/gpu.yaml adds settings to trainer" in " ".join(said.split())


def test_tags_of_an_override_that_act_on_a_merge_are_said(made):
    more = "services:\n  trainer: {environment: !reset null}\n"
    _, said = made({"compose.yaml": trainer(), "compose.override.yaml": more})
    assert "does not keep !reset and !override of compose.override.yaml" in " ".join(said.split())


def test_of_several_overrides_the_first_one_counts_as_for_compose(made):
    stale = "services: {web: {command: python stale.py}}\n"
    main = "services: {web: {build: ., command: python train.py}}\n"
    _, said = made({"compose.yaml": main, "compose.override.yml": WEB, "docker-compose.override.yml": stale})
    assert "stale.py" not in said


def test_a_compose_file_of_a_subfolder_may_come_first(tmp_path):
    files = {"docker/compose.yaml": trainer().replace("build: .", "build: ..")}
    root = repo(tmp_path / "repo", {**FILES, **files, ".env": "COMPOSE_FILE=docker/compose.yaml\n"})
    must(dkdbg(root, "init", "--yes"))
    assert "COMPOSE_FILE=docker/compose.yaml:compose.dkdbg.yaml" in (root / ".env").read_text()
    service = config(root, "--profile", "debug")["services"]["trainer-debug"]
    assert str(root / ".dkdbg") in [each["source"] for each in service["volumes"]]
    assert service["build"]["context"] == str(root)


def test_the_networks_and_services_that_the_users_own_project_has_stay_what_they_are(made):
    shared = "networks: {n: , default: {name: shared, external: true}}\n"
    files = {"compose.yaml": WEB, "compose-train.yaml": trainer(", networks: [default, n]", shared)}
    made(files, "--service", "trainer")
    files = {
        "compose.yaml": "include: [inc.yaml]\n" + WEB,
        "inc.yaml": "services: {db: {image: incdb}}\n",
        "compose-train.yaml": trainer(", depends_on: [db]", "  db: {image: otherdb}\n"),
    }
    root, said = made(files, "--service", "trainer", at="second")
    assert config(root, "--profile", "debug")["services"]["db"]["image"] == "incdb"
    assert "runs without db" in " ".join(said.split())


def test_letters_beyond_the_first_plane_and_odd_names_survive(made):
    rest = 'configs: {c1: {content: "hi \U0001f680 \\x85\\u2028\\x07"}}\nnetworks: {_n: }\n'
    files = {"compose.yaml": WEB, "compose-train.yaml": trainer(", configs: [c1], networks: [_n]", rest)}
    root, _ = made(files, "--service", "trainer")
    found = config(root, "--profile", "debug")
    assert found["configs"]["c1"]["content"] == "hi \U0001f680 \x85\u2028\x07"
    assert "_n" in found["networks"]


def test_a_file_that_needs_a_variable_does_not_take_the_users_own_down_with_it(made, tmp_path):
    needs = trainer(rest="  other: {image: x, environment: {P: '${NEED:?x}'}}\n")
    files = {"compose.yaml": WEB, "compose-train.yaml": needs}
    made(files)
    root = repo(tmp_path / "named", {**FILES, **files})
    done = dkdbg(root, "init", "--yes", "--service", "trainer")
    assert done.returncode == 2
    assert "NEED" in done.stderr
    line = done.stderr.partition("(")[2].partition(")")[0].replace("...", "1")
    command(["sh", "-c", line], root)
    must(dkdbg(root, "init", "--yes", "--service", "trainer"))
    config(root, "--profile", "debug")


def test_a_service_that_only_adds_to_another_files_is_refused(tmp_path):
    files = {"compose.yaml": WEB, "compose-dev.yaml": "services: {api: {environment: {A: '1'}}}\n"}
    root = repo(tmp_path / "repo", {**FILES, **files})
    done = dkdbg(root, "init", "--yes", "--service", "compose-dev.yaml:api")
    assert done.returncode == 2
    assert "neither an image nor a build" in done.stderr


def test_what_it_refers_to_by_any_key_comes_with_it_in_the_dev_container_too(made):
    """Each key refers to a service of its own."""
    refers = {"links": "['a:base']", "volumes_from": "[b]", "pid": "'service:c'", "depends_on": "[d]"}
    keys = "".join(f", {key}: {value}" for key, value in refers.items())
    others = "".join(
        f"  {name}: {{image: postgres, container_name: the{name}, restart: always}}\n" for name in "abcd"
    )
    files = {"compose.yaml": WEB, "compose-train.yaml": trainer(keys, others)}
    root, _ = made(files, "--service", "trainer")
    for profile in ("debug", "devcontainer"):
        found = config(root, "--profile", profile)["services"]
        assert not [name for name in "abcd" if "container_name" in found[name]]
        assert {found[name]["restart"] for name in "abcd"} == {"no"}
    taken = "services: {" + ", ".join(f"{name}: {{image: mariadb}}" for name in "abcd") + "}\n"
    root, _ = made({**files, "compose.yaml": taken}, "--service", "trainer", at="second")
    assert not refers.keys() & config(root, "--profile", "debug")["services"]["trainer-debug"].keys()


def test_a_service_of_several_containers_is_debugged_as_one(made):
    root, _ = made({"compose.yaml": trainer(", scale: 2, deploy: {replicas: 2}")})
    found = config(root, "--profile", "debug")["services"]["trainer-debug"]
    assert found.get("scale", 1) == 1
    assert found.get("deploy", {}).get("replicas", 1) == 1
