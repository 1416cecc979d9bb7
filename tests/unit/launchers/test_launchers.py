"""Every launcher on real command lines: found, its script found, shown, a server or not, its port, its processes."""

import ast
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from dkdbg.agent.state import naming
from dkdbg.launchers import registry
from dkdbg.launchers.launcher import JOB, TOOL
from dkdbg.launchers.lines.command_lines import (
    launchers_in,
    one_process,
    parse_line,
    port_of,
    runs_python_alone,
    serves,
)

FOLDER = Path(registry.__file__).parent
HOOK = FOLDER.parent / "agent" / "inprocess" / "hook" / "sitecustomize.py"

#: (command line, launcher in it, launcher in the facts, target, whether it serves, port); the facts name nothing where
#: the line starts no program of a repository.
TABLE = [
    ("python -u train.py --lr 1", "python", "python", "train.py", False, None),
    ("python -um pkg.train train.py", "python", "python", "pkg.train", False, None),
    ("python -uX dev -Wignore -BW error server.py", "python", "python", "server.py", False, None),
    ("A=1 python -m pkg.train --port 7000", "python", "python", "pkg.train", False, 7000),
    ("uv run python -X dev -W ignore server.py -b 32", "python", "python", "server.py", False, None),
    ("torchrun --nproc-per-node 8 --rdzv-endpoint host:29500 train.py -n 3", "torchrun", "torchrun", "train.py", False, None),
    ("python -m torch.distributed.run --nproc_per_node=2 -m pkg.train -- x", "torchrun", "torchrun", "pkg.train", False, None),
    ("OMP_NUM_THREADS=1 torchrun --log-dir make_logs.py train.py", "torchrun", "torchrun", "train.py", False, None),
    ("bash -c 'cd x && exec torchrun --master_port 29501 train.py'", "torchrun", "torchrun", "train.py", False, None),
    ("mpirun -np 4 -H a:2,b:2 -x PATH python train.py", "mpirun", "mpirun", "train.py", False, None),
    ("mpiexec -n N python -m pkg.train", "mpirun", "mpiexec", "pkg.train", False, None),
    ("orterun -np 2 bash -c 'python train.py'", "mpirun", "mpirun", "train.py", False, None),
    ("mpirun -n 2 python -m torch.distributed.launch --nproc_per_node=2 train.py", "mpirun", "mpirun", "train.py", False, None),
    ("horovodrun -np 4 -H localhost:4 python train.py", "horovodrun", "horovodrun", "train.py", False, None),
    ("srun -N 2 --gres gpu:4 python train.py", "python", "python", "train.py", False, None),
    ("srun --ntasks 2 torchrun train.py", "torchrun", "torchrun", "train.py", False, None),
    ("python -m paddle.distributed.launch --devices 0,1 train.py", "paddle", "paddle", "train.py", False, None),
    ("fleetrun --nproc_per_node 2 train.py", "paddle", "paddle", "train.py", False, None),
    ("fabric run --accelerator=cuda --devices 2 train.py", "lightning", "fabric", "train.py", False, None),
    ("lightning run model --devices=2 train.py", "lightning", "lightning", "train.py", False, None),
    ("lightning --help", "lightning", None, None, False, None),
    ("accelerate launch --config_file c.yaml --main_process_port 29501 train.py", "accelerate", "accelerate", "train.py", False, None),
    ("accelerate launch -m pkg.train", "accelerate", "accelerate", "pkg.train", False, None),
    ("python -m accelerate.commands.launch --num_processes 2 train.py", "accelerate", "accelerate", "train.py", False, None),
    ("accelerate config", "accelerate", None, None, False, None),
    ("deepspeed --num_gpus 8 --hostfile hosts train.py --deepspeed c.json", "deepspeed", "deepspeed", "train.py", False, None),
    ("python -m deepspeed.launcher.runner train.py", "deepspeed", "deepspeed", "train.py", False, None),
    ("composer -n 2 train.py", "composer", "composer", "train.py", False, None),
    ("colossalai run --nproc_per_node 2 train.py", "colossalai", "colossalai", "train.py", False, None),
    ("ray job submit --working-dir . -- python job.py", "ray", "ray", "job.py", False, None),
    ("ray start --head --block", "ray", None, None, True, None),
    ("ray start --head", "ray", None, None, False, None),
    ("serve run app:deployment", "ray-serve", "ray-serve", "app", True, 8000),
    ("serve -s build", "ray-serve", None, None, False, 8000),
    ("dask worker tcp://h:8786", "dask", None, None, True, None),
    ("dask config find x", "dask", None, None, False, None),
    ("uvicorn main:app --host 0.0.0.0 --port 9000", "uvicorn", "uvicorn", "main", True, 9000),
    ("python -m uvicorn --app-dir src app.main:app", "uvicorn", "uvicorn", "app.main", True, 8000),
    ("uvicorn --factory pkg.main:create_app", "uvicorn", "uvicorn", "pkg.main", True, 8000),
    ("sh -c 'alembic upgrade head && uvicorn main:app'", "uvicorn", "uvicorn", "main", True, 8000),
    ("poetry run gunicorn -b :8080 -k uvicorn.workers.UvicornWorker app.main:app", "gunicorn", "gunicorn", "app.main", True, 8080),
    ("gunicorn -c gunicorn.conf.py --workers 4 server.wsgi", "gunicorn", "gunicorn", "server.wsgi", True, 8000),
    ("gunicorn 'app:create_app()' --bind 0.0.0.0:$PORT", "gunicorn", "gunicorn", "app", True, 8000),
    ("hypercorn -b 0.0.0.0:9001 asgi:app", "hypercorn", "hypercorn", "asgi", True, 9001),
    ("daphne -b 0.0.0.0 -p 8001 site.asgi:application", "daphne", "daphne", "site.asgi", True, 8001),
    ("granian --interface asgi main:app", "granian", "granian", "main", True, 8000),
    ("waitress-serve --listen=*:8041 myapp:app", "waitress-serve", "waitress-serve", "myapp", True, 8041),
    ("waitress-serve --call app:make", "waitress-serve", "waitress-serve", "app", True, 8080),
    ("uwsgi --http :9090 --wsgi-file foo.py", "uwsgi", "uwsgi", "foo.py", True, 9090),
    ("uwsgi --module site.wsgi:application --http-socket 0.0.0.0:8000", "uwsgi", "uwsgi", "site.wsgi", True, 8000),
    ("sanic server.app --port=1337", "sanic", "sanic", "server.app", True, 1337),
    ("fastapi run app/main.py --port 80", "fastapi", "fastapi", "app/main.py", True, 80),
    ("fastapi dev", "fastapi", "fastapi", None, True, 8000),
    ("litestar --app pkg.app:app run -p 8010", "litestar", "litestar", "pkg.app", True, 8010),
    ("litestar run", "litestar", "litestar", None, True, 8000),
    ("flask --app web run -p 5001", "flask", "flask", "web", True, 5001),
    ("python -m flask run --host=0.0.0.0", "flask", "flask", None, True, 5000),
    ("flask db upgrade", "flask", None, None, False, 5000),
    ("python manage.py runserver 0.0.0.0:8002", "django", "python", "manage.py", True, 8002),
    ("python src/manage.py runserver", "django", "python", "src/manage.py", True, 8000),
    ("python manage.py migrate", "django", None, None, False, 8000),
    ("streamlit run ui.py --server.port=8502", "streamlit", "streamlit", "ui.py", True, 8502),
    ("python -m streamlit run ui.py", "streamlit", "streamlit", "ui.py", True, 8501),
    ("gradio demo.py", "gradio", "gradio", "demo.py", True, 7860),
    ("chainlit run app.py -w --port 8100", "chainlit", "chainlit", "app.py", True, 8100),
    ("panel serve dash.py --address 0.0.0.0", "panel", "panel", "dash.py", True, 5006),
    ("bokeh serve --show dash.py", "bokeh", "bokeh", "dash.py", True, 5006),
    ("shiny run --reload app.py", "shiny", "shiny", "app.py", True, 8000),
    ("solara run sol.py --host=0.0.0.0", "solara", "solara", "sol.py", True, 8765),
    ("marimo edit nb.py -p 2720", "marimo", "marimo", "nb.py", True, 2720),
    ("mesop main.py", "mesop", "mesop", "main.py", True, 32123),
    ("modal serve app.py", "modal", "modal", "app.py", True, None),
    ("modal run job.py", "modal", "modal", "job.py", False, None),
    ("bentoml serve service:svc", "bentoml", "bentoml", "service", True, 3000),
    ("vllm serve meta/llama --port 8005", "vllm", None, None, True, 8005),
    ("python -m vllm.entrypoints.openai.api_server --model m", "vllm", None, None, True, 8000),
    ("celery -A worker.celery worker --loglevel=info", "celery", "celery", "worker.celery", True, None),
    ("python -m celery -A proj beat", "celery", "celery", "proj", True, None),
    ("celery --broker=redis://redis flower", "celery", "flower", None, True, None),
    ("celery -A proj inspect active", "celery", None, None, False, None),
    ("flower --port=5556", "flower", None, None, True, 5556),
    ("rq worker high", "rq", "rq", "high", True, None),
    ("dramatiq tasks", "dramatiq", "dramatiq", "tasks", True, None),
    ("arq jobs.WorkerSettings", "arq", "arq", None, True, None),
    ("taskiq worker broker:broker", "taskiq", "taskiq", "broker", True, None),
    ("faust -A app worker", "faust", "faust", "app", True, None),
    ("huey_consumer my_app.huey", "huey_consumer", "huey_consumer", "my_app.huey", True, None),
    ("jupyter lab --ip 0.0.0.0 nb/a.ipynb", "notebook", "notebook", "nb/a.ipynb", True, 8888),
    ("python -m notebook --ServerApp.port=8889", "notebook", "notebook", None, True, 8889),
    ("jupyter nbconvert --execute a.ipynb", "notebook", None, None, False, 8888),
    ("tensorboard --logdir runs", "tensorboard", None, None, True, 6006),
    ("python -m tensorboard.main --port 6007", "tensorboard", None, None, True, 6007),
    ("mlflow ui -p 5001", "mlflow", None, None, True, 5001),
    ("mlflow run .", "mlflow", None, None, False, 5000),
    ("roslaunch pkg node.py", "roslaunch", "roslaunch", "node.py", False, None),
    ("pytest -n 2 tests", "pytest", None, None, False, None),
    ("python -m pytest tests", "pytest", None, None, False, None),
]  # fmt: skip


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row[0])
def test_a_command_line_is_read(row):
    line, found, facts, target, is_server, port = row
    words = shlex.split(line)
    assert [launcher.name for launcher, _ in launchers_in(words)][-1] == found
    shown = parse_line(line)
    assert [launch.launcher for launch in shown][-1:] == ([facts] if facts else [])
    if target is not None:
        assert shown[-1].target == target
    assert serves(words) == is_server
    assert port_of(line) == port


