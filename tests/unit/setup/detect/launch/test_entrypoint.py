"""Which program a repository is about."""

import pytest

from dkdbg.setup.detect.launch.roles import role_of
from tests.unit.project import TRAIN


def test_a_readme_launch_line_beats_a_main_guard_and_what_another_program_executes_is_no_candidate(project):
    project.program("run.py").program("fit_model.py").readme("python fit_model.py --epochs 1")
    entry = project.facts().entrypoint
    assert (entry.file, entry.source) == ("fit_model.py", "README.md")
    assert entry.command == "python fit_model.py --epochs 1"
    project.empty().write("train.py", TRAIN).write("config/train_small.py", "batch_size = 1\nlr = 0.1\n")
    project.readme("python train.py config/train_small.py")
    assert [item.file for item in project.facts().candidates] == ["train.py"]


@pytest.mark.parametrize(
    ("line", "where"),
    [
        ("tool  fit  data", "README.md:6"),
        ("tool fit 'data'", "README.md:6"),
        ("tool \\\n  --lr 1", "README.md:6"),
        ("A=1 tool fit data >log", "README.md:6"),
        (
            "make fit",
            "README.md",
        ),  # its command is in another file: the name of the tool alone is no line of it
    ],
)
def test_the_line_of_a_command_is_the_one_where_it_stands_as_written(project, line, where):
    project.write("setup.py", "setup(name='t', entry_points={'console_scripts': ['tool=t.main:main']})\n")
    project.write("t/main.py", "def main(): ...\n").write("Makefile", "fit:\n\ttool --all\n")
    project.write("README.md", f"# tool\n\nThe tool fits.\n\n```\n{line}\n```\n")
    assert project.facts().entrypoint.where == where


def test_what_stands_before_a_command_is_known(project):
    project.write("train.py", TRAIN).readme("A=1 B='x y' torchrun --nproc_per_node=8 train.py --lr 1")
    entry = project.facts().entrypoint
    assert (entry.launcher, entry.assigned) == ("torchrun", ("A=1", "B=x y"))


@pytest.mark.parametrize("wrapper", ["torchpack dist-run -np 8", "nsys profile -o out", "runai submit j --"])
def test_a_program_behind_a_wrapper_that_is_unknown_keeps_its_arguments(project, wrapper):
    project.write("tools/train.py", TRAIN).readme(f"{wrapper} python tools/train.py configs/base.yaml --lr 1")
    entry = project.facts().entrypoint
    assert (entry.command, entry.launcher) == ("python tools/train.py configs/base.yaml --lr 1", "python")


def test_training_beats_sampling_and_preparing_data_is_not_the_program(project):
    project.write("train.py", TRAIN).write("sample.py", TRAIN).readme("python sample.py", "python train.py")
    assert project.facts().entrypoint.file == "train.py"
    project.empty().write("data/prepare.py", TRAIN).write("model_run.py", TRAIN)
    project.readme("python data/prepare.py", "python model_run.py")
    assert project.facts().entrypoint.file == "model_run.py"


def test_a_module_or_script_without_its_folder_is_found_from_the_root_and_cd_counts(project):
    project.write("scripts/base_train.py", TRAIN)
    project.readme("torchrun --nproc_per_node=8 -m scripts.base_train -- --depth=1")
    entry = project.facts().entrypoint
    assert (entry.file, entry.launcher, entry.cwd) == ("scripts/base_train.py", "torchrun", ".")
    project.empty().write("src/train.py", TRAIN).readme("python train.py trainer=gpu")
    assert project.facts().entrypoint.command == "python src/train.py trainer=gpu"
    project.empty().write("a/train.py", TRAIN).write("b/train.py", TRAIN).readme("cd b", "python train.py")
    entry = project.facts().entrypoint
    assert (entry.file, entry.cwd) == ("b/train.py", "b")


def test_a_shell_script_of_the_readme_is_read_through_also_where_two_source_each_other(project):
    project.write("pretrain.py", TRAIN)
    project.write(
        "run.sh",
        'CFG=big  # or small\nLR=${LR:-"1"}\nN=$(nproc) X="open\ntorchrun \\\n  --nproc_per_node=8 \\\n'
        "  pretrain.py --cfg $CFG --lr ${LR}\n",
    )
    entry = project.readme("bash run.sh").facts().entrypoint
    assert (entry.file, entry.command) == (
        "pretrain.py",
        "torchrun --nproc_per_node=8 pretrain.py --cfg big --lr 1",
    )
    project.empty().write("a.sh", "source b.sh\npython train.py\n").write("b.sh", ". a.sh\n")
    project.write("train.py", TRAIN)
    assert project.facts().entrypoint.file == "train.py"


