"""Whoever asks about a launcher gets the registry's answer: detect, the planner, the agent; also for one more."""

import shlex
import shutil
import sys
from pathlib import Path

import pytest

import dkdbg
from dkdbg.core.config import Config
from dkdbg.core.facts import EntryPoint
from dkdbg.launchers import registry
from tests.commands import command
from tests.unit.launchers.test_launchers import TABLE
from tests.unit.setup.plan.given import of_service, plan, service

SERVING = [line for line, *_, is_server, _ in TABLE if is_server]
ENDING = [line for line, *_, is_server, _ in TABLE if not is_server]


def wait(command, **values):
    """Seconds that a service with this command waits for an editor."""
    return of_service(service(command), **values).service.wait


@pytest.mark.parametrize("line", SERVING)
def test_a_server_never_waits(line):
    words = tuple(shlex.split(line))
    assert wait(words) == 0
    assert wait(("/docker-entrypoint.sh", *words)) == 0
    assert wait(("sh", "-c", f"alembic upgrade head && exec {line}")) == 0
    assert wait(("tini", "--", "poetry", "run", *words)) == 0
    made = plan(Config(command=line))
    assert made.service.wait == 0
    if len(words) > 1 and (launcher := registry.of_program(words[0])):
        entry = EntryPoint(command=line, file=None, launcher=launcher.name, source="README.md")
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


def test_the_port_of_flask_makes_a_server_of_a_service_although_mlflow_has_it_too():
    assert of_service(service(("/entry", "server"), ports=(5000,))).service.wait == 0


def test_a_page_beside_a_training_makes_no_server_of_it():
    for port in registry.side_ports():
        assert of_service(service(("python", "t.py"), ports=(port,))).service.wait == 600


TOY = """    ScriptServer(
        "toy", modules="toy.main", port=4321, value_options="--colour", ranks="TOY_RANK",
        workers=(("toy/worker", "toy worker"),),
    ),
"""
USED = """
import json, sys
from pathlib import Path
from dkdbg.agent.state import naming
from dkdbg.setup.detect.repo import inspect
from dkdbg.launchers import registry
from dkdbg.core.config import Config
from dkdbg.setup.plan.project import plan_project

seen = inspect(Path(sys.argv[1]))
plan = plan_project(seen, Config())
worker = {"pid": 42, "ppid": 41, "argv": ["python", "/x/toy/worker.py"], "rank": None, "origin": ""}
print(json.dumps([
    seen.entrypoint.launcher, seen.entrypoint.file, seen.ports, plan.service.wait, plan.service.app_ports,
    naming.describe(worker), naming.program(["python", "-m", "toy.main", "ui.py"]), registry.ranks({"TOY_RANK": "3"})[0],
]))
"""


def test_one_row_makes_a_launcher(tmp_path):
    package = tmp_path / "cli" / "dkdbg"
    shutil.copytree(Path(dkdbg.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    table = package / "launchers" / "table.py"
    before, first, rows = table.read_text().partition("LAUNCHERS: tuple[Launcher, ...] = (\n")
    table.write_text(before + first + TOY + rows)
    repo = tmp_path / "repo"
    repo.mkdir()
    (repo / "ui.py").write_text("import torch\n\nif __name__ == '__main__':\n    main()\n")
    (repo / "README.md").write_text("# Project\n\n```bash\npoetry run toy --colour no.py serve ui.py\n```\n")
    env = {"PYTHONPATH": str(tmp_path / "cli")}
    out = command([sys.executable, "-c", USED, str(repo)], env=env)
    assert out.stdout == '["toy", "ui.py", [4321], 0, [4321], "toy worker (42)", "toy", 3]\n'
