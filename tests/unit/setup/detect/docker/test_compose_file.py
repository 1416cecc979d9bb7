"""Compose files are read for facts, without an engine."""

import pytest

from dkdbg.setup.detect.docker.compose_file import merge


def services(project):
    return {fact.name: fact for fact in project.facts().services}


def test_the_default_file_comes_first_in_compose_own_order(project):
    project.write("docker-compose.yml", "services: {}\n").write("compose.yaml", "services: {}\n")
    project.write("docker-compose.gpu.yml", "services: {}\n").write("sub/compose.yml", "services: {}\n")
    assert project.facts().compose_files == (
        "compose.yaml", "docker-compose.yml", "docker-compose.gpu.yml", "sub/compose.yml",
    )  # fmt: skip


def test_a_broken_file_below_the_root_is_a_problem(project):
    project.write("examples/a/compose.yaml", "services: [\n")
    assert any(problem.startswith("examples/a/compose.yaml:") for problem in project.facts().problems)


def test_tags_are_plain_values_anchors_and_merge_keys_are_followed_and_variables_are_filled_in(project):
    service = "{image: x, ports: !override ['8000:80'], user: !reset null}"
    project.write("compose.yaml", f"services: {{a: {service}}}\n")
    assert services(project)["a"].ports == (80,)
    project.empty().write(
        "compose.yaml",
        """
        x-base: &base
          image: python:3.11
          profiles: [gpu]
        services:
          a:
            <<: *base
            command: python a.py
    """,
    )
    fact = services(project)["a"]
    assert (fact.image, fact.profiles, fact.command) == ("python:3.11", ("gpu",), ("python", "a.py"))
    project.empty().write(".env", "TAG=9 # nine\n")
    service = "image: i:${TAG}-${B:-x}-${C:-${D:-y}}\n    ports: ['${P:-80}:81']\n"
    project.write("compose.yaml", f"services:\n  a:\n    {service}")
    assert (services(project)["a"].image, services(project)["a"].ports) == ("i:9-x-y", (81,))


def test_a_service_of_another_file_is_extended_with_its_own_paths_also_in_a_circle(project):
    project.write("base/compose.yml", "services:\n  b:\n    build: .\n    volumes: ['./src:/src']\n")
    project.write("base/Dockerfile", "FROM python:3.11\n").write("base/src/a.py")
    service = "{extends: {file: base/compose.yml, service: b}, command: python a.py}"
    project.write("compose.yaml", f"services: {{a: {service}}}\n")
    fact = services(project)["a"]
    assert (fact.context, fact.dockerfile, fact.binds) == ("base", "base/Dockerfile", (("base/src", "/src"),))
    project.empty().write("base/c.yml", "services: {b: {image: x, env_file: [.env, {path: x.env}]}}\n")
    project.write("base/.env")
    project.write("compose.yaml", "services: {a: {extends: {file: base/c.yml, service: b}}}\n")
    assert services(project)["a"].env_files == ("base/.env", "base/x.env")
    assert services(project)["a"].needs_files == (("base/x.env", None),)
    project.write("base/c.yml", "services: {b: {image: x, env_file: [/etc/x.env, ~/y.env, .env]}}\n")
    assert (services(project)["a"].env_files, services(project)["a"].needs_files) == ((), ())
    project.write("base/c.yml", "services: {b: {image: x, env_file: [prod@eu.env]}}\n")
    assert services(project)["a"].needs_files == (("base/prod@eu.env", None),)
    reset = "{b: {extends: c, entrypoint: !reset null}, c: {image: x, entrypoint: [e]}}"
    project.write("base/c.yml", f"services: {reset}\n")
    assert services(project)["a"].entrypoint is None
    project.empty().write("compose.yaml", "services:\n  a: {extends: b}\n  b: {extends: a}\n")
    assert set(services(project)) == {"a", "b"}


