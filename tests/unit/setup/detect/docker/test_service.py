"""The compose service to debug, and where the code lies in it."""

from pathlib import PurePosixPath

import pytest

from dkdbg.core.config import Config
from dkdbg.setup.plan.project import plan_project

WEB = """
services:
  redis: {image: 'redis:7'}
  worker:
    build: ./project
    command: celery -A worker.celery worker
    volumes: ['./project:/usr/src/app']
  web:
    build: ./project
    command: uvicorn main:app --host 0.0.0.0
    ports: ['8004:8000']
    volumes: ['./project:/usr/src/app']
  dashboard:
    build: ./project
    command: celery flower
"""


def web(project):
    project.write("docker-compose.yml", WEB).write("project/main.py", "app = 1\n")
    project.write("project/worker.py", "celery = 1\n")
    return project.write("project/Dockerfile", "FROM python:3.11\nWORKDIR /usr/src/app\nCOPY . .\n").facts()


def test_the_application_is_chosen_before_its_worker_and_database_with_its_program_mapping_and_port(project):
    assert web(project).service.name == "web"
    entry = web(project).entrypoint
    assert (entry.file, entry.launcher, entry.cwd) == ("project/main.py", "uvicorn", "project")
    assert "project/worker.py" in [item.file for item in web(project).candidates]
    assert web(project).mappings == (("project", "/usr/src/app"),)
    assert web(project).ports == (8000,)


def test_a_database_or_foreign_image_is_no_service_to_debug_a_python_image_with_the_code_is_one(project):
    project.write("compose.yaml", "services:\n  db: {image: 'postgres:16'}\n").program("app.py")
    assert project.facts().service is None
    tensorboard = "{image: 'tensorflow/tensorflow', command: tensorboard --logdir /l}"
    project.empty().write("compose.yaml", f"services: {{tb: {tensorboard}}}\n").program("train.py")
    assert project.facts().service is None
    job = "{image: 'python:3.11', volumes: ['.:/w'], working_dir: /w, command: python train.py}"
    project.empty().write("compose.yaml", f"services: {{job: {job}}}\n")
    facts = project.program("train.py").facts()
    assert (facts.service.name, facts.entrypoint.file, facts.mappings) == ("job", "train.py", ((".", "/w"),))


def test_the_service_of_the_dev_container_and_the_default_file_are_preferred_a_file_for_tests_is_not(project):
    project.write("compose.yaml", "services:\n  a: {build: .}\n  b: {build: .}\n")
    project.write("Dockerfile", "FROM python:3.11\nCOPY . /a\n").program("main.py")
    opened = '{"dockerComposeFile": "../compose.yaml", "service": "b", "workspaceFolder": "/a"}'
    project.write(".devcontainer/devcontainer.json", opened)
    assert project.facts().service.name == "b"
    body = "services:\n  app{0}:\n    build: .\n"
    project.empty().write("docker-compose.gpu.yml", body.format("-gpu"))
    project.write("docker-compose.yml", body.format(""))
    project.program("main.py").write("Dockerfile", "FROM python:3.11\nCOPY . /a\nCMD python main.py\n")
    assert project.facts().service.name == "app"
    service = "services: {{{0}: {{build: {1}, command: python serve.py}}}}\n"
    project.empty().write("docker/compose.test.yml", service.format("server", ".."))
    project.write("docker/gpu/compose.yml", service.format("speech", "../.."))
    project.write("Dockerfile", "FROM python:3.11\nWORKDIR /app\nCOPY . .\n").program("serve.py")
    assert project.facts().service.name == "speech"


