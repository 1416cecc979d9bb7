"""What an expert would have written: each case was wrong on a repository that nobody had prepared."""

import os
import re
import subprocess
import sys

import pytest

from dkdbg.errors import DkdbgError
from dkdbg.setup.detect.around import initialised
from dkdbg.setup.detect.values import load_yaml
from dkdbg.setup.render.manifest import inherited, load
from dkdbg.verbs.parts.repository import files_for, make_plan
from tests.checkout import checkout, run_dkdbg
from tests.terminals import terminal
from tests.unit.project import SLIM, TRAIN, Project

OLD_WEB = "services: {web: {build: {context: ., dockerfile: old.Dockerfile}, command: python server.py}}\n"


class Repository(Project):
    """Files in a folder, and what `init` would make of them."""

    def plan(self, **words):
        return make_plan(self.root, **words)[0]

    def service(self, **words):
        """The debug service as compose reads it, tags left out."""
        plan = self.plan(**words)
        return load_yaml(self.written(plan.service.compose_file, **words))["services"][plan.service.name]

    def written(self, path, **words):
        """The text of a file that `init` writes."""
        return files_for(self.root, *make_plan(self.root, **words))[path].content.decode()


@pytest.fixture
def repository(project):
    return Repository(project.root)


# --- what the service says is never made worse


@pytest.mark.parametrize("key", ["ipc: host", "shm_size: 16gb"])
def test_no_shared_memory_is_given_where_the_service_says_how_it_is_shared(repository, key):
    repository.write("train.py", TRAIN).write("Dockerfile", SLIM)
    service = f"{{build: ., {key}, init: false, stop_grace_period: 60s, command: python train.py}}"
    repository.write("compose.yaml", f"services: {{train: {service}}}\n")
    assert not {"shm_size", "init", "stop_grace_period"} & set(repository.service())


def test_a_program_that_asks_for_a_terminal_gets_one_unless_it_has_a_fallback(repository):
    repository.write("utils.py", "import os\n_, columns = os.popen('stty size', 'r').read().split()\n")
    repository.write("main.py", "from utils import columns\n" + TRAIN).readme("python main.py")
    assert repository.service()["tty"] is True
    repository.empty().write("main.py", "import shutil\nprint(shutil.get_terminal_size())\n" + TRAIN)
    repository.readme("python main.py")
    assert "tty" not in repository.service()


# --- the command


def test_what_a_person_has_to_fill_in_is_left_out_and_said_and_a_token_of_a_model_is_none(repository):
    repository.write("train.py", TRAIN).readme(
        "torchrun --nproc_per_node=1 --master_port=<your_random_port> train.py --model <path of the model> "
        "--out /path/to/out --data ./data.json"
    )
    plan = repository.plan()
    assert plan.service.argv == ("torchrun", "--nproc_per_node=1", "train.py", "--data", "./data.json")
    assert any(
        "--master_port=<your_random_port>" in note and "--out /path/to/out" in note for note in plan.notes
    )
    repository.empty().write("train.py", TRAIN).readme("python train.py --eos_token '<|im_end|>'")
    plan = repository.plan()
    assert "<|im_end|>" in " ".join(plan.service.argv)
    assert not any("fill in" in note or "needs arguments" in note for note in plan.notes)


def test_a_training_run_stays_a_job_beside_ports_and_a_server_behind_a_script_does_not_wait(repository):
    repository.write("Dockerfile", SLIM).write("cli.py", "def main(): ...\n")
    repository.write("pyproject.toml", '[project]\nname = "llm"\n[project.scripts]\nllm = "cli:main"\n')
    repository.readme("llm webui", "llm train examples/small.yaml")
    service = "{build: ., ports: ['7860:7860'], command: bash, tty: true}"
    repository.write("compose.yaml", f"services: {{llm: {service}}}\n")
    plan = repository.plan()
    assert plan.service.argv == ("llm", "train", "examples/small.yaml")
    assert plan.service.wait == 600
    repository.empty().write("Dockerfile", SLIM + 'ENTRYPOINT ["/app/entry.sh"]\n')
    repository.write("web/wsgi.py", "app = 1\n")
    wait = "until cd /app/web\ndo sleep 1\ndone\n"
    repository.write("entry.sh", f"#!/bin/bash\n{wait}gunicorn wsgi --bind 0.0.0.0:8000\n")
    assert repository.plan().service.wait == 0


def test_a_program_with_windows_is_not_started_and_one_that_runs_as_it_stands_comes_first(repository):
    repository.write("gui.py", "import PySimpleGUI\nPySimpleGUI.Window('x')\n").write("train.py", TRAIN)
    repository.write("Dockerfile", SLIM + 'ENTRYPOINT ["python", "gui.py"]\n').readme("python train.py")
    plan = repository.plan()
    assert plan.service.argv == ("python", "train.py")
    assert any("gui.py" in note and "display" in note for note in plan.notes)
    repository.empty().write("main.py", TRAIN)
    repository.readme("python main.py --push_to_hub --hub_token $HF_TOKEN", "python main.py --epochs 1")
    assert repository.plan().service.argv == ("python", "main.py", "--epochs", "1")


# --- which Python


@pytest.mark.parametrize("name", ["containerfile", "Containerfile", "CONTAINERFILE", "dockerfile"])
def test_a_containerfile_in_any_case_is_read(repository, name):
    repository.write("train.py", TRAIN)
    repository.write(name, "FROM x/ray:2.47.0-slim-py312-cu128\nWORKDIR /app\nCOPY . .\n")
    plan = repository.plan()
    assert (plan.facts.python.version, plan.image.dockerfile) == ("3.12", name)


def test_what_a_hosting_service_is_told_says_less_than_ci_and_is_named_itself(repository):
    repository.write("runtime.txt", "3.9\n").write("train.py", TRAIN)
    repository.write(".github/workflows/ci.yml", "      - with:\n          python-version: '3.12'\n")
    assert repository.plan().facts.python.version == "3.12"
    repository.empty().write("runtime.txt", "python-3.10.4\n").write("train.py", TRAIN)
    assert repository.plan().facts.python.source == "runtime.txt"


def test_a_python_that_no_debugger_supports_gets_an_image_beside_it_unless_another_service_does(repository):
    repository.write("old.Dockerfile", "FROM python:3.6\nWORKDIR /app\nCOPY . .\n")
    repository.write("server.py", "import flask\napp = flask.Flask('x')\napp.run()\n")
    repository.write("compose.yaml", OLD_WEB)
    plan = repository.plan()
    assert plan.facts.python.version == "3.6"
    assert (plan.python, plan.image.base) == ("3.8", "python:3.8-slim")
    assert plan.service.argv == ("python", "server.py")
    assert any("3.6" in note and "no current debugger" in note for note in plan.notes)
    repository.empty().write("old/Dockerfile", "FROM python:3.6\nWORKDIR /app\nCOPY . .\n")
    repository.write("new/Dockerfile", "FROM python:3.11\nWORKDIR /app\nCOPY . .\n")
    repository.write("app.py", "import flask\nflask.Flask('x').run()\n")
    repository.write(
        "compose.yaml",
        """
        services:
          app:
            build: {context: ., dockerfile: old/Dockerfile}
            command: python app.py
          tool:
            build: {context: ., dockerfile: new/Dockerfile}
            command: python app.py
        """,
    )
    plan = repository.plan()
    assert (plan.service.extends.name, plan.python) == ("tool", "3.11")