def test_every_launcher_has_a_command_line_above():
    #: bash is what the others are found behind, console scripts are a repository's, the last two nobody types.
    untyped = {"bash", "console-script", "joblib", "torch.compile", "srun"}
    assert {launcher.name for launcher in registry.launchers()} - untyped <= {row[1] for row in TABLE}


def test_a_row_gives_each_field_a_value_of_its_kind():
    for launcher in registry.launchers():
        for field, value in vars(launcher).items():
            kinds = (int, type(None)) if field == "port" else (type(getattr(type(launcher), field)),)
            assert type(value) in kinds, (launcher.name, field)
            if isinstance(value, tuple):
                inner = {"side_ports": int, "helpers": tuple, "workers": tuple}.get(field, str)
                assert all(isinstance(each, inner) for each in value), (launcher.name, field)


def test_a_name_of_the_facts_finds_its_launcher_and_no_program_or_module_is_two():
    for launcher in registry.launchers():
        assert all(registry.named(name) is not None for name in launcher.names)
        assert registry.named(launcher.name) is launcher
        assert all(registry.of_program(word) is launcher for word in launcher.programs)
        assert all(registry.of_module(module) is launcher for module in launcher.modules)
        assert all(registry.of_script(f"src/{script}") is launcher for script in launcher.scripts)


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("sudo -E A=1 torchrun --nproc_per_node=8 train.py", "torchrun --nproc_per_node=8 train.py"),
        (
            "python -m torch.distributed.launch --nproc_per_node=8 t.py",
            "python -m torch.distributed.launch --nproc_per_node=8 t.py",
        ),
        ("python -m accelerate launch train.py --name 'a b'", "accelerate launch train.py --name 'a b'"),
        ("python -m deepspeed train.py", "deepspeed train.py"),
        ("python -m uvicorn main:app", "python -m uvicorn main:app"),
        ("python -um accelerate launch train.py", "accelerate launch train.py"),
        ("python -maccelerate launch train.py", "accelerate launch train.py"),
        ("srun -N 2 python train.py", "python train.py"),
        ("bash -lc 'source env.sh && python train.py'", "python train.py"),
        ("uv run streamlit run ui.py", "streamlit run ui.py"),
    ],
)
def test_a_line_is_shown_as_a_person_types_it(line, shown):
    assert parse_line(line)[-1].command == shown