def test_of_many_examples_the_first_is_chosen_and_training_of_the_readme_beats_a_server_deep_down(project):
    for name, service in (("alpha", "alpha"), ("beta", "backend")):
        project.write(f"examples/{name}/compose.yml", f"services:\n  {service}: {{build: .}}\n")
        project.write(f"examples/{name}/_wsgi.py", "app = 1\n")
        text = "FROM python:3.11\nWORKDIR /app\nCOPY . .\nCMD gunicorn --bind :9090 _wsgi:app\n"
        project.write(f"examples/{name}/Dockerfile", text)
    facts = project.facts()
    alpha = "examples/alpha"
    assert (facts.service.file, facts.entrypoint.file) == (f"{alpha}/compose.yml", f"{alpha}/_wsgi.py")
    build = "build: {context: ../.., dockerfile: scripts/docker/Dockerfile}"
    server = f"{{{build}, command: python scripts/serve.py, volumes: ['../..:/app']}}"
    project.empty().write("scripts/docker/compose.yml", f"services: {{server: {server}}}\n")
    project.write("scripts/docker/Dockerfile", "FROM python:3.11\nWORKDIR /app\n").program("scripts/serve.py")
    project.write("scripts/train.py", "import torch\nloss.backward()\n")
    project.readme("python scripts/train.py base")
    facts = project.facts()
    assert (facts.service.name, facts.entrypoint.file) == ("server", "scripts/train.py")


def test_copies_of_the_image_map_where_nothing_is_mounted_and_a_program_only_in_it_has_no_file(project):
    project.write("compose.yaml", "services:\n  gui:\n    build: .\n    volumes: ['./models:/app/models']\n")
    project.write("models/a.bin")
    project.program("gui.py").write(
        "Dockerfile", 'FROM python:3.11\nCOPY --link . /app\nWORKDIR /app\nCMD ["python", "gui.py"]\n'
    )
    assert project.facts().mappings == ((".", "/app"),)
    project.empty().write("compose.yaml", "services:\n  auto: {build: ./services/a}\n")
    project.write("services/a/entrypoint.sh", 'exec "$@"\n').write("services/a/config.py")
    steps = "FROM pytorch/pytorch:2.3.0-cuda12.1-cudnn8-runtime\nRUN git clone u /ui\nWORKDIR /ui\nCOPY . /docker\n"
    start = 'ENTRYPOINT ["/docker/entrypoint.sh"]\nCMD python -u webui.py --port 7860 ${ARGS}\n'
    project.write("services/a/Dockerfile", steps + start)
    entry = project.facts().entrypoint
    assert entry.file is None
    assert entry.command.startswith("python -u webui.py --port 7860")


@pytest.mark.parametrize(
    ("line", "passes"),
    [
        ('exec "$@"', True),
        ('  exec gosu app "${@}"', True),
        ('exec python train.py "$@"', False),
        ('main "$@"', False),
        ('# exec "$@"', False),
    ],
)
def test_a_script_passes_its_command_on_if_it_runs_nothing_but_its_arguments(project, line, passes):
    project.write("entry.sh", f"#!/bin/sh\nset -e\n{line}\n")
    assert (project.facts().passing_scripts == {"entry.sh"}) is passes


@pytest.mark.parametrize(
    "written",
    [
        r"""RUN (printf '#!/bin/bash\nexec "$@"\n' >> /entry.sh) && chmod a+x /entry.sh""",
        r"""RUN (printf '#!/bin/bash\nexec \"$@\"\n' >> /entry.sh) && chmod a+x /entry.sh""",
        r"""RUN echo "#!/bin/sh" > /entry.sh && echo "exec \"\$@\"" >> /entry.sh""",
        """RUN cat <<'EOF' > /entry.sh\n#!/bin/sh\nexec "$@"\nEOF""",
        """COPY --chmod=755 <<'EOF' /entry.sh\n#!/bin/sh\nexec "$@"\nEOF""",
    ],
)
def test_a_script_that_the_dockerfile_writes_passes_its_command_on(project, written):
    project.write("docker/gpu.Dockerfile", f'FROM python:3.11\n{written}\nENTRYPOINT ["/entry.sh"]\n')
    project.write("train.py", "if __name__ == '__main__':\n    print(1)\n")
    assert project.facts().passing_scripts == {"entry.sh"}