def test_the_override_file_is_part_of_the_default_one_and_compose_file_names_the_project(project):
    project.write("compose.yaml", "services:\n  a:\n    image: x\n    command: [a]\n    ports: ['1:2']\n")
    project.write("compose.override.yaml", "services:\n  a:\n    command: [b]\n    ports: ['3:4']\n")
    fact = services(project)["a"]
    assert (fact.command, fact.ports, fact.file) == (("b",), (2, 4), "compose.yaml")
    project.empty().write(".env", "COMPOSE_FILE=a.yml:b.yml\n")
    project.write("a.yml", "services:\n  a: {image: x}\n").write("b.yml", "services:\n  a: {command: [b]}\n")
    facts = project.facts()
    assert (facts.compose_env, facts.services[0].image) == ("a.yml:b.yml", "x")
    assert facts.services[0].command == ("b",)
    theirs, ours = (
        {"command": [1], "ports": [1], "a": {"b": 1}},
        {"command": [2], "ports": [2], "a": {"c": 2}},
    )
    merged = merge(theirs, ours)
    assert merged == {"command": [2], "ports": [1, 2], "a": {"b": 1, "c": 2}}


PLAIN = "{image: x, entrypoint: [e], command: [c], ports: ['1:2']}"


@pytest.mark.parametrize(
    ("one", "two", "name", "says"),
    [
        (f"a: {PLAIN}", "a: {entrypoint: !reset null}", "entrypoint", None),
        (f"a: {PLAIN}", "a: {command: !override [d]}", "command", ("d",)),
        (f"a: {PLAIN}", "a: {ports: !reset []}", "ports", ()),
        (f"a: {PLAIN}", "a: {ports: !override ['3:4']}", "ports", (4,)),
        ("a: {image: x, environment: {A: 1, B: 2}}", "a: {environment: {A: !reset x}}", "variables", {"B"}),
        (f"a: {PLAIN}, b: {{image: y}}", "a: !override {image: z}, b: !reset null", "command", None),
        ("b: {image: y}", "a: {image: x}, b: !reset null", "command", None),
        ("a: {image: x, command: !reset [c]}", "a: {user: '5'}", "command", None),
        (f"b: {PLAIN}, a: {{extends: b}}", "a: {command: !reset null}", "command", None),
        (f"b: {PLAIN}, a: {{extends: b, command: !reset null}}", "b: {command: [d]}", "command", None),
    ],
)
def test_tags_of_compose_remove_or_replace_what_an_earlier_file_or_an_extended_service_says(
    project, one, two, name, says
):
    project.write("compose.yaml", f"services: {{{one}}}\n")
    project.write("compose.override.yaml", f"services: {{{two}}}\n")
    found = services(project)
    assert getattr(found["a"], name) == says
    assert ("b" in found) == ("b: !reset" not in two and "b:" in one + two)


@pytest.mark.parametrize(
    ("one", "two", "name", "says"),
    [
        ("build: ./api", "build: {target: dev}", "dockerfile", "api/Dockerfile"),
        ("build: {context: ., args: [A=1]}", "build: ./api", "context", "api"),
        ("depends_on: [b]", "depends_on: {c: {required: false}}", "depends_on", ("b", "c")),
        ("depends_on: {b: {required: false}}", "depends_on: [c, b]", "optional", ()),
        ("environment: [PYTHONPATH=/a, B]", "environment: {C: 1}", "variables", {"PYTHONPATH", "B", "C"}),
        ("environment: {PYTHONPATH: /a}", "environment: [PYTHONPATH=/b=]", "pythonpath", "/b="),
        ("networks: [n]", "networks: {m: {aliases: [a]}, n: }", "networks", ("n", "m")),
        ("networks: [n, m]", "networks: [m, n]", "networks", ("n", "m")),
        ("env_file: .env", "env_file: [no.env]", "env_files", (".env", "no.env")),
        ("env_file: .env", "env_file: no.env", "env_files", (".env", "no.env")),
        (
            "volumes: ['.:/a', './api:/b']",
            "volumes: ['./api:/a:ro']",
            "binds",
            (("api", "/a"), ("api", "/b")),
        ),
        (
            "volumes: ['${X:-.}:/a']",
            "volumes: [{type: bind, source: ./api, target: /a}]",
            "binds",
            (("api", "/a"),),
        ),
    ],
)
def test_short_and_long_forms_of_two_files_are_merged_as_in_compose(project, one, two, name, says):
    project.write(".env").write("api/Dockerfile", "FROM x AS dev\n").write("api/a.py").write("Dockerfile")
    for file, body in (("compose.yaml", one), ("compose.override.yaml", two)):
        project.write(file, f"services: {{b: {{image: x}}, c: {{image: x}}, a: {{{body}}}}}\n")
    assert getattr(services(project)["a"], name) == says