@pytest.mark.parametrize(
    ("line", "one", "said"),
    [
        ("torchrun --standalone --nproc_per_node=8 train.py", "torchrun --standalone [--nproc_per_node=1] train.py", "8"),
        ("python -m torch.distributed.launch --nproc_per_node 4 t.py -n 3",
         "python -m torch.distributed.launch --nproc_per_node [1] t.py -n 3", "4"),
        ("torchrun --nproc-per-node gpu -m pkg.train", "torchrun --nproc-per-node [1] -m pkg.train", "gpu"),
        ("mpiexec -n N python a.py", "mpiexec -n [1] python a.py", "N"),
        ("deepspeed --num_gpus=8 train.py", "deepspeed [--num_gpus=1] train.py", "8"),
        ("horovodrun -np 4 python t.py", "horovodrun -np [1] python t.py", "4"),
        ("accelerate launch --multi_gpu --num_processes=4 t.py", "accelerate launch [--num_processes=1] t.py", "4"),
        ("accelerate launch --multi-gpu --mixed_precision fp16 --num_processes 4 t.py --multi_gpu",
         "accelerate launch --mixed_precision fp16 --num_processes [1] t.py --multi_gpu", "4"),
    ],
)  # fmt: skip
def test_many_processes_become_one(line, one, said):
    changed, place, count = one_process(line.split())
    assert " ".join(f"[{word}]" if at == place else word for at, word in enumerate(changed)) == one
    assert count == said


