"""Dockerfiles are read as BuildKit reads them."""

from textwrap import dedent

import pytest

from dkdbg.setup.detect.docker.dockerfile import read_dockerfile, run_lines
from dkdbg.setup.detect.docker.dockerfile_syntax import parse_instructions


def read(text, **options):
    return read_dockerfile(dedent(text), "Dockerfile", **options)


def test_comments_escapes_here_documents_and_first_lines_of_instructions_are_known():
    steps = parse_instructions("RUN a \\\n  # why\n  && b\nUSER me\n")
    found = [(step.keyword, step.rest.split()) for step in steps]
    assert found == [("RUN", ["a", "&&", "b"]), ("USER", ["me"])]
    assert parse_instructions("# escape=`\nRUN a `\n b\n")[0].rest.split() == ["a", "b"]
    assert [step.line for step in parse_instructions("FROM a\n\nRUN x \\\n y\nUSER z\n")] == [1, 3, 5]
    steps = parse_instructions("RUN <<EOF\npip install torch\nUSER nobody\nEOF\nUSER me\n")
    assert [step.keyword for step in steps] == ["RUN", "USER"]
    assert steps[0].heredocs == ("pip install torch\nUSER nobody",)


VALUES = {
    "carriage returns are no part of a value": ("FROM python:3.11\r\nWORKDIR /app\r\n", "workdir", "/app"),
    "an argument before from counts": ("ARG V=3.11\nFROM python:${V}-slim\n", "base", "python:3.11-slim"),
    "an argument without a default takes the global one": ("ARG U=7\nFROM a\nARG U\nUSER $U\n", "user", "7"),
    "the base follows stage names": ("FROM python:3.10 AS base\nFROM base AS final\n", "base", "python:3.10"),
    "a new entrypoint drops the inherited command": ('FROM a\nCMD ["x"]\nENTRYPOINT ["y"]\n', "cmd", None),
    "workdirs add up": ("FROM a\nWORKDIR /a\nWORKDIR b\nWORKDIR ../c\n", "workdir", "/a/c"),
    "shell form is a shell": ("FROM a\nCMD python a.py\n", "cmd", ("/bin/sh", "-c", "python a.py")),
    "a copy from a foreign image is none": ("FROM a\nCOPY --from=ghcr.io/x/uv:1 /uv /bin/\n", "copies", ()),
    "root is no user": ("FROM a\nUSER me\nUSER root\n", "user", None),
    "a file without from gives no base": ("RUN x\n", "base", ""),
    "a copy after the removal stays": ("FROM a\nRUN rm -rf /app\nCOPY x /app\n", "copies", (("x", "/app"),)),
}


@pytest.mark.parametrize(("text", "name", "value"), VALUES.values(), ids=VALUES)
def test_what_a_dockerfile_says(text, name, value):
    assert getattr(read(text), name) == value


def test_a_build_argument_wins_a_stage_inherits_and_the_target_is_read():
    assert read("ARG V=3.11\nFROM python:$V\n", args={"V": "3.9"}).base == "python:3.9"
    fact = read('FROM python:3.10 AS base\nWORKDIR /a\nENTRYPOINT ["x"]\nFROM base\nCMD ["y"]\n')
    assert (fact.workdir, fact.entrypoint, fact.cmd) == ("/a", ("x",), ("y",))
    fact = read(
        'FROM a AS b\nSHELL ["conda", "run", "bash", "-c"]\nFROM b\nENTRYPOINT exec x\nSHELL ["bash", "-lc"]\nCMD y\n'
    )
    assert (fact.entrypoint, fact.cmd) == (("conda", "run", "bash", "-c", "exec x"), ("bash", "-lc", "y"))
    text = "FROM a AS dev\nWORKDIR /dev\nFROM a AS prod\nWORKDIR /prod\n"
    assert read(text, target="dev").workdir == "/dev"
    text = "FROM a AS build\nWORKDIR /src\nCOPY . .\nFROM a\nCOPY --from=build /src/lib /opt/lib\n"
    assert read(text).copies == (("lib", "/opt/lib"),)
    text = "FROM python:3.10\nENV V=/app/.venv\nRUN python3 -m venv $V\nWORKDIR /app\nCOPY . .\n"
    assert read(text).venvs == ("/app/.venv",)


