"""What repositories that nobody had prepared say in ways of their own: each case was read wrongly on one of them."""

import pytest

from dkdbg.setup.detect.docker.images import read_image
from tests.unit.project import TRAIN


@pytest.mark.parametrize("patch", [1, 7, 10, 18])
def test_a_pin_to_any_patch_release_of_a_python_is_that_python(project, patch):
    project.program("train.py").write(
        "environment.yml",
        f"channels: [x]\ndependencies:\n  - python=3.8.{patch}=h12debd9_8\n  - pytorch=1.8.1\n",
    )
    assert project.facts().python.version == "3.8"


@pytest.mark.parametrize(
    ("image", "python"),
    [
        ("tensorflow/tensorflow:1.12.0-py3", "3.5"),
        ("tensorflow/tensorflow:1.12.0-gpu-py3", "3.5"),
        ("tensorflow/tensorflow:1.15.5-gpu-py3", "3.6"),
        ("tensorflow/tensorflow:1.12.0", None),
    ],
)
def test_an_image_of_tensorflow_1_says_its_python(image, python):
    assert read_image(image).python == python


def test_conda_in_a_folder_counts_if_the_readme_or_a_script_creates_it_with_requirements_beside_it(project):
    project.program("lib/train.py").write(
        "scripts/gpu_environment.yml", "channels: [x]\ndependencies:\n  - python=3.10\n  - pytorch=2.3.0\n"
    ).write(
        "README.md", "```shell\nconda env create -f scripts/gpu_environment.yml\npython lib/train.py\n```\n"
    )
    facts = project.facts()
    assert (facts.package_manager, facts.python.version, facts.torch.version) == ("conda", "3.10", "2.3.0")
    project.empty().write("train.py", TRAIN).write("requirements.txt", "numpy\n").write(
        "setup/create_env.sh", "conda create -n x python=3.9\npip install torch==2.0.1\n"
    ).write("README.md", "```bash\nbash setup/create_env.sh\npython train.py\n```\n")
    facts = project.facts()
    assert (facts.python.version, facts.torch.version) == ("3.9", "2.0.1")
    project.empty().write("train.py", TRAIN).write("environment.yml", "dependencies:\n  - python=3.9\n")
    project.write("requirements/prod.txt", "torch==1.12.0\n")
    assert project.facts().torch.version == "1.12.0"


def test_a_torch_of_a_side_script_that_the_lock_does_not_have_is_not_needed(project):
    project.program("serve.py").write("scripts/export.py", "import torch\ntorch.zeros(1)\n")
    project.write("pyproject.toml", "[project]\nname = 'x'\nversion = '1'\ndependencies = ['fastapi']\n")
    project.write("uv.lock", 'version = 1\n\n[[package]]\nname = "fastapi"\nversion = "0.115.0"\n')
    facts = project.facts()
    assert (facts.torch, facts.gpu) == (None, "none")


def test_a_console_script_in_an_init_file_is_a_program_and_documents_in_readme_are_about_the_whole(project):
    project.write("lab/cli/__init__.py", "def cli():\n    print(1)\n").write("lab/__init__.py").write(
        "pyproject.toml", "[project]\nname = 'lab'\nversion = '1'\n[project.scripts]\nlab = 'lab.cli:cli'\n"
    ).write("README.md", "```bash\nlab run\n```\n")
    entry = project.facts().entrypoint
    assert (entry.command, entry.file) == ("lab run", "lab/cli/__init__.py")
    project.empty().write("src/main.py", TRAIN).write("README.md", "# Net\n")
    project.write("readme/INSTALL.md", "Install PyTorch:\n```\nconda install pytorch=1.4.0 -c pytorch\n```\n")
    assert project.facts().torch.version == "1.4.0"


def test_a_port_without_a_number_is_a_variable_that_compose_needs(project):
    project.program("serve.py").write(
        "compose.yaml",
        """\
        services:
          api: {build: ., command: python serve.py}
          ray: {image: rayproject/ray, ports: ["${RAY_DASHBOARD_PORT}:${RAY_DASHBOARD_PORT}", "${HOST_PORT}:80"]}
        """,
    ).write("Dockerfile", "FROM python:3.11\nWORKDIR /app\nCOPY . .\n")
    assert project.facts().service.needs == ("RAY_DASHBOARD_PORT",)