def test_a_service_may_have_the_name_of_a_key(project):
    project.write("compose.yaml", "services: {command: {image: x}, build: {image: y}}\n")
    project.write("compose.override.yaml", "services: {command: {user: '1'}, build: {user: '2'}}\n")
    found = {name: (fact.image, fact.user) for name, fact in services(project).items()}
    assert found == {"command": ("x", "1"), "build": ("y", "2")}


def test_a_tag_replaces_all_services_and_a_tagged_one_is_no_error_elsewhere(project):
    project.write("compose.yaml", "services: {a: {image: x}}\n")
    project.write("compose.override.yaml", "services: !override {b: {image: y}}\n")
    project.write("other.compose.yaml", "services: {c: !override {image: z}, d: !reset null}\n")
    assert {name: fact.image for name, fact in services(project).items()} == {"b": "y", "c": "z"}


@pytest.mark.parametrize("value", ["", ":", ": "])
def test_compose_file_of_the_env_file_without_a_name_names_nothing(project, value):
    project.write(".env", f"COMPOSE_FILE={value}\n").write("compose.yaml", "services:\n  a: {image: x}\n")
    facts = project.facts()
    assert (facts.compose_env, [service.name for service in facts.services]) == (None, ["a"])


RESERVED = "deploy: {resources: {reservations: {devices: [{%s}]}}}"


@pytest.mark.parametrize(
    ("body", "asks"),
    [
        (RESERVED % "driver: nvidia, count: 1, capabilities: [gpu]", True),
        (RESERVED % "device_ids: ['0'], capabilities: [compute, utility]", True),
        (RESERVED % "driver: cdi, device_ids: ['nvidia.com/gpu=all']", True),
        ("gpus: all", True),
        ("runtime: nvidia", True),
        ("devices: ['/dev/kfd', '/dev/dri']", True),
        ("devices: ['nvidia.com/gpu=0']", True),
        ("devices: ['/dev/ttyUSB0']", False),
        ("deploy: {}", False),
        ("environment: [NVIDIA_VISIBLE_DEVICES=all]", False),
    ],
)
def test_the_ways_of_asking_for_a_gpu(project, body, asks):
    project.write("compose.yaml", f"services:\n  a:\n    image: x\n    {body}\n")
    assert services(project)["a"].gpu is asks


@pytest.mark.parametrize(
    ("port", "container"),
    [("8004:8000", (8000,)), ("127.0.0.1:1:9000/tcp", (9000,)), ("'5000'", (5000,)), ("{target: 80, published: 1}", (80,)),
     ("7000-7002:7000-7002", (7000,))],
)  # fmt: skip
def test_ports_are_those_inside_the_container(project, port, container):
    project.write("compose.yaml", f"services:\n  a:\n    image: x\n    ports:\n      - {port}\n")
    assert services(project)["a"].ports == container


@pytest.mark.parametrize("source", [".", "./", "${PWD}", "$PWD"])
def test_a_bind_of_the_whole_repository(project, source):
    project.write("compose.yaml", f"services: {{a: {{image: x, volumes: ['{source}:/w:ro']}}}}\n")
    assert services(project)["a"].binds == ((".", "/w"),)