def test_an_entrypoint_script_is_read_without_what_goes_to_the_background_and_drops_the_command(project):
    project.write("compose.yaml", "services:\n  app: {build: .}\n")
    project.write("entrypoint.sh", 'set -e\npython migrate.py\nexec python server.py --port 1 "$@"\n')
    project.program("server.py").program("migrate.py")
    project.write("Dockerfile", 'FROM python:3.11\nWORKDIR /a\nCOPY . .\nENTRYPOINT ["./entrypoint.sh"]\n')
    assert project.facts().entrypoint.file == "server.py"
    project.empty().write("compose.yml", "services:\n  web: {build: .}\n").program("server.py")
    project.program("sync.py")
    project.write("Dockerfile", 'FROM python:3.11\nWORKDIR /app\nCOPY . .\nENTRYPOINT ["./entry.sh"]\n')
    project.write("entry.sh", "#!/bin/sh\npython server.py\npython sync.py &\nwait\n")
    assert project.facts().entrypoint.file == "server.py"
    project.empty().write("compose.yaml", "services:\n  app: {build: ., entrypoint: ['python', 'b.py']}\n")
    project.program("a.py").program("b.py")
    project.write("Dockerfile", 'FROM python:3.11\nWORKDIR /x\nCOPY . .\nCMD ["python", "a.py"]\n')
    assert project.facts().entrypoint.command == "python b.py"


def test_fastapi_finds_its_program_below_a_copied_folder(project):
    build = "{build: {context: ., dockerfile: backend/Dockerfile}}"
    project.write("compose.yaml", f"services: {{backend: {build}}}\n")
    project.write("backend/app/main.py", "app = 1\n")
    steps = "FROM python:3.12\nWORKDIR /app/backend\nCOPY ./backend/app /app/backend/app\n"
    project.write("backend/Dockerfile", steps + 'CMD ["fastapi", "run", "--workers", "4"]\n')
    entry = project.facts().entrypoint
    assert (entry.file, entry.launcher, entry.cwd) == ("backend/app/main.py", "fastapi", "backend")


def test_an_image_that_installs_its_own_python_is_a_service_to_debug_and_one_that_node_uses_is_not(project):
    project.write("compose.yaml", "services: {ui: {build: ., command: ./start}}\n").program("server.py")
    project.write("Dockerfile", "FROM ubuntu:22.04\nRUN apt update && apt install -y git python3-dev pip\n")
    assert project.facts().service.name == "ui"
    project.empty().write("compose.yaml", "services: {web: {build: .}}\n")
    project.write("Dockerfile", "FROM node:20\nRUN apt-get install -y python3 make\n")
    assert project.facts().service is None


def test_a_released_image_gives_way_to_a_dockerfile_with_the_code_unless_the_code_is_mounted_over_it(project):
    project.write("pyproject.toml", '[project]\nname = "labels"\n').program("app.py")
    released = "services: {backend: {image: 'acme/labels:1', volumes: ['m:/m']}}\nvolumes: {m: }\n"
    project.write("docker-compose.prod.yml", released)
    assert project.facts().service.name == "backend"

    project.write("Dockerfile", "FROM python:3.11\nWORKDIR /labels\nCOPY . .\nCMD python app.py\n")
    facts = project.facts()
    assert facts.service is None
    assert facts.mappings == ((".", "/labels"),)
    project.empty().write("pyproject.toml", '[project]\nname = "labels"\n').program("app.py")
    project.write("compose.yml", "services:\n  web: {image: 'acme/labels', volumes: ['.:/labels']}\n")
    project.write("Dockerfile", "FROM python:3.11\nWORKDIR /labels\nCOPY . .\nCMD python app.py\n")
    assert [each.release for each in project.facts().services] == [None]