@pytest.mark.parametrize(
    ("theirs", "compose"),
    [
        ("FROM python:3.6\nRUN pip install project\n", {}),
        ("FROM python:3.6\nWORKDIR /app\nCOPY . .\n", {"compose.yaml": "services: {web: {build: ., command: python train.py}}\n"}),
    ],
)  # fmt: skip
def test_an_image_beside_a_dockerfile_that_cannot_be_used_is_built_from_ours(
    tmp_path, dkdbg, theirs, compose
):
    root = checkout(tmp_path / "project", {"Dockerfile": theirs, "train.py": TRAIN, **compose})
    assert dkdbg(root, "init", "--yes").code == 0
    assert (root / "Dockerfile").read_text() == theirs
    assert not (root / "Dockerfile.dockerignore").exists()  # theirs would copy less
    services = load_yaml((root / ".dkdbg/service.compose").read_text())["services"].values()
    (built,) = {each["build"]["dockerfile"] for each in services if "build" in each}
    assert "python:3.8-slim" in (root / built).read_text()
    assert (root / f"{built}.dockerignore").exists()
    assert dkdbg(root, "init", "--check").code == 0


def test_an_old_python_is_said_in_a_sentence_and_refused_only_for_a_service_that_a_person_names(repository):
    repository.write("requirements.txt", "torch==1.1.0\n").write("train.py", TRAIN)
    said = (
        "the torch release that is named here has wheels for Python 3.7, which no current debugger supports: "
    )
    assert any(note.startswith(said) for note in repository.plan().notes)
    repository.empty().write("old.Dockerfile", "FROM python:3.6\nWORKDIR /app\nCOPY . .\n")
    repository.write("server.py", TRAIN)
    repository.write("compose.yaml", OLD_WEB)
    with pytest.raises(DkdbgError, match=r"Python 3\.6") as error:
        repository.plan(service="web")
    assert "without --service" in error.value.hint
    assert repository.plan().python == "3.8"


def test_notebooks_with_pins_say_their_python_and_a_long_lock_is_read_to_its_end(repository):
    cells = '[{"cell_type": "code", "source": ["!pip install tensorflow==2.4.1"]}]'
    language = '{"language_info": {"name": "python", "version": "3.7.3"}}'
    repository.write("a.ipynb", f'{{"cells": {cells}, "metadata": {language}}}')
    assert repository.plan().facts.python.version == "3.7"
    filler = "".join(f'[[package]]\nname = "aa{n}"\nversion = "1"\n# {"x" * 400}\n' for n in range(2000))
    repository.empty().write("pyproject.toml", '[project]\nname = "x"\ndependencies = ["torch"]\n')
    (repository.root / "uv.lock").write_text(filler + '[[package]]\nname = "torch"\nversion = "2.8.0"\n')
    assert repository.write("train.py", TRAIN).plan().facts.torch.version == "2.8.0"


def test_a_script_that_is_not_there_is_said_of_a_command_and_of_a_service(repository):
    repository.write("train.py", TRAIN)
    said = repository.plan(command="python nosuch.py").notes
    assert any("nosuch.py is not in the repository" in note for note in said)
    assert not any("not in the repository" in n for n in repository.plan(command="python train.py").notes)
    repository.empty().write("train.py", TRAIN).write("Dockerfile", SLIM)
    repository.write("compose.yaml", "services:\n  train:\n    build: .\n    command: python gone/run.py\n")
    assert any("gone/run.py is not in the repository" in note for note in repository.plan().notes)


WEB_AND_WORKER = """
    services:
      web: {build: web, command: python app.py, gpus: all}
      worker: {build: worker, command: python work.py}
    """


def test_a_service_that_a_person_names_has_its_own_mappings_and_its_own_need_of_a_gpu(repository):
    repository.write("web/Dockerfile", "FROM python:3.11\nWORKDIR /srv/web\nCOPY . .\n")
    repository.write("web/app.py", "import torch\n")
    repository.write("worker/Dockerfile", "FROM python:3.12\nWORKDIR /srv/work\nCOPY . .\n")
    repository.write("worker/work.py", TRAIN).write("compose.yaml", WEB_AND_WORKER)
    plan = repository.plan(service="worker")
    assert plan.facts.python.version == "3.12"
    assert ("worker", "/srv/work") in [(m.local, str(m.remote)) for m in plan.mappings]
    assert "/srv/web" not in str((plan.mappings, plan.service.mounts))
    assert plan.facts.gpu_source == "compose service web asks for a GPU, worker does not"


def test_a_service_that_is_not_found_may_be_in_a_compose_file_that_was_left_out(repository):
    repository.write("compose.yaml", "services: {web: {image: x}}\n")
    repository.write("docker/compose.yaml", "services:\n  app: [\n")
    with pytest.raises(DkdbgError) as caught:
        repository.plan(service="app")
    assert caught.value.message.startswith("there is no compose service 'app' here; there are: web\n")
    assert "\n  left out: docker/compose.yaml:3: not valid YAML: " in caught.value.message
    assert caught.value.hint == "Correct docker/compose.yaml if it defines that service, then try again"


def test_of_services_of_one_name_a_person_names_one_by_its_file(repository):
    for folder in ("a", "b"):
        repository.write(f"{folder}/Dockerfile", f"FROM python:3.11\nWORKDIR /{folder}\nCOPY . .\n")
        repository.write(f"{folder}/train.py", TRAIN)
        repository.write(
            f"{folder}/compose.yaml", "services: {runtime: {build: ., command: python train.py}}\n"
        )
    plan = repository.plan(service="runtime")
    assert plan.service.extends.file == "a/compose.yaml"
    (note,) = [each for each in plan.notes if "there are others" in each]
    other = note.rpartition(": ")[2]
    plan = repository.plan(service=other)
    assert plan.service.extends.file == "b/compose.yaml"
    assert ("b", "/b") in [(m.local, str(m.remote)) for m in plan.mappings]
    assert not [each for each in plan.notes if "there are others" in each]


@pytest.mark.parametrize(("gpu", "says"), [(True, "asks for a GPU"), (False, "gives app a GPU, another one")])
def test_what_says_that_a_gpu_is_needed_is_of_the_service_that_is_debugged(repository, gpu, says):
    repository.write("Dockerfile", SLIM).write("train.py", TRAIN)
    app = "services: {app: {build: ., command: python train.py, gpus: all}}\n"
    other = "services: {app: {build: ., command: python train.py}, other: {image: nginx, gpus: all}}\n"
    repository.files({"compose.yaml": app} if gpu else {"compose.yaml": other, "compose.gpu.yaml": app})
    assert says in repository.plan().facts.gpu_source


def test_an_import_of_the_program_that_no_file_names_is_said(repository):
    repository.write("requirements.txt", "torch\nopencv-python-headless\nlightning\n")
    imports = "import ray, numpy, cv2, pytorch_lightning\nfrom lib.net import log\n"
    repository.write("train.py", imports + "try:\n    import apex\nexcept ImportError: ...\n" + TRAIN)
    repository.write("lib/net.py", "from wandb import log\n").write("lib/__init__.py")
    (note,) = [each for each in repository.plan().notes if "does not list" in each]
    assert note.startswith("train.py imports packages that requirements.txt does not list: ray, wandb;")
    repository.write("requirements-train.txt", "tqdm\nwandb\n")
    (note,) = [each for each in repository.plan().notes if "does not list" in each]
    assert "list: ray, wandb (requirements-train.txt:2 does);" in note
    repository.write("requirements.txt", "torch\nopencv-python\nlightning\nray[default]\nwandb\n")
    assert not [each for each in repository.plan().notes if "does not list" in each]