def test_a_makefile_the_editor_and_the_image_show_the_program(project):
    project.write("src/go.py", "import torch\ngo()\n")
    project.write("Makefile", "PY ?= python3\nrun:\n\t@$(PY) src/go.py --fast\n")
    assert project.facts().entrypoint.command == "python3 src/go.py --fast"
    nested = (
        "DIR := src\nGO = $(DIR)/go.py\nOPTIONS := --out $(DIR)/$$USER\nrun:\n\tpython3 $(GO) $(OPTIONS)\n"
    )
    project.write("Makefile", nested)
    assert project.facts().entrypoint.command == "python3 src/go.py --out src/$USER"
    project.empty().program("tool_a.py").program("tool_b.py").write(
        ".vscode/launch.json",
        """
        {"configurations": [ // ours
          {"type": "debugpy", "request": "launch", "program": "${workspaceFolder}/tool_b.py", "args": ["--x", "1"]},
        ]}
    """,
    )
    assert project.facts().entrypoint.command == "python tool_b.py --x 1"
    start = 'ENTRYPOINT ["dumb-init", "--"]\nCMD ["python3", "gui.py", "--listen"]\n'
    project.empty().write("Dockerfile", "FROM python:3.11\nWORKDIR /app\nCOPY . .\n" + start)
    project.program("gui.py").program("local_train.py")
    entry = project.facts().entrypoint
    assert (entry.file, entry.command) == ("gui.py", "python3 gui.py --listen")


def test_arguments_of_the_editor_stay_whole_words_and_its_paths_are_those_of_the_repository(project):
    project.program("bot/ask.py").write("bot/cfg.yaml", "a: 1\n")
    project.write(
        ".vscode/launch.json",
        """
        {"configurations": [{"type": "debugpy", "request": "launch", "program": "${workspaceFolder}/bot/ask.py",
          "cwd": "${workspaceFolder}/bot", "args": ["--question", "Is it safe?", "--config", "${workspaceFolder}/bot/cfg.yaml"]}]}
    """,
    )
    entry = project.facts().entrypoint
    assert (entry.cwd, entry.file) == ("bot", "bot/ask.py")
    assert entry.command == "python ../bot/ask.py --question 'Is it safe?' --config ../bot/cfg.yaml"


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("Makefile", "serve:\n\tpython app.py\n\nclean: style\n\tpython nb/clear_cells.py\n\trm -rf build\n"),
        ("justfile", "serve *args:\n  poetry run python app.py {{args}}\n\nclean:\n  python nb/clear_cells.py\n"),
        ("Taskfile.yml", "tasks:\n  clean:\n    cmds:\n      - python nb/clear_cells.py\n  serve:\n    cmds:\n      - python app.py\n"),
    ],
)  # fmt: skip
def test_a_program_that_a_makefile_runs_to_clean_up_is_not_the_one_to_debug(project, path, text):
    project.write(path, text).program("nb/clear_cells.py").write("lesson.ipynb", '{"cells": []}')
    assert project.facts().entrypoint is None
    entry = project.program("app.py").facts().entrypoint
    assert (entry.source, entry.command) == (path, "python app.py")


def test_a_program_is_started_by_its_console_script_or_as_a_module_of_its_package(project):
    project.write("pyproject.toml", '[project]\nname = "tool"\n[project.scripts]\ntool = "pkg.cli:main"\n')
    project.program("pkg/cli.py")
    entry = project.facts().entrypoint
    assert (entry.command, entry.launcher, entry.file) == ("tool", "console-script", "pkg/cli.py")
    project.empty().program("src/book/part2/training.py", APP).write("src/book/__init__.py")
    entry = project.write("src/book/part2/__init__.py").write("src/book/part2/dsets.py").facts().entrypoint
    assert (entry.cwd, entry.file) == ("src", "src/book/part2/training.py")
    assert entry.command == "python -m book.part2.training"


@pytest.mark.parametrize("how", ["tool", "python -m pkg.cli"])
def test_lines_with_different_subcommands_are_different_programs_of_one_file(project, how):
    project.write("pyproject.toml", '[project]\nname = "tool"\n[project.scripts]\ntool = "pkg.cli:main"\n')
    project.write("pkg/__init__.py", "").program("pkg/cli.py")
    facts = project.readme(
        f"{how} ls tasks", f"{how} --model a", f"{how} --model b", f"{how} --model c"
    ).facts()
    assert facts.entrypoint.command == f"{how} --model a"
    assert f"{how} ls tasks" in [each.command for each in facts.candidates]
    facts = project.readme(f"{how} ls tasks", f"{how} train a.yaml").write("x.py", TRAIN).facts()
    assert facts.entrypoint.command == f"{how} train a.yaml"