@pytest.mark.parametrize(
    ("volume", "options", "bind"),
    [
        ("'code:/w:ro'", "{type: none, o: bind, device: '${PWD}/src'}", ("src", "/w")),
        (
            "{type: volume, source: code, target: /w}",
            "{type: none, o: 'ro,rbind', device: $PWD}",
            (".", "/w"),
        ),
        ("'code:/w'", "{type: nfs, o: addr=10.0.0.1, device: ':/src'}", None),
        ("'code:/w'", "{type: none, o: bind, device: /data}", None),
    ],
)
def test_a_volume_that_binds_a_folder_of_the_repository_is_a_bind(project, volume, options, bind):
    project.write("src/a.py").write(
        "compose.yaml",
        f"services: {{a: {{image: x, volumes: [{volume}]}}}}\nvolumes: {{code: {{driver_opts: {options}}}}}\n",
    )
    assert services(project)["a"].binds == ((bind,) if bind else ())


def test_named_volumes_and_foreign_folders_are_no_binds_and_contexts_are_found_above_not_elsewhere(project):
    volumes = "['data:/d', '/tmp:/t', '~/x:/x', '../out:/o']"
    project.write("compose.yaml", f"services: {{a: {{image: x, volumes: {volumes}}}}}\n")
    assert (services(project)["a"].binds, services(project)["a"].volumes) == ((), (("data", "/d"),))
    build = "{context: .., dockerfile: docker/Dockerfile}"
    project.empty().write("docker/compose.yml", f"services: {{a: {{build: {build}}}}}\n")
    project.write("docker/Dockerfile", "FROM python:3.11\n")
    fact = services(project)["a"]
    assert (fact.context, fact.dockerfile) == (".", "docker/Dockerfile")
    project.empty().write("compose.yaml", "services:\n  a:\n    build: https://github.com/x/y.git\n")
    assert services(project)["a"].context is None


def test_the_shell_folder_is_the_files_own_unless_it_is_named_or_builds_from_the_root(project):
    project.write("examples/arm/compose.yml", "services: {a: {build: ., volumes: ['$PWD:/app']}}\n")
    project.write("examples/arm/README.md", "docker compose -f examples/arm/compose.yml up\n").write("x.py")
    assert services(project)["a"].binds == ((".", "/app"),)
    project.empty().write("docker/compose.yml", "services: {a: {build: '..', volumes: ['${PWD}:/app']}}\n")
    assert services(project)["a"].binds == ((".", "/app"),)
    project.empty().write("demo/compose.yml", "services: {a: {build: ., volumes: ['$PWD:/app']}}\n")
    assert services(project)["a"].binds == (("demo", "/app"),)


@pytest.mark.parametrize(
    ("said", "needs"),
    [
        ("build: .\n    volumes: ['${DATA}:/data', '$RUNS/x:/runs']", ("DATA",)),
        ("build: .\n    volumes: ['${DATA:-./data}:/data', '.:/app', 'cache:/c', '/anonymous']", ()),
        ("image: ${IMAGE}", ("IMAGE",)),
        ("image: ${IMAGE:-python:3.12}\n    environment: [TOKEN, 'A=${B}']", ()),
        ("build: .\n    image: ${IMAGE}", ()),
        ("build: {context: ., args: {KEY: '${KEY:?say it}'}}", ("KEY",)),
        ("build: .\n    environment: {A: '$${NOT:?}', B: '${KNOWN:?}', C: '${EMPTY?}', D: '${EMPTY:?}'}", ("EMPTY",)),
    ],
)  # fmt: skip
def test_variables_for_which_compose_refuses_the_file_are_known(project, said, needs):
    project.write(".env", "KNOWN=1\nEMPTY=\n").program("train.py")
    project.write("compose.yml", f"services:\n  train:\n    {said}\n")
    assert [each.needs for each in project.facts().services] == [needs]