@pytest.mark.parametrize(
    ("image", "dockerfile", "context"),
    [
        ("ghcr.io/acme/labels:latest", "Dockerfile", "."),
        ("acme/labels@sha256:0123", "docker/Dockerfile", "."),
        ("registry:5000/acme/labels", "server/Dockerfile", "server"),
        ("acme/labels-api:1.2", "api/Dockerfile", "api"),
        ("acme/labels-api:1.2", "Dockerfile.api", "."),
    ],
)
def test_a_service_that_pulls_a_release_of_it_is_built_from_dockerfile(project, image, dockerfile, context):
    project.write("pyproject.toml", '[project]\nname = "labels"\n').program(f"{context}/app.py")
    project.write("compose.yml", f"services:\n  web: {{image: '{image}', depends_on: [db]}}\n")
    project.write(dockerfile, "FROM python:3.11\nWORKDIR /labels\nCOPY . .\nCMD python app.py\n")
    facts = project.facts()
    service = facts.service
    assert (service.name, service.release, service.depends_on) == ("web", image, ("db",))
    assert (service.dockerfile, service.context) == (dockerfile, context)
    assert facts.mappings == ((context, "/labels"),)
    assert facts.entrypoint.file == str(PurePosixPath(context, "app.py"))


@pytest.mark.parametrize("image", ["acme/other:1", "acme/labels-frontend:1", "acme/labels-api:1", "labels"])
def test_an_image_that_the_dockerfile_does_not_make_is_not_built_from_it(project, image):
    project.write("pyproject.toml", '[project]\nname = "labels"\n').program("app.py")
    project.write("compose.yml", f"services:\n  web: {{image: '{image}'}}\n")
    project.write("Dockerfile", "FROM python:3.11\nWORKDIR /labels\nCOPY . .\nCMD python app.py\n")
    assert [each.release for each in project.facts().services] == [None]


def test_over_what_an_image_copies_into_its_top_folder_nothing_is_mounted(project):
    project.write("Dockerfile", "FROM python:3.11\nCOPY . .\nCMD python train.py\n").program("train.py")
    facts = project.facts()
    assert facts.mappings == ((".", "/"),)
    made = plan_project(facts, Config())
    assert made.service.mounts == ((".", "/workspace"),)
    assert [(each.local, str(each.remote)) for each in made.mappings] == [(".", "/workspace")]


def test_the_only_service_that_builds_python_sources_here_is_the_one_whatever_it_starts(project):
    project.write("Dockerfile", 'FROM acme/base:1\nWORKDIR /app\nCOPY . .\nCMD ["supervisord", "-n"]\n')
    project.write("compose.yaml", "services:\n  all: {build: .}\n  db: {image: 'postgres:16'}\n").program(
        "run.py"
    )
    facts = project.facts()
    assert (facts.service.name, facts.mappings) == ("all", ((".", "/app"),))
    project.write("Dockerfile", "FROM node:20\nWORKDIR /app\nCOPY . .\nCMD npm start\n")
    assert project.facts().service is None


def test_a_mount_of_a_linked_folder_maps_both_names(project):
    project.program("releases/1/run.py")
    (project.root / "current").symlink_to("releases/1")
    project.write(
        "compose.yaml",
        "services: {app: {image: 'python:3.11', working_dir: /app, command: python run.py, volumes: ['./current:/app']}}\n",
    )
    facts = project.facts()
    assert (facts.service.name, facts.entrypoint.file) == ("app", "releases/1/run.py")
    assert facts.mappings == (("releases/1", "/app"), ("current", "/app"))


def test_a_link_out_of_the_repository_is_no_mount(project, tmp_path):
    (tmp_path / "outside").mkdir()
    project.program("run.py")
    (project.root / "current").symlink_to(tmp_path / "outside")
    project.write(
        "compose.yaml",
        "services: {app: {image: 'python:3.11', command: python run.py, volumes: ['./current:/app']}}\n",
    )
    assert project.facts().service is None