@pytest.mark.parametrize(
    ("text", "workdir", "copies"),
    [
        ("FROM other\nWORKDIR /srv\nWORKDIR sub\n", "/srv/sub", ()),
        ("FROM mlbox:1\nWORKDIR sub\nCOPY . .\n", "/opt/ml/code/sub", ((".", "/opt/ml/code/sub"),)),
        ("FROM other\nWORKDIR sub\nCOPY . .\n", "/sub", ((".", "/sub"),)),
        ("FROM mlbox:1 AS a\nFROM a\nCOPY src lib/\n", "/opt/ml/code", (("src", "/opt/ml/code/lib"),)),
        ("FROM mlbox:1 AS a\nCOPY src .\nFROM b\nCOPY --from=a /opt/ml/code /c\n", "/", (("src", "/c"),)),
    ],
)
def test_a_stage_starts_with_what_its_base_image_sets(text, workdir, copies):
    fact = read(text, inherited={"mlbox:1": ("WORKDIR /opt/ml/code",)})
    assert (fact.workdir, fact.copies) == (workdir, copies)
    assert fact.workdir_is_assumed == (workdir in {"/", "/sub"})


def test_a_stage_has_the_pythonpath_and_user_of_its_base_image():
    lines = ("WORKDIR /srv", "USER ml", "ENV PYTHONPATH=/srv/lib")
    fact = read("FROM mlbox:1\nENV PYTHONPATH=/app:$PYTHONPATH\n", inherited={"mlbox:1": lines})
    assert (fact.user, dict(fact.env)["PYTHONPATH"]) == ("ml", "/app:/srv/lib")


@pytest.mark.parametrize(
    ("copy", "expected"),
    [
        ("COPY . .", (".", "/app")),
        ("COPY src /opt/src", ("src", "/opt/src")),
        ("COPY ./src/ src/", ("src", "/app/src")),
        ("COPY --chown=1:1 --link . /code", (".", "/code")),
        ('COPY ["src", "/opt/my src"]', ("src", "/opt/my src")),
        ("COPY train.py .", ("train.py", "/app/train.py")),
        ("COPY train.py /x/run.py", ("train.py", "/x/run.py")),
        ("ADD src/* /y/", ("src", "/y")),
        ("COPY train.py /app", ("train.py", "/app/train.py")),  # WORKDIR has made the folder
        ("COPY train.py /", ("train.py", "/train.py")),
        ("COPY train.py /srv", ("train.py", "/srv")),
        ("ENV CODE=/home/$BASE_USER/code\nCOPY src ${CODE}/src", None),
    ],
)
def test_copies_pair_local_and_remote(copy, expected):
    assert read(f"FROM a\nWORKDIR /app\n{copy}\n").copies == ((expected,) if expected else ())


@pytest.mark.parametrize(
    ("text", "python"),
    [
        ("FROM python:3.11.2-slim-buster\n", "3.11"),
        ("FROM mcr.microsoft.com/devcontainers/python:1-3.12-bookworm\n", "3.12"),
        ("FROM nvcr.io/nvidia/pytorch:21.08-py3\n", "3.8"),
        ("FROM nvcr.io/nvidia/pytorch:24.12-py3\n", "3.12"),
        ("FROM pytorch/pytorch:2.3.0-cuda12.1-cudnn8-runtime\n", "3.10"),
        ("FROM nvidia/cuda:12.6.3-base-ubuntu22.04\nENV PYTHON_VERSION=3.11\n", "3.11"),
        ("FROM nvidia/cuda:12.6.3-base-ubuntu22.04\nRUN apt-get install -y python3.9\n", "3.9"),
        ("FROM nvidia/cuda:12.6.3-base-ubuntu22.04\n", "3.10"),
        ("FROM continuumio/miniconda3\nRUN conda create -n x python=3.8\n", "3.8"),
        ("FROM ubuntu:22.04\nRUN uv venv --python 3.12\n", "3.12"),
        ("FROM alpine\n", None),
    ],
)
def test_the_python_of_an_image(text, python):
    assert read(text).python == python


def test_run_lines_hold_here_documents_and_resolved_variables_and_python_is_found_in_the_json_form():
    text = "FROM a\nARG CU=cu124\nRUN --mount=type=cache,target=/x pip install torch --index-url u/$CU\nRUN <<E\nmake\nE\n"
    lines = ["pip install torch --index-url u/cu124", "<<E", "make"]
    assert [line.strip() for line in run_lines(text)] == lines
    text = 'FROM ubuntu:22.04\nRUN ["apt-get", "install", "-y", "python3.9"]\n'
    assert read(text).python == "3.9"


def test_an_image_in_a_deeper_docker_folder_is_the_programs_and_conda_names_its_python(project):
    project.write("utils/docker/Dockerfile-arm64", "FROM arm64v8/ubuntu\nCOPY . /other\n")
    steps = "FROM nvidia/cuda:12.1.1-devel\nWORKDIR /code\nCOPY . /code\nCOPY requirements.txt .\n"
    steps += "RUN conda install python~=3.10.12 pip && pip install -r requirements.txt\n"
    project.write("utils/docker/Dockerfile", steps)
    project.write("requirements.txt", "torch==2.4.1\n").program("train.py", "import torch")
    project.readme("python train.py")
    facts = project.facts()
    assert (facts.python.version, facts.python.source) == ("3.10", "utils/docker/Dockerfile")
    assert [(local, str(remote)) for local, remote in facts.mappings] == [(".", "/code")]