@pytest.mark.parametrize("files", [{}, {"setup.py": "import setuptools\nsetuptools.setup(name='x')\n"}])
def test_a_module_whose_distribution_is_a_guess_is_said_and_not_installed(repository, files):
    repository.files(files).write("train.py", "import acme_internal_kit\nimport yaml, einops\n" + TRAIN)
    plan = repository.plan()
    assert "pip install pyyaml einops torch" in [each.run for each in plan.image.installs]
    assert "acme" not in str(plan.image)
    (note,) = [each for each in plan.notes if ": acme-internal-kit; " in each]
    assert ("setup.py does not list" in note) == bool(files)


def test_what_is_named_otherwise_built_here_or_lacks_in_an_own_image_is_no_import_nobody_names(repository):
    modules = "grpc, OpenSSL, dns, websocket, Bio, absl, tree, Box2D, nacl, airflow, cupy, clip, fastop, cyth, cPickle, pip, imblearn"
    named = "grpcio pyOpenSSL dnspython websocket-client biopython absl-py dm-tree box2d-py PyNaCl apache-airflow cupy-cuda12x git+https://github.com/openai/CLIP.git imbalanced-learn"
    repository.write("requirements.txt", "\n".join(["torch", *named.split()]) + "\n")
    repository.write("fastop.cpython-311-x86_64-linux-gnu.so").write("cyth.pyx")
    repository.write("train.py", "".join(f"import {name}\n" for name in modules.split(", ")) + TRAIN)
    assert not [each for each in repository.plan().notes if "does not list" in each]
    repository.empty().write("requirements.txt", "torch\n").write("Dockerfile", SLIM)
    repository.write("train.py", "import ray\n" + TRAIN)
    assert not [each for each in repository.plan().notes if "does not list" in each]


def test_a_command_of_the_readme_comes_first_and_a_wait_of_dkdbg_toml_is_said_to_be_of_there(repository):
    repository.readme("python tool/train.py").write("tool/train.py", TRAIN).write("tool/launch.py", TRAIN)
    repository.write("docs/en/advanced/kt.md", "```bash\naccelerate launch tool/launch.py --kt\n```\n")
    assert repository.plan().service.argv == ("python", "tool/train.py")
    repository.empty().write("train.py", TRAIN).write("dkdbg.toml", "[debug]\nwait = 5\n")
    (why,) = [each.why for each in repository.plan().decisions if "waits 5 s" in each.what]
    assert why == "dkdbg.toml says so"


# --- several projects in one repository


def several(repository):
    for name in ("imagenet", "mnist", "vae"):
        repository.write(f"{name}/main.py", TRAIN).write(f"{name}/requirements.txt", f"torch\n{name}-data\n")
        repository.write(f"{name}/README.md", "```bash\npython main.py --epochs 1\n```\n")
    repository.write("data/x.bin").write("README.md", "# Examples\n")
    repository.write(".git/HEAD", "ref: refs/heads/main\n")
    return repository


def test_the_root_of_several_projects_lists_them_for_scripts_too_with_next_step_folder_and_source(
    repository, dkdbg
):
    plan = several(repository).plan()
    assert [each.folder for each in plan.facts.projects] == ["imagenet", "mnist", "vae"]
    note = next(note for note in plan.notes if "3 projects are here" in note)
    folder = re.search(r"dkdbg -C (\S+) init", note)[1]
    made = Repository(repository.root / folder).plan()
    assert made.service.argv == ("python", "main.py", "--epochs", "1")
    (choice,) = (each for each in several(repository).plan().choices if each.topic == "command")
    shown = {option.value: option.source for option in choice.options}
    assert shown["cd vae && python main.py --epochs 1"] == "vae/README.md:2, started in vae"
    done = dkdbg(repository.root, "init", "--diff")
    assert done.code == 0
    assert "3 projects are here: imagenet (main.py), mnist (main.py), vae (main.py)" in done.out


def test_a_subfolder_sees_the_repository_around_it_but_no_home_folder(repository, monkeypatch):
    several(repository)
    mnist = Repository(repository.root / "mnist")
    plan, service = mnist.plan(), mnist.service()
    assert (plan.service.mounts, plan.service.working_dir) == ((("..", "/workspace"),), "/workspace/mnist")
    assert "..:/workspace" in service["volumes"]
    assert [(m.local, str(m.remote)) for m in plan.mappings] == [(".", "/workspace/mnist")]
    monkeypatch.setenv("HOME", str(repository.root))
    assert Repository(repository.root / "mnist").plan().service.mounts == ((".", "/workspace"),)


def test_a_command_in_a_project_brings_its_dependencies(repository):
    several(repository)
    for command, project in (("python mnist/main.py", "mnist"), ("cd vae && python main.py", "vae")):
        files = repository.plan(command=command).facts.dependency_files
        assert files == (f"{project}/requirements.txt",)


def in_a_terminal(root):
    return terminal([sys.executable, "-m", "dkdbg", "init"], cwd=root, env={**os.environ, "TERM": "xterm"})


def typed(root, keys, *, expect):
    """Return what `dkdbg init` shows to a user who types `keys` at its first question, and Ctrl-D at the last one."""
    with in_a_terminal(root) as running:
        running.until(expect)
        running.type(keys)
        shown = running.until("[y/N]")
        running.type("\x04")
        assert running.end() in {0, 1}
        return shown


def test_a_person_chooses_among_near_programs_and_several_projects_with_the_arrow_keys(repository):
    for name in ("alpha", "beta"):
        repository.write(f"{name}/fit_{name}.py", TRAIN)
    repository.readme("python alpha/fit_alpha.py", "python beta/fit_beta.py").write(".git/HEAD")
    shown = typed(repository.root, "\x1b[B\r", expect="beta/fit_beta.py  (README.md:5)")
    assert re.search(r"command python beta/fit_beta\.py\s+because you set it", shown)
    several(repository.empty())
    shown = typed(repository.root, "\x1b[A\r", expect="vae  (main.py)")
    assert "mapping . -> /workspace/" in shown


def test_a_repository_that_is_set_up_is_asked_nothing_again_and_a_pipe_gets_the_rivals_in_a_line(
    repository, dkdbg
):
    for name in ("alpha", "beta"):
        repository.write(f"{name}/fit_{name}.py", TRAIN)
    repository.readme("python alpha/fit_alpha.py", "python beta/fit_beta.py").write(".git/HEAD")
    done = dkdbg(repository.root, "init", "--yes")
    assert "it could be python beta/fit_beta.py  (README.md:5) (choose with --command)" in done.out
    with in_a_terminal(repository.root) as running:
        assert running.end() == 0
    assert "Which" not in running.shown
    assert "nothing to change" in running.shown


