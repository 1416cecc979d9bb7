"""`docker run` lines, and where they say that the code lies."""

from __future__ import annotations

import pytest

IMAGE = "FROM python:3.11\nRUN pip install torch\nWORKDIR /code\n"


def mappings(project):
    project.program("src/train.py", "import torch").write("docker/Dockerfile", IMAGE)
    return project.facts().mappings


def test_what_docker_run_mounts_is_where_the_code_lies(project):
    project.readme("nvidia-docker run --rm --shm-size 8G -it -v `pwd`:/code -v `pwd`/runs:/runs img")
    project.write("runs/note.txt", "x\n")
    assert mappings(project) == ((".", "/code"),)


def test_what_the_image_copies_beats_docker_run(project):
    project.readme("docker run -v `pwd`:/code img").program("src/train.py")
    project.write("docker/Dockerfile", IMAGE + "COPY src /app\n")
    assert project.facts().mappings == (("src", "/app"),)


@pytest.mark.parametrize(
    ("path", "given", "run"),
    [
        ("run.sh", "if hash nvidia-docker; then\n  cmd=nvidia-docker\nelse\n  cmd=docker\nfi", "${cmd}"),
        ("run.sh", 'DOCKER="${DOCKER:-docker}"', '"$DOCKER"'),
        ("Makefile", "DOCKER ?= podman\nrun:", "\t$(DOCKER)"),
    ],
)
def test_docker_may_have_the_name_of_a_variable(project, path, given, run):
    project.write(
        path, f'{given}\n{run} run --user $(id -u) \\\n    -v "$PWD":/code \\\n    -t img:1.0 ${{@:2}}\n'
    )
    assert mappings(project) == ((".", "/code"),)


def test_another_variable_is_no_docker(project):
    project.write("run.sh", 'cmd=./launch\n${cmd} run -v "$PWD":/code img\n')
    assert mappings(project) == ()