@pytest.mark.parametrize(
    "line",
    ["torchrun train.py -n 8", "torchrun --nproc_per_node=1 train.py", "python train.py -n 8", "uvicorn a:b --workers 4"],
)  # fmt: skip
def test_options_of_the_program_and_of_servers_are_left_alone(line):
    assert one_process(line.split()) is None


@pytest.mark.parametrize(
    ("environment", "wanted"),
    [
        ({"RANK": "3", "LOCAL_RANK": "1", "WORLD_SIZE": "4"}, (3, 1, 4)),
        ({"SLURM_PROCID": "5", "SLURM_LOCALID": "1", "SLURM_NTASKS": "8"}, (5, 1, 8)),
        ({"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_LOCAL_RANK": "0", "OMPI_COMM_WORLD_SIZE": "3"}, (2, 0, 3)),
        ({"PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALRANKID": "1"}, (1, 1, 2)),
        ({"HOROVOD_RANK": "1", "HOROVOD_LOCAL_RANK": "1", "HOROVOD_SIZE": "2"}, (1, 1, 2)),
        ({"PADDLE_TRAINER_ID": "1", "PADDLE_TRAINERS_NUM": "2"}, (1, None, 2)),
        # Lightning's own ranks have no RANK; on other machines than the first nobody tells how many came before.
        ({"NODE_RANK": "0", "LOCAL_RANK": "1", "WORLD_SIZE": "2"}, (1, 1, 2)),
        ({"NODE_RANK": "1", "LOCAL_RANK": "1", "WORLD_SIZE": "4"}, (None, 1, 4)),
        # Processes of mpirun inside a job of Slurm: the job's task is one for all of them.
        ({"SLURM_PROCID": "0", "OMPI_COMM_WORLD_RANK": "3"}, (3, None, None)),
        ({"RANK": "x", "WORLD_SIZE": "", "PATH": "/bin"}, (None, None, None)),
    ],
)  # fmt: skip
def test_a_process_knows_its_rank_by_its_environment(environment, wanted):
    assert registry.ranks(environment) == wanted


def process(*argv, pid=42, ppid=41, origin=""):
    return {"pid": pid, "ppid": ppid, "argv": ["python", *argv], "rank": None, "origin": origin}


SPAWN = ("-c", "from multiprocessing.spawn import spawn_main; spawn_main(5)", "--multiprocessing-fork")


