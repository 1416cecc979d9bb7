"""Which .dockerignore keeps Python's compiled files out of a build."""

import pytest

from dkdbg.setup.detect.docker.dockerfile import keeps_bytecode_out


@pytest.mark.parametrize(
    "line",
    [
        "**/__pycache__", "**/__pycache__/", "/**/__pycache__", "./**/__pycache__/**", "**/*.pyc", "**/*.py[co]",
        "**/*.py[cod]", "**/*.py?", "*", "**", "  **/*.pyc  ",
    ],
)  # fmt: skip
def test_one_pattern_for_every_folder_is_enough(line):
    assert keeps_bytecode_out(f".git\n{line}\nwandb\n")


@pytest.mark.parametrize(
    "text",
    [
        "", "__pycache__", "__pycache__/", "*.pyc", "src/__pycache__", "**/*.pth", "# **/*.pyc", "**/*.pyo", "**/*.py",
        "*\n!src\n", "**/__pycache__\n!src/**\n",
    ],
)  # fmt: skip
def test_a_pattern_of_one_folder_or_one_that_is_taken_back_is_not(text):
    assert not keeps_bytecode_out(text)
