"""Commands in tasks of project managers and in pipelines."""

import pytest

from tests.unit.project import TRAIN

ARGUMENTS = "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('data')\n"


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("dvc.yaml", "stages:\n  prepare: {cmd: python src/prepare.py}\n  train: {cmd: python src/fit.py data.csv --lr 0.1}\n"),
        ("dvc.yaml", "stages:\n  train: {wdir: src, cmd: [python fit.py data.csv --lr 0.1]}\n"),
        ("MLproject", "entry_points:\n  main:\n    parameters: {lr: {default: 0.1}}\n    command: python src/fit.py data.csv --lr {lr}\n"),
        ("pyproject.toml", "[tool.poe.tasks]\nfit = 'python src/fit.py data.csv --lr 0.1'\n"),
        ("pyproject.toml", "[tool.pdm.scripts]\nfit = {cmd = 'python src/fit.py data.csv --lr 0.1'}\n"),
        ("pixi.toml", "[tasks]\nfit = 'python src/fit.py data.csv --lr 0.1'\n"),
    ],
)  # fmt: skip
def test_the_program_has_the_arguments_of_its_task(project, file, text):
    project.write("src/fit.py", ARGUMENTS + TRAIN).write("src/prepare.py", TRAIN).write(file, text)
    entry = project.facts().entrypoint
    assert (entry.file, entry.needs_args) == ("src/fit.py", False)
    assert entry.command.endswith("fit.py data.csv --lr 0.1")


def test_a_broken_pipeline_is_left_out_and_a_parameter_without_default_is_a_blank(project):
    project.write("src/fit.py", TRAIN).write("dvc.yaml", "stages: [\n").readme("python src/fit.py")
    facts = project.facts()
    assert facts.entrypoint.file == "src/fit.py"
    assert any(problem.startswith("dvc.yaml: ") for problem in facts.problems)
    project.empty().write("src/fit.py", TRAIN)
    project.write(
        "MLproject",
        "entry_points:\n  main:\n    parameters: {data: path}\n    command: python src/fit.py {data}\n",
    )
    assert project.facts().entrypoint.needs_args


@pytest.mark.parametrize(
    ("path", "text", "typed"),
    [
        ("Makefile", "PY := python\nfit:\n\t$(PY) src/fit.py --lr 0.1\nsweep:\n\tpython src/train_all.py\n", "make fit"),
        ("justfile", "fit *args:\n  python src/fit.py --lr 0.1 {{args}}\nsweep:\n  python src/train_all.py\n", "just fit"),
        ("Taskfile.yml", "tasks:\n  fit:\n    cmds:\n      - python src/fit.py --lr 0.1\n  sweep:\n    cmds:\n      - python src/train_all.py\n", "task fit"),
        ("justfile", "rate := '0.1'\nfit file=\"src/fit.py\" *args:\n  python {{file}} --lr {{ rate }} {{args}}\nsweep:\n  python src/train_all.py\n", "just fit"),
        ("Taskfile.yml", "vars:\n  RATE: 0.1\ntasks:\n  fit:\n    cmds:\n      - python {{.FILE | default \"src/fit.py\"}} --lr {{.RATE}}\n  sweep:\n    cmds:\n      - python src/train_all.py\n", "task fit"),
    ],
)  # fmt: skip
def test_a_recipe_that_the_readme_names_is_the_documented_command(project, path, text, typed):
    project.write("src/fit.py", "import torch\nrun()\n").write("src/train_all.py", TRAIN).write(path, text)
    assert project.facts().entrypoint.file == "src/train_all.py"
    entry = project.readme(typed).facts().entrypoint
    assert (entry.command, entry.source) == ("python src/fit.py --lr 0.1", "README.md")


def test_braces_of_a_makefile_are_the_programs_and_a_line_without_end_is_left_out(project):
    project.write("src/fit.py", TRAIN)
    project.write("Makefile", "fit:\n\tpython src/fit.py --format '{{.Names}}'\n" + "a" * 50_000 + ":\n")
    project.write("justfile", "fit:\n  python src/fit.py {{" + "a" * 50_000 + "\n")
    assert project.facts().entrypoint.command == "python src/fit.py --format {{.Names}}"


def test_a_variable_of_a_taskfile_without_a_value_is_left_to_fill_in(project):
    project.write("src/fit.py", TRAIN).write(
        "Taskfile.yml", "tasks:\n  fit:\n    cmds:\n      - python src/fit.py --data {{.DATA}}\n"
    )
    entry = project.facts().entrypoint
    assert ("{{" in entry.command, entry.needs_args) == (False, True)