@pytest.mark.parametrize(
    ("base", "python"),
    [
        ("nvidia/cuda:9.2-cudnn7-devel-ubuntu16.04", "3.5"),
        ("ubuntu:18.04", "3.6"),
        ("debian:buster-slim", "3.7"),
        ("nvidia/cuda:11.8.0-devel-ubuntu20.04", "3.8"),
    ],
)
def test_a_distributions_python_that_is_installed_is_the_one(project, base, python):
    project.program("train.py", "import torch").readme("Needs Python 3.9", "python train.py")
    steps = "RUN apt-get update && apt-get -y install git python3-pip\nRUN pip3 install torch\n"
    project.write("docker/Dockerfile", f"FROM {base}\n{steps}")
    facts = project.facts()
    assert (facts.python.version, facts.python.source) == (python, "docker/Dockerfile")


ANOTHER = ["pip3 install x && conda create -n x", "add-apt-repository ppa:deadsnakes/ppa", "./start_linux.sh"]


@pytest.mark.parametrize("other", ANOTHER)
def test_a_distributions_python_beside_another_one_says_little(project, other):
    project.program("train.py", "import torch").readme("conda create -n x python=3.9")
    project.write("Dockerfile", f"FROM ubuntu:20.04\nRUN apt-get install -y python3 wget\nRUN {other}\n")
    assert project.facts().python.version == "3.9"


@pytest.mark.parametrize(
    "run",
    [
        'RUN ["pip", "install", "-e", "."]',
        'RUN --mount=type=cache,target=/x ["/bin/bash", "-lc", "pip install -e ."]',
        "RUN pip install -e .",
    ],
)
def test_a_run_line_is_read_in_both_of_its_forms(project, run):
    text = f"FROM python:3.11\nWORKDIR /app\nCOPY . .\n{run}\nCMD python a.py\n"
    project.write("setup.py", "from setuptools import setup\nsetup(name='p')\n").write("a.py", "import p\n")
    facts = project.write("Dockerfile", text).facts()
    assert facts.installed == (("Dockerfile", "editable"),)
    assert run_lines(text) == ("pip install -e .",)


@pytest.mark.parametrize(
    ("run", "kept"),
    [
        ("cp -r /tmp/x/* /app && rm -rf /tmp/x", False),
        ("pip install /tmp/x && rm -fr /tmp/x/*", False),
        ("make && rm -rf /tmp", False),
        ("rm -rf /tmp/x/tests /var/lib/apt/lists/*", True),
        ("rm -rf /tmp/x*.log", True),
        ("echo rm -rf /tmp/x", True),
        ("rm -rf $TARGET", True),
    ],
)
def test_a_copy_that_a_later_step_removes_is_none(run, kept):
    copies = read(f"FROM a\nCOPY x /tmp/x\nCOPY y /app\nRUN {run}\n").copies
    assert copies == ((("x", "/tmp/x"),) if kept else ()) + (("y", "/app"),)


@pytest.mark.parametrize(
    ("run", "remote"),
    [
        ("git clone --depth 1 https://example.com/org/Speech-Kit.git && cd Speech-Kit && pip install -e .", "/src/Speech-Kit"),
        ("cd /opt; git clone git@example.com:org/speech_kit code", "/opt/code"),
        ("git clone https://example.com/org/another.git", None),
        ("git clone https://example.com/org/speech_kit.git $BASE_DIR", None),
    ],
)  # fmt: skip
def test_an_image_with_a_clone_of_this_repository_has_its_code_there(project, run, remote):
    project.write("pyproject.toml", "[project]\nname = 'speech_kit'\n").write("speech_kit/__init__.py", "")
    facts = project.write("docker/Dockerfile", f"FROM python:3.11\nWORKDIR /src\nRUN {run}\n").facts()
    assert facts.dockerfiles[0].code == (((".", remote),) if remote else ())


def test_of_the_thousands_of_copies_in_a_hostile_dockerfile_a_hundred_are_mapped(project):
    """`init` took minutes for them."""
    copies = "".join(
        f"COPY . /c{n}\nRUN git clone https://example.com/org/speech_kit /g{n}\n" for n in range(4000)
    )
    project.write("pyproject.toml", "[project]\nname = 'speech_kit'\n").write("train.py", "import torch\n")
    facts = project.write("Dockerfile", f"FROM python:3.11\nWORKDIR /app\nCOPY . .\n{copies}").facts()
    assert len(facts.mappings) == 100