@pytest.mark.parametrize(
    ("example", "known"),
    [(".env.example", ".env.example"), ("example.env", "example.env"), (".env.sample", ".env.sample"), ("env.md", None)],
)  # fmt: skip
def test_environment_files_without_which_compose_refuses_are_known_with_the_example(project, example, known):
    project.write(
        "compose.yml",
        """\
services:
  train: {build: ., env_file: [there.env, {path: maybe.env, required: false}]}
  web: {build: ., env_file: .env}
  later: {build: ., env_file: later.env, profiles: [x]}
""",
    )
    project.write("there.env", "A=1\n").write(example, "B=2\n").program("train.py")
    assert [each.needs_files for each in project.facts().services] == [((".env", known),)] * 3


def test_keys_that_are_no_strings_stop_nothing_a_file_of_a_stage_is_a_compose_file_by_its_services(project):
    networks = "networks: {n: {x-since: {2024-01-01: first, 1: {2: 3}}}}\n"
    project.write("examples/compose.yaml", "services: {s: {image: x, networks: [n]}}\n" + networks)
    project.program("train.py", "import torch")
    assert project.facts().services[0].parts[0][2] == '{"x-since": {"2024-01-01": "first", "1": {"2": 3}}}'
    body = "services:\n  web: {build: ., command: python train.py}\n"
    project.empty().write("local.yml", "version: '3'\n\n" + body).write("production.yml", body)
    project.write("dev.yaml", "lr: 0.1\n")
    project.write("conf/local.yml", body).write("Dockerfile", "FROM python:3.11\nWORKDIR /app\nCOPY . .\n")
    project.program("train.py")
    facts = project.facts()
    assert facts.compose_files == ("local.yml", "production.yml")
    assert (facts.service.name, facts.service.file) == ("web", "local.yml")


def test_services_of_an_included_file_are_read_whatever_it_is_called(project):
    project.write(
        "infra/jobs.yaml", "services:\n  train: {build: {context: .., dockerfile: ops/Dockerfile}}\n"
    )
    project.write("ops/Dockerfile", "FROM python:3.11\nCMD python train.py\n").write("train.py")
    project.write("compose.yaml", "include:\n  - path: infra/jobs.yaml\n")
    fact = services(project)["train"]
    assert (fact.file, fact.context, fact.dockerfile) == ("infra/jobs.yaml", ".", "ops/Dockerfile")
    assert project.facts().service == fact


def test_environment_files_of_an_include_that_lie_outside_of_the_repository_are_left_out(project):
    project.write("svc/compose.yaml", "services: {train: {image: x}}\n").write("svc/.env", "A=1\n")
    files = "[/etc/passwd, ../etc/passwd, svc/../../etc/passwd]"
    project.write("compose.yaml", f"include: [{{path: svc/compose.yaml, env_file: {files}}}]\n")
    assert services(project)["train"].include_env == ()


@pytest.mark.parametrize(
    ("capabilities", "fixes"),
    [
        ("cap_drop: [ALL]", True),
        ("cap_drop: [cap_setuid]", True),
        ("cap_drop: [ALL], cap_add: [SETUID, CHOWN]", False),
        ("cap_drop: [NET_RAW]", False),
    ],
)
def test_a_service_without_setuid_cannot_change_its_user(project, capabilities, fixes):
    project.write("compose.yaml", f"services: {{a: {{image: x, {capabilities}}}}}\n")
    assert services(project)["a"].fixes_user is fixes


def test_a_dockerfile_in_the_compose_file_is_read_like_one_beside_it(project):
    project.write("train.py", "print(1)\n").write(
        "compose.yaml",
        """
        services:
          job:
            build:
              dockerfile_inline: |
                FROM python:3.11
                WORKDIR /app
                COPY . .
                CMD ["python", "train.py"]
          other: {build: {dockerfile_inline: "FROM scratch"}}
    """,
    )
    facts = project.facts()
    assert facts.service is not None
    assert (facts.service.name, facts.mappings) == ("job", ((".", "/app"),))
    [found] = [each for each in facts.dockerfiles if each.path == facts.service.dockerfile]
    assert (found.cmd, found.path) == (("python", "train.py"), "compose.yaml:job")
