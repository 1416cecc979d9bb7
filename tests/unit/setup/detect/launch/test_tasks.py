"""Commands in tasks of project managers and in pipelines."""

import pytest

from tests.unit.setup.detect.launch.test_entrypoint import TRAIN

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