def test_an_app_in_the_init_file_of_a_package_is_served_from_whatever_folder_the_package_is_in(project):
    project.program("src/backend/web/seed.py").write("src/backend/web/__init__.py", "def create_app(): ...\n")
    project.readme(
        "python src/backend/web/seed.py", "", "python -m uvicorn web:create_app --factory --reload"
    )
    entry = project.facts().entrypoint
    assert (entry.file, entry.launcher) == ("src/backend/web/__init__.py", "uvicorn")


def test_tests_setup_vendored_code_and_a_library_are_never_the_program(project):
    names = "setup.py tests/train.py test_train.py third_party/x/train.py docs/conf.py conftest.py"
    for path in names.split():
        project.program(path)
    assert project.facts().entrypoint is None
    project.empty().write("lib/__init__.py").write("lib/layers.py", "import torch\nclass A: ...\n")
    project.write("setup.py", "from setuptools import setup\nsetup(name='lib')\n")
    assert project.facts().entrypoint is None


def test_notebooks_are_started_with_jupyter_unless_they_lie_beside_a_program_or_there_are_many(project):
    project.write("lectures/part1.ipynb", '{"cells": []}').write("lectures/part2.ipynb", '{"cells": []}')
    facts = project.facts()
    entry, commands = facts.entrypoint, [each.command for each in facts.candidates]
    assert (entry.launcher, entry.file) == ("notebook", "lectures/part1.ipynb")
    assert commands == ["jupyter lab lectures/part1.ipynb", "jupyter lab lectures/part2.ipynb"]
    project.empty().write("analysis.ipynb", '{"cells": []}').write("train.py", TRAIN)
    assert project.facts().entrypoint.file == "train.py"
    project.empty()
    for number in range(12):
        project.write(f"unit{number}/lesson.ipynb", '{"cells": []}')
    project.write("unit3/helper_train.py", TRAIN)
    project.write("unit3/README.md", "```bash\npython helper_train.py\n```\n")
    assert project.facts().entrypoint.launcher == "notebook"
    project.readme("python unit3/helper_train.py")
    assert project.facts().entrypoint.file == "unit3/helper_train.py"
    project.empty()
    for number in range(12):
        project.write(f"p1/{number}.ipynb", '{"cells": []}')
    project.program("p2ch11/training.py", APP).write("p2ch11/__init__.py").write("p2ch11/dsets.py")
    project.write("requirements.txt", "torch\n")
    assert project.facts().entrypoint.command == "python -m p2ch11.training"


def test_a_name_in_a_directory_listing_a_useless_task_and_the_starter_of_the_container_are_no_launch(project):
    project.write("README.md", "    repo\n    \u251c\u2500\u2500 train.py  # trains\n\n```\ntrain.py\n```\n")
    project.write("train.py", TRAIN)
    assert project.facts().entrypoint.source == "its own code"
    project.empty().write(
        "pyproject.toml", "[tool.pixi.tasks]\napp = 3\nloop = 'pixi run loop'\n[tool.hatch]\nenvs = []\n"
    )
    project.readme("pixi run app", "pixi run loop", "pixi run gone", "python train.py").program("train.py")
    assert project.facts().entrypoint.command == "python train.py"
    project.empty().write(
        "docker/run_docker.py", "import docker\nclient = docker.from_env()\nclient.containers.run('fold')\n"
    )
    project.program("run_fold.py").readme("python3 docker/run_docker.py --fasta=x")
    project.write("docker/Dockerfile", "FROM python:3.11\nWORKDIR /app\nCOPY . .\nCMD python run_fold.py\n")
    assert project.facts().entrypoint.file == "run_fold.py"


def test_a_required_option_or_placeholder_needs_arguments_and_the_line_with_less_to_fill_in_is_taken(project):
    options = "p = argparse.ArgumentParser()\np.add_argument('--data', required=True)\np.parse_args()\n"
    project.write("train.py", "import argparse\n" + options)
    assert project.facts().entrypoint.needs_args
    assert not project.readme("python train.py --data d").facts().entrypoint.needs_args
    project.empty().write("train.py", TRAIN).readme("python train.py --data /path/to/data")
    assert project.facts().entrypoint.needs_args
    project.empty().write("train.py", TRAIN).readme(
        "python train.py --cfg <file> --data <path> [--batch-size <size> --tag <tag>]",
        "python train.py --cfg a.yaml --data <path> --batch-size 64",
    )
    assert project.facts().entrypoint.command == "python train.py --cfg a.yaml --data <path> --batch-size 64"
    project.empty().write("pkg/run.py", TRAIN)
    line = "python -m pkg.run --alg="
    project.readme(f"{line}<name of the algorithm> [additional arguments]", f"{line}ppo")
    assert project.facts().entrypoint.command == "python -m pkg.run --alg=ppo"