def test_inside_a_set_up_repository_every_verb_walks_up_but_a_project_in_it_may_be_set_up_itself(
    tmp_path, dkdbg
):
    project = {"sub/requirements.txt": "torch\n", "sub/train.py": TRAIN}
    root = checkout(tmp_path / "repo", {"train.py": TRAIN, "src/deep/x.py": "", **project})
    assert dkdbg(root, "init", "--yes").code == 0
    checked = run_dkdbg(root / "src/deep", "init", "--check")
    assert (checked.returncode, checked.stderr) == (
        0,
        f"dkdbg: in {root}; relative paths in messages start there\n",
    )
    assert run_dkdbg(root / "sub", "init", "--yes").returncode == 0
    assert (root / "sub/compose.yaml").exists()
    undone = run_dkdbg(root / "src", "init", "--undo")
    assert undone.returncode == 0, undone.stderr
    assert not (root / "compose.yaml").exists()


def test_nothing_is_walked_up_to_that_belongs_to_no_repository(tmp_path):
    (tmp_path / ".dkdbg").mkdir()
    (tmp_path / ".dkdbg/manifest.json").write_text("{}")
    (tmp_path / "mine").mkdir()
    assert initialised(tmp_path / "mine") is None
    assert initialised(tmp_path) == tmp_path


# --- code that the image installs, or that a script mounts


def package(repository):
    repository.write("src/nerf/__init__.py").write("src/nerf/train.py", TRAIN + "def main(): ...\n")
    script = '[project.scripts]\nnerf = "nerf.train:main"\n'
    return repository.write("pyproject.toml", '[project]\nname = "nerf"\n' + script)


@pytest.mark.parametrize("install", ["pip install --no-cache-dir '.[gpu]'", "uv pip install /app"])
def test_of_a_package_that_the_image_has_copied_the_mounted_sources_run(repository, install):
    package(repository).write("Dockerfile", f"{SLIM}ENV PYTHONPATH=/opt/more\nRUN {install}\nCMD nerf\n")
    assert repository.service()["environment"]["PYTHONPATH"] == "/app/src:/opt/more"
    assert any("installs a copy" in note for note in repository.plan().notes)


def test_a_copy_with_compiled_parts_or_a_release_is_said_and_sources_imported_first_are_fine(repository):
    package(repository).write("Dockerfile", f"{SLIM}ENV PYTHONPATH=/app/src\nRUN pip install .\nCMD nerf\n")
    assert "PYTHONPATH" not in repository.service()["environment"]
    assert not repository.plan().notes
    setup = "from setuptools import setup, Extension\nsetup(ext_modules=[])\n"
    package(repository.empty()).write("setup.py", setup)
    repository.write("Dockerfile", f"{SLIM}RUN pip install .\nCMD nerf\n")
    assert "PYTHONPATH" not in repository.service()["environment"]
    assert any("compiled parts" in note for note in repository.plan().notes)
    repository.write("Dockerfile", f"{SLIM}RUN pip install -e .\nCMD nerf\n")
    assert not any("compiled parts" in note for note in repository.plan().notes)
    package(repository.empty()).write("Dockerfile", "FROM python:3.11\nRUN pip install -U nerf\nCMD nerf\n")
    plan = repository.plan()
    assert plan.image.is_generated
    assert any("installs a release" in note for note in plan.notes)


@pytest.mark.parametrize("copies", ["COPY . .", "COPY nerf /app/nerf\nCOPY *.py /app/"])
@pytest.mark.parametrize(
    ("command", "is_said"),
    [
        ("python train.py", False),
        ("python -m nerf.train", False),
        ("python tools/train.py", True),
        ("nerf", True),
    ],
)
def test_a_compiled_copy_is_no_obstacle_to_a_program_beside_its_mounted_package(
    repository, copies, command, is_said
):
    setup = "from setuptools import setup, Extension\nsetup(name='nerf', ext_modules=[])\n"
    repository.write("nerf/__init__.py").write("nerf/train.py", TRAIN).write("setup.py", setup)
    repository.write("train.py", TRAIN).write("tools/train.py", TRAIN)
    text = f"FROM python:3.11\nWORKDIR /app\n{copies}\nRUN python setup.py install\nCMD {command}\n"
    notes = repository.write("Dockerfile", text).plan().notes
    assert any("compiled parts" in note for note in notes) == is_said


@pytest.mark.parametrize("install", ["uv sync --frozen", "pip install -r requirements.txt"])
def test_an_editable_package_needs_nothing(repository, install):
    package(repository).write("Dockerfile", f"{SLIM}RUN {install}\nCMD nerf\n")
    assert "PYTHONPATH" not in repository.service()["environment"]


def test_what_docker_run_says_in_a_script_and_in_the_comments_of_a_dockerfile_is_kept(repository):
    repository.write("Dockerfile", "FROM python:3.11\nRUN pip install torch\n").write("train.py", TRAIN)
    repository.write(
        "run.sh",
        """
        #!/bin/bash
        docker run --rm -it --gpus all --shm-size=16g \\
            -v "$(pwd)":/code -w /code -p 6006:6006 img python train.py
        """,
    )
    plan, service = repository.plan(), repository.service()
    assert (service["working_dir"], service["shm_size"]) == ("/code", "16g")
    assert (".", "/code") in plan.service.mounts
    assert [(m.local, str(m.remote)) for m in plan.mappings] == [(".", "/code")]
    assert plan.service.wait == 600
    repository.empty().write("train.py", TRAIN).write("requirements.txt", "torch\n").write(
        "Dockerfile",
        """
        # docker build -t img . && \\
        # docker run -it --rm --gpus all -v $PWD:/code img \\
        #   sh xvfb_run.sh python3 train.py
        FROM python:3.11
        WORKDIR /code
        COPY requirements.txt .
        RUN pip install -r requirements.txt
        """,
    )
    plan = repository.plan()
    assert [(m.local, str(m.remote)) for m in plan.mappings] == [(".", "/code")]
    assert plan.service.mounts == ((".", "/code"),)


def test_the_environment_of_docker_run_is_kept_and_secrets_stay_where_they_are(repository):
    repository.write("Dockerfile", "FROM python:3.11\nRUN pip install torch\n").write("train.py", TRAIN)
    repository.write("docker/run.env", "A=1\n")
    repository.write(
        "docker/run.sh",
        """
        docker run -e OMP_NUM_THREADS=4 -e HF_TOKEN=hf_AbCdEfGhIjKlMnOp --env=WANDB_API_KEY -e CACHE=$DATA_DIR \\
            -e MODEL='a $ b' -e "RUN_NAME=first run" -e HOST_UID=$(id -u) -e API=<your_api> -e PATH=/x -e DKDBG_PORT=1 \\
            -e DB=postgres://me:geheim@db/x --env-file run.env --env-file $PWD/.env.local --env-file ~/secrets \\
            -v "$(pwd)":/code -w /code img python train.py -e epochs
        """,
    )
    plan, service = repository.plan(), repository.service()
    environment = service["environment"]
    said = {name: value for name, value in environment.items() if not name.startswith(("DKDBG_", "PYTHON"))}
    assert said == {
        "OMP_NUM_THREADS": "4", "HF_TOKEN": None, "WANDB_API_KEY": None, "CACHE": "${DATA_DIR:-}", "MODEL": None,
        "RUN_NAME": "first run", "HOST_UID": None, "API": None, "DB": None,
    }  # fmt: skip
    assert environment["DKDBG_PORT"] == "5678"
    assert [each["path"] for each in service["env_file"]] == ["./docker/run.env", "./.env.local"]
    assert not any(each["required"] for each in service["env_file"])
    written = repr(sorted(vars(plan).items())) + repr(service)
    assert "hf_Ab" not in written
    assert "geheim" not in written
    assert any("HF_TOKEN (from your environment or .env)" in decision.what for decision in plan.decisions)


