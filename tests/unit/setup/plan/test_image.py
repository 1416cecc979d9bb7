"""What our Dockerfile installs: values in, RUN lines out."""

import subprocess

from dkdbg.core.facts import EntryPoint, TorchFact
from dkdbg.setup.plan.image import plan_image
from tests.unit.setup.plan.given import dockerfile, facts


def image(**values):
    return plan_image(facts(**values))[0]


def runs(**values):
    return [install.run for install in image(**values).installs]


def test_requirements_are_copied_with_what_they_include_or_installed_by_name_after_a_torch_of_the_readme():
    made = image(package_manager="pip", dependency_files=("requirements.txt",), included=("base.txt",))
    assert made.installs[0].run == "pip install -r requirements.txt"
    assert made.installs[0].copy == ("requirements.txt", "base.txt")
    made = runs(package_manager="setuptools", dependency_files=("setup.py",), declared=("torch>=2", "tqdm"))
    assert made == ["pip install 'torch>=2' tqdm"]
    torch = TorchFact(version="2.6.0", cuda="12.4", source="README.md")
    made = runs(
        package_manager="pip", dependency_files=("requirements.txt",), declared=("einops",), torch=torch,
        frameworks=("torch",), torch_index="https://download.pytorch.org/whl/cu124",
    )  # fmt: skip
    assert made[0] == "pip install --extra-index-url https://download.pytorch.org/whl/cu124 torch==2.6.0"


def test_lock_files_of_uv_poetry_pdm_and_pipenv_are_obeyed_and_without_one_pip_gets_the_requirements():
    files = ("pyproject.toml", "uv.lock")
    made = runs(package_manager="uv", dependency_files=files, extras=("cpu", "gpu"), gpu="optional")
    assert made[0].endswith("uv sync --frozen --no-install-project --extra gpu")
    local = {"local_packages": ("packages/core",)}  # their folders are not in the image yet
    assert (
        "--all-packages --no-install-local" in runs(package_manager="uv", dependency_files=files, **local)[0]
    )
    made = runs(package_manager="poetry", dependency_files=("poetry.lock",), **local)
    assert "install --no-root --no-directory" in made[0]
    for manager, files, command in (
        ("poetry", ("pyproject.toml", "poetry.lock"), "/opt/poetry/bin/poetry install --no-root"),
        ("pdm", ("pyproject.toml", "pdm.lock"), "/opt/pdm/bin/pdm sync --no-self"),
        ("pipenv", ("Pipfile", "Pipfile.lock"), "/opt/pipenv/bin/pipenv sync"),
    ):
        assert command in runs(package_manager=manager, dependency_files=files)[0]
    assert runs(package_manager="pixi", dependency_files=("pyproject.toml",), declared=("numpy",)) == [
        "pip install numpy"
    ]


def test_what_compiles_against_torch_comes_after_it_and_what_compiles_cuda_needs_nvcc():
    made = runs(package_manager="none", requirements=("torch", "flash-attn"))
    assert made == ["pip install torch", "pip install --no-build-isolation flash-attn"]
    late = ("torch>=2", "flash-attn==2.6", "coco @ git+https://example.org/coco.git")
    files = {"package_manager": "pip", "dependency_files": ("requirements.txt",)}
    again = "pip install -r requirements.txt || pip install --no-build-isolation -r requirements.txt"
    assert runs(declared=late, **files) == ["pip install setuptools wheel 'torch>=2'", again]
    torch = TorchFact(version="2.5.1", cuda="12.4", source="x")
    made = image(requirements=("torch", "flash-attn"), torch=torch, gpu="required")
    assert made.base == "pytorch/pytorch:2.5.1-cuda12.4-cudnn9-devel"
    assert made.comment == "a dependency compiles CUDA code, so nvcc must be in the image"
    made = image(requirements=("torch", "flash-attn"), gpu="required")
    assert "python3-dev" in made.apt  # that base is an Ubuntu, whose Python has no headers
    wheels = image(requirements=("torch", "xformers"), torch=torch, gpu="required")
    assert wheels.base == "python:3.11-slim"


def test_a_console_script_needs_the_project_a_dockerfile_is_taken_as_it_is_and_conda_of_a_readme_leaves_pip():
    entry = EntryPoint(command="train_command", file="src/train.py", launcher="console-script")
    assert image(
        entrypoint=entry, package_manager="setuptools", dependency_files=("setup.py",)
    ).installs_project
    made = image(dockerfiles=(dockerfile(),))
    assert (made.dockerfile, made.is_generated) == ("Dockerfile", False)
    made = image(package_manager="conda", dependency_files=("setup.py",), requirements=("torch",))
    assert made.base == "python:3.11-slim"
    assert [each.run for each in made.installs] == ["pip install torch"]


def test_a_conda_environment_that_installs_the_repository_is_installed_without_it_first(tmp_path):
    made = image(package_manager="conda", dependency_files=("environment.yml",), installs_itself=True)
    assert made.installs_project
    script, _, rest = made.installs[0].run.partition(" && ")
    assert rest.startswith("micromamba install")
    before = "channels:\n- nvidia/label/cuda-12.1.0\ndependencies:\n- pip:\n  - numpy\n  - -e .[dev]  # ours\n  - -e libs/core\n  - -e git+https://example.com/x\n"
    (tmp_path / "environment.yml").write_text(before)
    subprocess.run(["sh", "-c", script], cwd=tmp_path, check=True)
    assert (tmp_path / "environment.yml").read_text() == before.replace("-e .[dev]  # ours", "pip").replace(
        "-e libs/core", "pip"
    )


def test_numpy_that_nobody_declares_is_installed_with_the_rest_and_of_1_for_an_old_torch():
    said = {"package_manager": "pip", "undeclared": ("numpy",)}
    assert runs(**said, declared=("torch",)) == ["pip install torch numpy"]
    made = runs(**said, declared=("torch",), dependency_files=("requirements.txt",))
    assert made == ["pip install -r requirements.txt numpy"]
    old = TorchFact(version="1.13.1", cuda="11.7", source="requirements.txt")
    made = runs(package_manager="pip", undeclared=("numpy",), declared=("torch==1.13.1",), torch=old)
    assert made == ["pip install torch==1.13.1 'numpy<2'"]