def test_manage_py_is_started_with_runserver_help_is_no_part_and_a_training_run_beats_an_evaluation(project):
    project.program("manage.py").readme("python manage.py migrate", "python manage.py runserver")
    assert project.facts().entrypoint.command == "python manage.py runserver"
    project.empty().program("tool.py").readme("python tool.py --help")
    assert project.facts().entrypoint.command == "python tool.py"
    project.empty().write("main_fit.py", TRAIN)
    project.readme("python main_fit.py --eval", "torchrun main_fit.py --epochs 1")
    assert project.facts().entrypoint.command == "torchrun main_fit.py --epochs 1"


@pytest.mark.parametrize(
    ("path", "role"),
    [("train.py", "train"), ("tools/train_net.py", "train"), ("main_pretrain.py", "train"), ("run_glue.py", "main"), ("app/main.py", "main"),
     ("webui.py", "app"), ("sample_ddp.py", "infer"), ("dataset_tool.py", "tool"), ("prepare_data.py", "tool"), ("pkg/__main__.py", "main"),
     ("gen_images.py", "infer"), ("gradio_demo.py", "demo"), ("whatever.py", "other")],
)  # fmt: skip
def test_a_name_says_what_a_program_does(path, role):
    assert role_of(path) == role


def test_a_main_with_a_training_loop_is_the_program_and_of_two_branches_the_one_with_the_launcher(project):
    project.write("digits/main.py", TRAIN).write("spread/fsdp/t5_training.py", TRAIN)
    project.write("digits/README.md", "```bash\npython main.py\n```\n")
    project.write("spread/fsdp/README.md", "```bash\npython t5_training.py\n```\n")
    assert project.facts().entrypoint.file == "digits/main.py"
    project.empty().write("p/train.py", TRAIN).write(
        "run.sh",
        """
        if [ -n "$DRY" ]; then
            python -m p.train --steps 1
        else
            torchrun --nproc_per_node=8 -m p.train
        fi
        """,
    )
    assert project.readme("./run.sh").facts().entrypoint.launcher == "torchrun"


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("pixi run app", "[tool.pixi.tasks]\napp = 'python tools/serve.py'\n"),
        ("pixi run -e x app", '[tool.pixi.feature.x.tasks.app]\ncmd = """\n    python tools/serve.py\n"""\n'),
        ("hatch run app", "[tool.hatch.envs.default.scripts]\napp = ['pip list', 'python tools/serve.py']\n"),
        ("hatch run dev:app", "[tool.hatch.envs.dev.scripts]\napp = 'python tools/serve.py'\n"),
        ("pdm run app", "[tool.pdm.scripts]\napp = {cmd = 'python tools/serve.py'}\n"),
        ("uv run poe app", "[tool.poe.tasks.app]\nshell = 'python tools/serve.py'\n"),
    ],
)
def test_a_task_that_the_readme_runs_is_what_it_starts(project, command, text):
    project.write("pyproject.toml", text).readme(f"{command} --share").program("tools/serve.py")
    project.program("train.py")
    entry = project.facts().entrypoint
    assert (entry.command, entry.source) == ("python tools/serve.py --share", "README.md")


APP = "import torch\nfrom .dsets import Data\n\ndef main():\n    loss.backward()\n"


def test_scripts_in_the_root_need_no_main_guard(project):
    project.write("gpt.py", TRAIN).write("bigram.py", TRAIN).write("requirements.txt", "torch\n")
    facts = project.facts()
    assert facts.entrypoint.file == "bigram.py"
    assert [each.file for each in facts.candidates] == ["bigram.py", "gpt.py"]


@pytest.mark.parametrize(
    ("files", "lines", "command", "cwd"),
    [
        ({"p/train.py": "from p.data import x\nx()\n", "p/data.py": "open('../data/' + x)\nopen('../data/a.txt')\n"}, (),
         "python train.py", "p"),
        ({"p/train.py": "open('data/a.txt')\n"}, (), "python p/train.py", "."),
        ({"p/train.py": "print(1)\n"}, ("python train.py --data ../data/a.txt",), "python train.py --data ../data/a.txt", "p"),
        ({"p/train.py": "open('../data/a.txt')\n"}, ("python p/train.py",), "python p/train.py", "."),
        ({"p/train.py": "open('../data/a.txt')\nopen('conf/b.txt')\n", "conf/b.txt": ""}, (), "python p/train.py", "."),
        ({"p/train.py": "open(dirname(__file__) + '/../data/a.txt')\nopen('../data/a.txt')\n"}, (), "python p/train.py", "."),
    ],
)  # fmt: skip
def test_a_relative_path_that_exists_from_one_folder_alone_says_where_the_program_starts(
    project, files, lines, command, cwd
):
    entry = project.files({"data/a.txt": "", **files}).readme(*lines).facts().entrypoint
    assert (entry.command, entry.cwd) == (command, cwd)