def test_a_line_that_starts_the_image_of_the_makefile_says_its_environment_too(repository):
    repository.write("Dockerfile", "FROM python:3.11\nWORKDIR /app\nCOPY . .\nCMD python train.py\n")
    repository.write("train.py", TRAIN)
    repository.write("README.md", "    docker run -e POSTGRES_DB=x -p 5432:5432 postgres\n")
    line = "docker run --shm-size=8g -e STEPS=3 -e SEED=$(SEED) acme/trainer:latest"
    repository.write("Makefile", f"build:\n\tdocker build -t acme/trainer .\nrun:\n\t{line}\n")
    environment, shm_size = (repository.service()[key] for key in ("environment", "shm_size"))
    assert (environment["STEPS"], environment["SEED"], shm_size) == ("3", None, "8g")
    assert "POSTGRES_DB" not in environment


@pytest.mark.parametrize("line", ["--ipc=host -v $PWD:/w", "--ipc host --mount type=bind,src=$(pwd),dst=/w"])
def test_a_makefile_that_shares_memory_with_the_host_is_followed(repository, line):
    repository.write("Dockerfile", "FROM python:3.11\n").write("train.py", TRAIN)
    repository.write("Makefile", f"run:\n\tdocker run {line} -w /w img python train.py\n")
    service = repository.service()
    assert (service.get("ipc"), service.get("shm_size"), service["working_dir"]) == ("host", None, "/w")


def test_files_that_git_ignores_are_named(tmp_path, dkdbg):
    root = checkout(tmp_path / "repo", {"train.py": TRAIN, ".gitignore": ".vscode/\n"})
    said = dkdbg(root, "init", "--yes").out
    assert "git ignores .vscode/launch.json" in said
    added = re.search(r"git add -f (.+?);", said)[1]
    assert subprocess.run(["git", "add", "-f", *added.split()], cwd=root, check=False).returncode == 0


# --- what is no evidence about the program


def test_a_dev_container_of_another_folder_says_nothing_and_words_to_owners_of_a_gpu_require_none(repository):
    repository.write("train.py", TRAIN)
    repository.write("pyproject.toml", "[project]\nname='x'\nrequires-python='>=3.10,<3.13'\n")
    repository.write("extra/.devcontainer/Dockerfile", "FROM pytorch/pytorch:2.0.0-cuda11.7-cudnn8-runtime\n")
    opened = '{"build": {"dockerfile": "Dockerfile"}, "runArgs": ["--gpus", "all"]}'
    repository.write("extra/.devcontainer/devcontainer.json", opened)
    facts = repository.plan().facts
    assert (facts.python.version, facts.gpu) == ("3.11", "optional")
    repository.empty().write("train.py", TRAIN + "x.to('cuda')\n").readme("python train.py")
    text = (repository.root / "README.md").read_text()
    said = "If you have a GPU card, install the driver. You will need CUDA too."
    repository.write("README.md", f"{text}\n{said}\n")
    assert repository.plan().facts.gpu_source.startswith(("train.py", "README"))
    assert "need CUDA" not in repository.plan().facts.gpu_source


def test_a_prompt_with_a_folder_in_brackets_and_a_block_that_is_called_python_have_commands(repository):
    repository.write("train.py", TRAIN).write("eval_real.py", TRAIN)
    repository.readme("(env)[project]$ python train.py --config-name=a", "python eval_real.py -i x")
    assert repository.plan().service.argv == ("python", "train.py", "--config-name=a")
    blocks = ("python -m lib.main algorithm=x", "import lib\nlib.run()")
    repository.empty().write("README.md", "\n".join(f"```python\n{each}\n```\n" for each in blocks))
    repository.write("lib/main.py", TRAIN + "if __name__ == '__main__': ...\n").write("lib/__init__.py")
    repository.write("lib/tool/finetune.py", TRAIN + "if __name__ == '__main__': ...\n")
    assert repository.plan().service.argv == ("python", "-m", "lib.main", "algorithm=x")


# --- how many processes


def test_the_documented_number_of_processes_is_kept_for_machines_that_can(repository):
    repository.write("train.py", TRAIN).readme("torchrun --nproc_per_node=4 train.py --epochs 1")
    plan, service = repository.plan(), repository.service()
    assert (
        " ".join(service["command"]) == "torchrun --nproc_per_node=${DKDBG_PROCESSES:-1} train.py --epochs 1"
    )
    assert plan.service.argv[1] == "--nproc_per_node=1"
    assert any("4 processes" in note and "DKDBG_PROCESSES" in note for note in plan.notes)
    assert (plan.debug_service.processes, plan.debug_service.needs_gpu) == (4, plan.facts.gpu == "required")


@pytest.mark.parametrize("gpu", ["", "gpus: all, "])
def test_an_env_file_that_git_has_not_brought_does_not_keep_the_debug_service_from_starting(repository, gpu):
    repository.write("docker/a.env", "A=1\n").write("Dockerfile", SLIM).write("train.py", TRAIN)
    service = f"{{build: {{context: ..}}, {gpu}env_file: [a.env, .env], command: python train.py}}"
    repository.write("docker/docker-compose.yml", f"services: {{train: {service}}}\n")
    service = repository.service()
    found = [(each["path"], each["required"]) for each in service["env_file"]]
    assert found == [("./docker/a.env", False), ("./docker/.env", False)]
    assert any("docker/.env" in note for note in repository.plan().notes)
    repository.write("docker/.env", "B=2\n")
    assert "env_file" not in repository.service()


def test_the_line_that_keeps_the_generated_files_as_they_are_is_said_until_it_is_there(repository, dkdbg):
    said = "* text eol=crlf\n*.pyz filter=lfs diff=lfs merge=lfs"
    repository.write(".gitattributes", said).write("train.py", TRAIN)
    root = checkout(repository.root, {})
    made = dkdbg(root, "init", "--yes")
    assert (root / ".gitattributes").read_text() == said
    pattern = r"text, filter in \.gitattributes.*: (printf '.+' >> \.gitattributes)$"
    line = re.search(pattern, made.out, re.MULTILINE)
    assert line, made.out
    subprocess.run(["sh", "-c", line[1]], cwd=root, check=True)
    names = [".dkdbg/agent.pyz", ".dkdbg/up.sh", ".dkdbg/manifest.json"]
    before = [(root / name).read_bytes() for name in names]
    subprocess.run(["git", "add", "--", *names], cwd=root, check=True, capture_output=True)
    for name in names:
        (root / name).unlink()
    subprocess.run(["git", "checkout", "--", *names], cwd=root, check=True, capture_output=True)
    assert [(root / name).read_bytes() for name in names] == before
    (root / "compose.yaml").unlink()
    assert "gitattributes" not in dkdbg(root, "init", "--yes").out


@pytest.mark.parametrize("shell", ["/bin/bash", "bash -l", '["sh", "-c", "bash"]'])
def test_an_image_that_opens_a_shell_has_no_program_of_its_own(repository, shell):
    repository.write("Dockerfile", f"FROM python:3.11\nWORKDIR /app\nCOPY . .\nCMD {shell}\n")
    repository.write("train.py", TRAIN).readme("python train.py --epochs 3")
    assert repository.plan().service.argv == ("python", "train.py", "--epochs", "3")