@pytest.mark.parametrize(
    ("child", "parent", "name"),
    [
        (process("/usr/bin/gunicorn", "a:b", origin="fork"), process("/usr/bin/gunicorn", "a:b", pid=41), "gunicorn worker (42)"),
        (process(*SPAWN), process("/bin/uvicorn", "a:b", "--workers", "2", pid=41), "uvicorn server process (42)"),
        (process(*SPAWN), process("-m", "uvicorn", "a:b", "--reload", pid=41), "uvicorn server process (42)"),
        (process(*SPAWN), process("/bin/uvicorn", "a:b", pid=41), "multiprocessing worker of uvicorn (41)"),
        (process("/bin/flask", "run", "--debug"), process("/bin/flask", "run", "--debug", pid=41), "flask server process (42)"),
        (process("manage.py", "runserver"), process("manage.py", "runserver", pid=41), "manage.py server process (42)"),
        (process("train.py"), process("manage.py", "runserver", pid=41), "train.py"),
        (process("/bin/celery", "worker", origin="fork"), process("/bin/celery", "worker", pid=41), "celery pool worker (42)"),
        (process("/usr/bin/gunicorn", origin="fork"), process("/usr/bin/gunicorn", pid=41, origin="fork"), "gunicorn (42), forked from 41"),
        (process("-u", "-c", "import sys;exec(eval(sys.stdin.readline()))"), process("-m", "pytest", "-n2", pid=41),
         "pytest-xdist worker (42) of pytest (41)"),
        (process("-u", "-c", "import sys;exec(eval(sys.stdin.readline()))"), process("x.py", pid=41), "python -c"),
        (process("-m", "joblib.externals.loky.backend.popen_loky_posix", "--process-name", "LokyProcess-2"),
         process("fit.py", pid=41), "loky worker 2 of fit.py (41)"),
        (process("/x/ray/_private/workers/default_worker.py", "--node-id=1"), None, "Ray worker (42)"),
        (process("-m", "ipykernel_launcher", "-f", "k.json"), process("/bin/jupyter-lab", pid=41),
         "notebook kernel (42) of jupyter-lab (41)"),
        (process("/x/torch/_inductor/compile_worker/__main__.py"), process("train.py", pid=41),
         "torch compile worker of train.py (41)"),
        (process("-m", "torch.distributed.run", "train.py"), None, "torchrun"),
        (process("-m", "deepspeed.launcher.launch", "train.py"), process("/bin/deepspeed", pid=41), "deepspeed"),
    ],
)  # fmt: skip
def test_processes_below_a_launcher_are_called_what_it_calls_them(child, parent, name):
    assert naming.describe(child, parent) == name


def constants_of_the_hook():
    """Read, not imported: the hook changes the process that it is imported in."""
    found = {}
    for node in ast.parse(HOOK.read_text()).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            try:
                found[node.targets[0].id] = ast.literal_eval(node.value)
            except ValueError:
                continue
    return found


def test_the_hook_knows_what_the_registry_knows():
    """Each start of a Python would pay for an import of the registry, so the hook has lists of its own."""
    constants = constants_of_the_hook()
    assert set(constants["_SKIP"]) == {mark for mark, _ in registry.helpers()}
    kinds = ("ranks", "local_ranks", "world_sizes", "node_ranks", "local_sizes", "nodes")
    variables = {
        name for launcher in registry.launchers() for kind in kinds for name in getattr(launcher, kind)
    }
    assert set(constants["_RANK_NAMES"]) == variables
    assert "dkdbg.launchers import" not in HOOK.read_text()


def test_the_agent_starts_without_loading_the_table():
    code = "import sys, dkdbg.agent.supervisor.launch; print('dkdbg.launchers.table' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert out == "False\n"


@pytest.mark.parametrize(
    "argv",
    [
        ("bash", "-o", "pipefail", "-c", "uvicorn a:b"), ("/bin/bash", "-euo", "pipefail", "-c", "uvicorn a:b"),
        ("bash", "-c", "-e", "uvicorn a:b"), ("bash", "+x", "--rcfile", "c", "-lc", "uvicorn a:b"), ("bash", "-o", "pipefail", "start.sh", "uvicorn", "a:b"),
        ("taskset", "-c", "0-3", "uvicorn", "a:b"), ("taskset", "0x3", "uvicorn", "a:b"), ("timeout", "-k", "5", "60", "uvicorn", "a:b"),
        ("nice", "-n", "5", "uvicorn", "a:b"), ("tini", "-s", "uvicorn", "a:b"), ("env", "-i", "uvicorn", "a:b"), ("tini", "-s", "--", "uvicorn", "a:b"),
        ("xvfb-run", "-a", "-s", "-screen 0", "uvicorn", "a:b"),
    ],
)  # fmt: skip
def test_a_server_behind_a_shell_or_a_wrapper_with_options_serves(argv):
    assert serves(argv)
    assert runs_python_alone(argv, ("start.sh",))


def test_an_option_of_a_shell_is_no_line():
    assert not serves(("bash", "-o", "uvicorn a:b"))
    assert not serves(("bash", "--norc", "uvicorn a:b"))


def test_a_launcher_without_words_serves_when_its_programs_do():
    """What the facts know is a name alone."""
    for launcher in registry.launchers():
        assert launcher.serves() == (launcher.role not in {JOB, TOOL}) or launcher.name == "ray"
