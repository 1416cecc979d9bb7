"""Whoever asks about a launcher gets the registry's answer: detect, the planner, the agent; also for one more."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import dkdbg
from dkdbg.detect.repo import inspect
from dkdbg.launchers import registry
from dkdbg.model.config import Config
from dkdbg.model.facts import EntryPoint
from dkdbg.planner.project import plan_project
from tests.unit.planner.given import of_service, plan, service

SERVING = [
    "uvicorn main:app", "gunicorn wsgi:app", "hypercorn asgi:app", "daphne asgi:app", "granian main:app",
    "waitress-serve wsgi:app", "uwsgi --module wsgi:app", "sanic server.app", "fastapi run main.py", "litestar run",
    "flask --app web run", "python manage.py runserver", "streamlit run ui.py", "gradio ui.py", "chainlit run ui.py",
    "panel serve ui.py", "bokeh serve ui.py", "shiny run ui.py", "solara run ui.py", "marimo run ui.py", "mesop ui.py",
    "modal serve ui.py", "bentoml serve service:svc", "vllm serve m", "serve run app:d", "ray start --head --block",
    "dask worker tcp://h:1", "celery -A tasks worker", "flower", "rq worker", "dramatiq tasks", "arq w.S",
    "taskiq worker b:b", "faust -A app worker", "huey_consumer a.h", "jupyter lab", "tensorboard --logdir r", "mlflow ui",
]  # fmt: skip
ENDING = [
    "python train.py", "torchrun train.py", "accelerate launch train.py", "deepspeed train.py", "mpirun -n 2 python t.py",
    "horovodrun -np 2 python t.py", "composer t.py", "colossalai run t.py", "fabric run t.py", "fleetrun t.py",
    "ray job submit -- python t.py", "srun python t.py", "pytest tests", "modal run t.py", "roslaunch p n.py",
    "python manage.py migrate", "celery -A tasks purge", "jupyter nbconvert --execute a.ipynb", "my-tool train",
]  # fmt: skip


def wait(command: tuple[str, ...], **values) -> int:
    """Seconds that a service with this command waits for an editor."""
    return of_service(service(command), **values).service.wait


def test_every_launcher_that_serves_is_in_this_list():
    serving = {launcher.name for launcher in registry.launchers() if launcher.serves()} | {"ray"}
    named = {registry.of_program(line.split()[0]).name for line in SERVING}
    assert serving - named == {"django"}  # it is a Python file


@pytest.mark.parametrize("line", SERVING)
def test_a_server_never_waits(line):
    words = tuple(shlex.split(line))
    assert wait(words) == 0
    assert wait(("/docker-entrypoint.sh", *words)) == 0
    assert wait(("sh", "-c", f"alembic upgrade head && exec {line}")) == 0
    assert wait(("tini", "--", "poetry", "run", *words)) == 0
    made = plan(Config(command=line))
    assert made.service.wait == 0
    if len(words) > 1 and "python" not in words[0]:
        name = registry.of_program(words[0]).name
        entry = EntryPoint(command=line, file=None, launcher=name, source="README.md")
        made = plan(entrypoint=entry, candidates=(entry,))
        assert made.service.wait == 0 or made.service.idle


@pytest.mark.parametrize("line", ENDING)
def test_a_job_waits(line):
    assert wait(tuple(shlex.split(line))) == 600
    assert plan(Config(command=line)).service.wait == 600


def test_what_is_found_behind_an_entry_script_counts_unless_the_person_names_a_command():
    server = EntryPoint(command="uvicorn main:app", file="main.py", launcher="uvicorn", source="compose.yaml")
    assert wait(("/start",), entrypoint=server, candidates=(server,)) == 0
    given = plan(Config(command="python train.py"), entrypoint=server, candidates=(server,))
    assert given.service.wait == 600


@pytest.mark.parametrize("line", [line for line in SERVING if line.split()[-1] in {"ui.py", "main:app"}])
def test_a_server_that_a_readme_shows_is_detected_and_does_not_wait(line, tmp_path):
    for name in ("ui.py", "main.py"):
        (tmp_path / name).write_text("import torch\napp = 1\n\nif __name__ == '__main__':\n    main()\n")
    (tmp_path / "README.md").write_text(f"# Project\n\n```bash\n{line}\n```\n")
    seen = inspect(tmp_path)
    launcher = registry.of_program(line.split()[0])
    assert (seen.entrypoint.launcher, seen.entrypoint.file) == (
        launcher.name,
        "ui.py" if "ui.py" in line else "main.py",
    )
    assert seen.ports == ((launcher.port,) if launcher.port else ())
    assert plan_project(seen, Config()).service.wait == 0


def test_a_page_beside_a_training_makes_no_server_of_it():
    for port in registry.side_ports():
        assert of_service(service(("python", "t.py"), ports=(port,))).service.wait == 600


TOY = '''
"""A toy."""

from __future__ import annotations

from dkdbg.launchers.shapes import ScriptServer


class Toy(ScriptServer):
    """toy serve FILE."""

    names = ("toy",)
    programs = ("toy",)
    modules = ("toy.main",)
    port = 4321
    value_options = ("--colour",)
    ranks = ("TOY_RANK",)
    workers = (("toy/worker", "toy worker"),)


LAUNCHER = Toy()
'''
USED = """
import json, sys
from pathlib import Path
from dkdbg.agent.record import naming
from dkdbg.detect.repo import inspect
from dkdbg.launchers import registry
from dkdbg.model.config import Config
from dkdbg.planner.project import plan_project

seen = inspect(Path(sys.argv[1]))
plan = plan_project(seen, Config())
worker = {"pid": 42, "ppid": 41, "argv": ["python", "/x/toy/worker.py"], "rank": None, "origin": ""}
print(json.dumps([
    seen.entrypoint.launcher, seen.entrypoint.file, seen.ports, plan.service.wait, plan.service.app_ports,
    naming.describe(worker), naming.program(["python", "-m", "toy.main", "ui.py"]), registry.ranks({"TOY_RANK": "3"})[0],
]))
"""


def test_one_file_and_one_line_make_a_launcher(tmp_path):
    package = tmp_path / "cli" / "dkdbg"
    shutil.copytree(Path(dkdbg.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    (package / "launchers" / "toy.py").write_text(TOY)
    lines = (package / "launchers" / "registry.py").read_text()
    assert lines.count('    "uvicorn",\n') == 1
    (package / "launchers" / "registry.py").write_text(
        lines.replace('    "uvicorn",\n', '    "toy",\n    "uvicorn",\n')
    )
    repo = tmp_path / "repo"
    repo.mkdir()
    (repo / "ui.py").write_text("import torch\n\nif __name__ == '__main__':\n    main()\n")
    (repo / "README.md").write_text("# Project\n\n```bash\npoetry run toy --colour no.py serve ui.py\n```\n")
    out = subprocess.run(
        [sys.executable, "-c", USED, str(repo)],
        env={**os.environ, "PYTHONPATH": str(tmp_path / "cli")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert out.stdout == '["toy", "ui.py", [4321], 0, [4321], "toy worker (42)", "toy", 3]\n', out.stderr