DEV = """services:
  app:
    build: {context: .., dockerfile: .devcontainer/Dockerfile}
    volumes: ['..:/workspace:cached']
    command: sleep infinity
    network_mode: service:db
  db: {image: 'postgres:16'}
"""


@pytest.mark.parametrize("key", ["postCreateCommand", "updateContentCommand"])
def test_a_dev_container_that_gets_its_packages_after_its_creation_is_built_with_them(repository, dkdbg, key):
    settings = f'{{"dockerComposeFile": "compose.yml", "service": "app", "{key}": "pip install -r requirements.txt"}}'
    repository.write(".devcontainer/devcontainer.json", settings).write(".devcontainer/compose.yml", DEV)
    repository.write(".devcontainer/Dockerfile", "FROM mcr.microsoft.com/devcontainers/python:3.12\n")
    repository.write("requirements.txt", "flask\n").write(
        "code/web/__init__.py", "import flask\ndef create_app(): ...\n"
    )
    plan = repository.readme("flask --app web run").plan()
    assert (plan.image.is_generated, plan.image.base) == (True, "python:3.12-slim")
    assert (plan.service.extends.name, plan.service.extends.dockerfile) == ("app", "Dockerfile")
    assert plan.service.argv == ("flask", "--app", "web", "run")
    assert plan.facts.entrypoint.home == "code"
    assert dkdbg(repository.root, "init", "--yes").code == 0
    text = (repository.root / "Dockerfile").read_text()
    assert "pip install -r requirements.txt" in text
    assert "/workspace/code >" in text
    services = load_yaml((repository.root / ".dkdbg/service.compose").read_text())["services"]
    assert services["app-debug"]["build"]["dockerfile"] == "Dockerfile"
    assert dkdbg(repository.root, "init", "--check").code == 0
    assert dkdbg(repository.root, "init", "--undo").code == 0
    repository.write(".devcontainer/Dockerfile", "FROM python:3.12\nRUN pip install -r requirements.txt\n")
    plan = repository.plan()
    assert (plan.image.is_generated, plan.service.extends.dockerfile) == (False, ".devcontainer/Dockerfile")


@pytest.mark.parametrize(
    ("command", "opened"),
    [
        ("uvicorn main:app --reload", {"UVICORN_HOST": "0.0.0.0"}),
        ("uvicorn main:app --host 0.0.0.0 --reload", {}),
        ("flask --app main run", {"FLASK_RUN_HOST": "0.0.0.0"}),
        ("flask --app main run --host=0.0.0.0", {}),
        ("python main.py", {"GRADIO_SERVER_NAME": "0.0.0.0"}),
        ("streamlit run main.py", {}),
    ],
)
def test_a_server_of_the_readme_listens_where_its_published_port_is_reached(repository, command, opened):
    source = "import gradio\ndemo.launch()\n" if command.startswith("python") else "app = 1\nprint(app)\n"
    repository.write("main.py", source).readme(command)
    plan = repository.plan()
    assert plan.service.app_ports
    assert dict(plan.service.env) == opened
    repository.write("Dockerfile", f"{SLIM}CMD {command}\n").write(
        "compose.yml", "services: {web: {build: ., ports: ['80:80']}}\n"
    )
    assert repository.plan().service.env == ()


def test_the_address_that_an_image_or_a_configuration_file_names_is_not_replaced(repository):
    repository.write("web.py", "app = 1\nprint(app)\n").readme("gunicorn web:app")
    repository.write("gunicorn.conf.py", 'bind = "0.0.0.0:9000"\n')
    assert repository.plan().service.env == ()
    repository.write("Dockerfile", f"{SLIM}ENV UVICORN_HOST=::\nEXPOSE 80\nCMD uvicorn web:app\n")
    assert repository.plan().service.env == ()


def test_a_folder_without_a_program_names_the_command_for_the_repository_around_it(repository):
    repository.write("train.py", TRAIN).write(".git/HEAD", "ref: refs/heads/main\n")
    repository.write("data/raw/notes.txt", "x\n")
    inside = Repository(repository.root / "data/raw")
    assert any("dkdbg -C ../.. init" in note for note in inside.plan().notes)
    assert not any("dkdbg -C" in note for note in repository.plan().notes)


def test_a_compose_file_that_needs_variables_is_said(repository):
    repository.write("train.py", TRAIN).write("Dockerfile", f"{SLIM}CMD python train.py\n")
    repository.write("compose.yml", "services: {train: {build: ., volumes: ['${DATA}:/data']}}\n")
    said = "compose refuses compose.yml until these have a value in .env or your environment: DATA"
    assert said in repository.plan().notes
    repository.write("compose.yml", "services: {train: {image: '${DATA}'}}\n")
    plan = repository.plan()
    assert plan.service.extends is None
    assert said in plan.notes


def test_a_compose_file_that_needs_an_environment_file_is_said_with_its_example(repository):
    repository.write("train.py", TRAIN).write("Dockerfile", f"{SLIM}CMD python train.py\n")
    repository.write("compose.yml", "services: {train: {build: ., env_file: .env}}\n")
    said = "compose refuses compose.yml until .env is there"
    assert said in repository.plan().notes
    repository.write(".env.example", "A=1\n")
    assert f"{said}; first: cp .env.example .env" in repository.plan().notes
    repository.write(".env", "A=1\n")
    assert not repository.plan().notes


def mounts_of(plan):
    """What is mounted where, local side first."""
    return {**dict(plan.service.mounts), **{m.local: str(m.remote) for m in plan.mappings}}


def test_python_files_copied_by_a_pattern_are_mapped_singly_a_stages_environment_is_no_code(repository):
    steps = "WORKDIR /app\nCOPY *.py *.sh LICENSE /app/\nCMD python speech.py\n"
    repository.write("Dockerfile", "FROM python:3.11\n" + steps)
    repository.write("speech.py", TRAIN).write("say.py", TRAIN).write("run.sh").write("LICENSE")
    mounted = {"speech.py": "/app/speech.py", "say.py": "/app/say.py", ".": "/workspace"}
    assert mounts_of(repository.plan()) == mounted
    text = '[project]\nname = "bikes"\nversion = "1"\n[project.scripts]\nbikes = "bikes:main"\n'
    repository.empty().write("pyproject.toml", text)
    repository.write("src/bikes/__init__.py", "def main(): ...\n")
    repository.write(
        "Dockerfile",
        """
        FROM python:3.11 AS build
        WORKDIR /app
        COPY . /app
        RUN uv sync --no-editable
        FROM python:3.11
        WORKDIR /app
        COPY --from=build /app/.venv /app/.venv
        ENTRYPOINT ["bikes"]
        """,
    )
    assert mounts_of(repository.plan()) == {".": "/workspace"}


def test_requirements_that_name_sklearn_get_the_package_of_that_name_of_today(repository):
    repository.write("requirements.txt", "numpy\nsklearn\n").write(
        "train.py", "import sklearn\nsklearn.fit()\n"
    )
    text = repository.written("Dockerfile")
    assert "pip install -r requirements.txt scikit-learn" in text
    assert "\nENV SKLEARN_ALLOW_DEPRECATED_SKLEARN_PACKAGE_INSTALL=True\n" in text
    repository.write("requirements.txt", "numpy\nscikit-learn\n")
    assert "SKLEARN" not in repository.written("Dockerfile")


