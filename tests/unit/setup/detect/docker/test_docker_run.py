"""`docker run` lines, and where they say that the code lies."""

import pytest

IMAGE = "FROM python:3.11\nRUN pip install torch\nWORKDIR /code\n"


def mappings(project):
    project.program("src/train.py", "import torch").write("docker/Dockerfile", IMAGE)
    return project.facts().mappings


def test_what_docker_run_mounts_is_where_the_code_lies_unless_the_image_copies_it(project):
    project.readme("nvidia-docker run --rm --shm-size 8G -it -v `pwd`:/code -v `pwd`/runs:/runs img")
    project.write("runs/note.txt", "x\n")
    assert mappings(project) == ((".", "/code"),)
    project.empty().readme("docker run -v `pwd`:/code img").program("src/train.py")
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


def test_another_variable_is_no_docker_and_many_variables_and_runs_of_a_hostile_script_end_soon(project):
    project.write("run.sh", 'cmd=./launch\n${cmd} run -v "$PWD":/code img\n')
    assert mappings(project) == ()
    names = "\n".join(f"V{n}=-v{n}$V{n - 1}$V{n - 1}" for n in range(3000))
    project.empty().write("run.sh", names + "\n" + "\n".join(f"docker run $V{n}" for n in range(3000)))
    assert project.facts().docker_run is None


MAKEFILE = """
IMAGE := autoformer
ROOT := $(shell dirname $(realpath $(firstword ${MAKEFILE_LIST})))
DOCKER_PARAMETERS := \\
\t--gpus all \\
\t-v ${ROOT}:/app \\
\t-w /app \\
\t-e HOME=/tmp
init:
\tdocker build -t ${IMAGE} .
run:
\tdocker run -i --rm ${DOCKER_PARAMETERS} ${IMAGE} ${module}
"""
SCRIPT = """
HERE="$(cd "$(dirname "$0")" && pwd)"
ARGS="-v $HERE:/code --shm-size 8g"
docker run $ARGS image
"""


@pytest.mark.parametrize(
    ("file", "text", "remote"), [("Makefile", MAKEFILE, "/app"), ("run.sh", SCRIPT, "/code")]
)
def test_options_that_a_variable_holds_are_read(project, file, text, remote):
    project.write(file, text).write("train.py", "x")
    found = project.facts().docker_run
    assert found.mounts == ((".", remote),)


@pytest.mark.parametrize(("built", "code"), [("-f Dockerfile", "/a/code"), ("-f tools/Dockerfile", None)])
def test_a_run_of_an_image_from_another_dockerfile_says_nothing_of_this_one(project, built, code):
    script = f"docker build -t prepare {built} .\ndocker run --rm -v $(pwd):/a/code prepare\n"
    project.write("Dockerfile", "FROM python:3.11\nCMD python /a/code/train.py\n").write(
        "tools/run.sh", script
    )
    facts = (
        project.write("tools/Dockerfile", "FROM python:3.11\n").write("train.py", "import torch\n").facts()
    )
    assert facts.docker_run.starts("Dockerfile") == bool(code)
    assert dict(facts.mappings).get(".") == code


@pytest.mark.parametrize(
    ("line", "ports"),
    [
        ("docker run -d --hostname kit --name kit-broker -e PASS=x -p 5672:5672 broker:3", ()),
        ("docker run -d --hostname kit -p 8000:8000 kit:1 serve", (8000,)),
        ("docker container create --name kit -v kit-db:/data -p 8000:8000 org/kit", (8000,)),
        ("docker run -it --rm $GPUS -p 8000:8000 registry:5000/org/kit@sha256:1", (8000,)),
    ],
)
def test_a_run_counts_by_its_image_which_the_repository_builds_or_releases_under_its_name(
    project, line, ports
):
    project.write("serve.py").write("pyproject.toml", "[project]\nname = 'kit'\nversion = '1'\n")
    project.write("Dockerfile", IMAGE).readme("docker build -t kit .", line)
    found = project.facts().docker_run
    assert (found.ports if found else ()) == ports