@pytest.mark.parametrize("start", ["ARG BASE\nFROM $BASE\n", "ARG V\nFROM python:${V}\n"])
def test_a_dockerfile_that_cannot_be_built_without_an_argument_is_not_used(repository, start):
    repository.write("Dockerfile", f"{start}COPY . /app\nCMD python /app/train.py\n").write("train.py", TRAIN)
    plan = repository.plan()
    assert (plan.image.is_generated, plan.image.dockerfile) == (True, "dkdbg.Dockerfile")
    (note,) = (each for each in plan.notes if "argument" in each)
    assert note.startswith("Dockerfile takes its base image from")
    repository.write("docker/Dockerfile", f"{SLIM}CMD python train.py\n")
    plan = repository.plan()
    assert (plan.image.dockerfile, [each for each in plan.notes if "argument" in each]) == (
        "docker/Dockerfile",
        [],
    )
    assert repository.plan(dockerfile="Dockerfile").image.dockerfile == "Dockerfile"
    repository.write(
        "compose.yml", "services: {train: {build: {context: ., args: {BASE: 'python:3.11', V: '3.11'}}}}\n"
    )
    assert repository.plan().service.extends.dockerfile == "Dockerfile"


@pytest.mark.parametrize(
    ("source", "wait", "ports"),
    [
        ("import waitress\nwaitress.serve(app, port=9000)\n", 0, (9000,)),
        ("import runpod\nrunpod.serverless.start({'handler': f})\n", 0, ()),
        ("import grpc\nserver.start()\nserver.wait_for_termination()\n", 0, ()),
        (
            "import http.server as h\nh.ThreadingHTTPServer(('0.0.0.0', 8000), h.Handler).serve_forever()\n",
            0,
            (8000,),
        ),
        ("import dash\napp = dash.Dash()\napp.run(host='0.0.0.0')\n", 0, (8050,)),
        ("import dash\napp = dash.Dash()\napp.run(host='0.0.0.0', port=5000)\n", 0, (5000,)),
        ("import marimo\napp = marimo.App()\nif __name__ == '__main__':\n    app.run()\n", 600, ()),
    ],
)
def test_a_script_that_serves_does_not_wait_for_an_editor(repository, source, wait, ports):
    plan = repository.write("go.py", f"import argparse\n{source}").readme("python go.py").plan()
    assert (plan.service.wait, plan.service.app_ports) == (wait, ports)


@pytest.mark.parametrize(
    ("call", "is_said"),
    [
        ("app.run(debug=True)", True),
        ("app.run('127.0.0.1', port=9000)", True),
        ("uvicorn.run(app, host='localhost')", True),
        ("uvicorn.run(app, port=9000)", True),
        ("app.run('0.0.0.0')", False),
        ("uvicorn.run(app, host=args.host)", False),
        ("web.run_app(app)", False),
        ("demo.launch()", False),
    ],
)
def test_a_script_that_serves_on_loopback_is_said(repository, call, is_said):
    notes = repository.write("go.py", f"import flask\n{call}\n").readme("python go.py").plan().notes
    assert any(note.startswith("go.py listens only on 127.0.0.1") for note in notes) == is_said


# --- what the base image sets


@pytest.fixture
def engine(monkeypatch):
    """The images of a fake engine, with what a build inherits from each."""
    images: dict[str, tuple[str, ...]] = {}
    monkeypatch.setattr("dkdbg.verbs.init.inherited", images.get)
    return images


@pytest.mark.parametrize("compose", [True, False])
def test_code_is_mapped_to_the_working_directory_of_the_base_image(repository, engine, compose):
    repository.write("app.py", TRAIN)
    repository.write("Dockerfile", "FROM mlbox:1\nWORKDIR sub\nCOPY . .\nCMD python app.py\n")
    if compose:
        repository.write("compose.yaml", "services: {web: {build: .}}\n")
    engine["mlbox:1"] = ("WORKDIR /opt/ml/code",)
    plan = repository.plan(ask=engine.get)
    assert [str(m.remote) for m in plan.mappings] == ["/opt/ml/code/sub"]
    assert ("WORKDIR /opt/ml/code", "the image mlbox:1 sets it") in [(d.what, d.why) for d in plan.decisions]


@pytest.mark.parametrize(("command", "is_owner"), [("llm train", True), ("supervisord -n", False)])
def test_a_console_script_of_the_repository_runs_as_the_owner_of_the_workspace(repository, command, is_owner):
    repository.write("Dockerfile", SLIM + f"CMD {command}\n").write("cli.py", "def main(): ...\n")
    repository.write("pyproject.toml", '[project]\nname = "p"\n[project.scripts]\nllm = "cli:main"\n')
    assert repository.plan().service.as_owner is is_owner


@pytest.mark.parametrize(
    ("own", "home_of", "is_owner"),
    [("", "ml", True), ("USER app\n", "app", True), ("USER root\n", "0", False)],
)
def test_a_program_has_the_home_of_the_user_of_the_base_image(repository, engine, own, home_of, is_owner):
    repository.write("app.py", TRAIN)
    repository.write("Dockerfile", f'FROM mlbox:1\nWORKDIR /app\nCOPY . .\n{own}CMD ["./start", "app.py"]\n')
    engine["mlbox:1"] = ("USER ml",)
    service = repository.plan(ask=engine.get).service
    assert (service.home_of, service.as_owner) == (home_of, is_owner)


@pytest.mark.parametrize(("keys", "home_of"), [("", "ml"), (", user: app", "app")])
def test_a_program_has_the_home_of_the_user_of_the_service_s_image(repository, engine, keys, home_of):
    service = f"{{image: 'mlbox:1', volumes: ['.:/w'], working_dir: /w, command: python app.py{keys}}}"
    repository.write("app.py", TRAIN).write("compose.yaml", f"services: {{web: {service}}}\n")
    engine["mlbox:1"] = ("USER ml",)
    plan = repository.plan(ask=engine.get)
    assert (plan.service.home_of, plan.remote_user) == (home_of, home_of)


def test_only_an_init_that_may_write_asks_the_engine_for_the_base_image(repository, engine, dkdbg):
    def learnt():
        return inherited(load(repository.root)).get("mlbox:1", ())

    repository.write("app.py", TRAIN).write("Dockerfile", "FROM mlbox:1\nCOPY . .\nCMD python app.py\n")
    assert dkdbg(repository.root, "init", "--yes").code == 0
    engine["mlbox:1"] = ("WORKDIR /opt/ml/code",)
    assert dkdbg(repository.root, "init", "--check").code == 0
    assert not repository.plan().facts.inherited
    assert "/opt/ml/code" in dkdbg(repository.root, "init", "--diff").out
    assert dkdbg(repository.root, "init", "--yes").code == 0
    engine.clear()  # a machine without the image keeps what another has learnt
    for flag in ("--check", "--yes", "--check"):
        assert dkdbg(repository.root, "init", flag).code == 0
        assert learnt() == ("WORKDIR /opt/ml/code",)
    engine["mlbox:1"] = ()
    assert dkdbg(repository.root, "init", "--check").code == 0
    assert dkdbg(repository.root, "init", "--yes").code == 0
    assert learnt() == ()


def test_a_missing_program_is_looked_for_in_the_working_directory_of_the_service_s_image(repository, engine):
    service = "{image: 'mlbox:1', volumes: ['.:/w'], command: python gone.py}"
    repository.write("app.py", TRAIN).write("compose.yaml", f"services: {{web: {service}}}\n")
    engine["mlbox:1"] = ("WORKDIR /w",)
    assert any("gone.py" in note for note in repository.plan(ask=engine.get).notes)


def test_an_address_that_github_has_switched_off_is_fetched_by_https(repository):
    repository.write("train.py", TRAIN).write("requirements.txt", "git+git://github.com/org/kit.git\n")
    text = repository.written("Dockerfile")
    assert 'RUN git config --system url."https://github.com/".insteadOf git://github.com/\n' in text
    repository.write("requirements.txt", "git+https://github.com/org/kit.git\n")
    assert "insteadOf" not in repository.written("Dockerfile")


def test_a_git_package_of_the_readme_is_tried_once_with_and_once_without_isolation(repository):
    repository.write("train.py", "import kit\n" + TRAIN).readme(
        "pip install torch git+https://example.org/kit.git", "python train.py"
    )
    assert repository.written("Dockerfile").count("pip install git+") == 1
    assert repository.written("Dockerfile").count("--no-build-isolation git+") == 1


def test_a_command_that_begins_with_the_images_entrypoint_does_not_get_it_twice(repository):
    repository.write(
        "pyproject.toml", "[project]\nname='kit'\nversion='1'\n[project.scripts]\nkit='kit.cli:main'\n"
    )
    repository.write("kit/__init__.py").program("kit/cli.py").write(
        "Dockerfile", SLIM + 'ENTRYPOINT ["kit"]\n'
    )
    repository.write(
        ".devcontainer/devcontainer.json",
        '{"dockerComposeFile": "compose.yml", "service": "app", "postCreateCommand": "pip install -e ."}',
    ).write(".devcontainer/Dockerfile", "FROM python:3.11\n")
    service = "{build: {context: .., dockerfile: .devcontainer/Dockerfile}, command: sleep infinity}"
    repository.write(".devcontainer/compose.yml", f"services: {{app: {service}}}\n")
    assert repository.readme("kit serve").plan().service.argv == ("kit", "serve")
    repository.write("Dockerfile", SLIM + 'ENTRYPOINT ["kit"]\nCMD ["start", "--all"]\n')
    assert repository.plan().service.argv == ("kit", "start", "--all")


@pytest.mark.parametrize(("imported", "held"), [("torch\nnet.cuda()", "a GPU"), ("csv", "the container")])
def test_the_reason_for_a_limited_wait_names_a_gpu_only_where_there_is_one(repository, imported, held):
    repository.program("main.py", f"import {imported}")
    assert [each for each in repository.plan().decisions if f"{held} should not be held" in each.why]


EXTENSION = "from setuptools import setup\nfrom Cython.Build import cythonize\nsetup(ext_modules=cythonize('a.pyx'))\n"
CUDA = "from setuptools import setup\nfrom torch.utils.cpp_extension import CUDAExtension\nextension = CUDAExtension\nsetup(ext_modules=[extension('a', [])])\n"


def test_an_extension_module_of_the_repository_is_said_with_the_line_that_builds_it_and_gets_its_tools(
    repository,
):
    repository.write("train.py", TRAIN).write("requirements.txt", "torch\n").write("ops/setup.py", EXTENSION)
    (note,) = [each for each in repository.plan().notes if each.startswith("ops/setup.py compiles")]
    assert note.endswith("--entrypoint sh app-debug -c 'cd ops && python setup.py build_ext --inplace'")
    text = repository.written("Dockerfile")
    assert " build-essential" in text
    assert "pip install -r requirements.txt setuptools cython" in text
    repository.write("ops/__init__.py")
    assert [each for each in repository.plan().notes if "cd ops && mkdir -p ops && python setup.py" in each]
    repository.write("ops/setup.py", CUDA)
    assert [each for each in repository.plan().notes if "DKDBG_BASE has to name an image with nvcc" in each]
    repository.write("ops/requirements.txt", "numpy\n")  # another project
    assert not [each for each in repository.plan().notes if "setup.py compiles" in each]
    (repository.root / "ops/requirements.txt").unlink()
    repository.write("setup.py", "from setuptools import setup\nsetup(name='x', ext_modules=[])\n")
    assert next(each for each in repository.plan().notes if "compiles" in each).startswith("ops/setup.py")
    repository.write("ops/a.cpython-311-x86_64-linux-gnu.so")
    assert not [each for each in repository.plan().notes if "setup.py compiles" in each]


def test_what_the_readme_installs_beside_the_requirements_and_the_program_imports_is_installed(repository):
    repository.write("train.py", "import torch, torchvision, timm, tqdm, mmcv\n" + TRAIN)
    repository.write("requirements.txt", "tqdm\n").readme(
        "conda install pytorch=1.13.1 torchvision=0.14.1 cudatoolkit=11.7 -c pytorch",
        "pip install mmcv-full==1.2.2 -f https://example.org/mmcv/index.html",
        "pip install timm==0.3.2 black mmcv",
        "pip install -r requirements.txt",
        "python train.py",
    )
    runs = [each.run for each in repository.plan().image.installs]
    assert any(each.endswith(" torch==1.13.1 torchvision") for each in runs)
    more = "mmcv-full==1.2.2 timm==0.3.2 -f https://example.org/mmcv/index.html"
    assert any(each.endswith(f"-r requirements.txt {more}") for each in runs), runs
    assert not [each for each in repository.plan().notes if "not list" in each]


def test_a_service_whose_dockerfile_is_not_in_the_repository_is_not_chosen(repository):
    repository.program("train.py").readme("python train.py").write(
        "deploy/compose.yml",
        "services: {app: {build: {context: ., dockerfile: run/Dockerfile}, command: python train.py}}\n",
    )
    assert repository.plan().service.extends is None
    repository.write("deploy/run/Dockerfile", "FROM python:3.11\n")
    assert repository.plan().service.extends.name == "app"


def test_the_variables_of_a_dockerfile_whose_python_is_too_old_are_kept(repository):
    repository.write(
        "Dockerfile", "FROM python:3.6\nARG JOBS=4\nWORKDIR /code\nCOPY . .\nENV MUJOCO_GL=egl\n"
    )
    with (repository.root / "Dockerfile").open("a") as file:
        file.write(
            "ENV PYTHONPATH=/code/src:/opt/x PIP_NO_CACHE=1 API_TOKEN=x OUT=/out DB=postgres://me:geheim@db/x\n"
            "ENV HUB=hf_AbCdEfGhIjKlMnOp SENTRY_DSN=https://0@o1.example/2 DKDBG_HOST=::\nCMD python train.py\n"
        )
    environment = repository.write("train.py", TRAIN).service()["environment"]
    assert (environment["MUJOCO_GL"], environment["PYTHONPATH"]) == ("egl", "/workspace/src")
    assert not {"JOBS", "PIP_NO_CACHE", "API_TOKEN", "OUT", "DB", "HUB", "SENTRY_DSN"} & set(environment)
    assert environment["DKDBG_HOST"] == "0.0.0.0"
    assert any("of your Dockerfiles only ENV is used" in each for each in repository.plan().notes)
    repository.empty().write("train.py", TRAIN).readme("conda create -n x python=3.6", "python train.py")
    assert not [each for each in repository.plan().notes if "your Dockerfiles" in each]
