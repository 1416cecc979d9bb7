"""Who installs the dependencies, from which files, and what those hold."""

import shlex

import pytest

from dkdbg.setup.detect.files import Tree
from dkdbg.setup.detect.python import dependencies
from dkdbg.setup.detect.python.dependencies import read_dependency_files
from dkdbg.setup.detect.python.pyproject import caret
from dkdbg.setup.detect.python.requirements import parse_requirement
from dkdbg.setup.plan.image import plan_image, plan_installs

PROJECT = '[project]\nname = "p"\ndependencies = ["torch==2.5.1"]\n'
CONDA = "name: env\ndependencies:\n  - python=3.9\n  - pytorch=2.1\n"


def read(project, path):
    return next(file for file in read_dependency_files(Tree(project.root)) if file.path == path)


def names(file):
    return [item.name for item in file.wanted]


@pytest.mark.parametrize(
    ("files", "manager"),
    [
        ({}, "none"),
        ({"requirements.txt": "numpy\n"}, "pip"),
        ({"requirements.txt": "numpy\n", "setup.py": "from setuptools import setup\nsetup(name='p')\n"}, "pip"),
        ({"setup.py": "from setuptools import setup\nsetup(name='p', install_requires=['torch'])\n"}, "setuptools"),
        ({"pyproject.toml": PROJECT}, "setuptools"),
        ({"pyproject.toml": PROJECT, "uv.lock": ""}, "uv"),
        ({"pyproject.toml": PROJECT + "[tool.uv]\ndev-dependencies = []\n"}, "uv"),
        ({"pyproject.toml": PROJECT, "uv.lock": "", "requirements.txt": "numpy\n"}, "uv"),
        ({"pyproject.toml": PROJECT, "poetry.lock": ""}, "poetry"),
        ({"pyproject.toml": '[tool.poetry]\nname = "p"\n[tool.poetry.dependencies]\npython = "^3.10"\n[build-system]\nbuild-backend = "poetry.core.masonry.api"\n'}, "poetry"),
        ({"pyproject.toml": "[tool.ruff]\nline-length = 100\n", "requirements.txt": "numpy\n"}, "pip"),
        ({"pyproject.toml": "[tool.ruff]\nline-length = 100\n"}, "none"),
        ({"pyproject.toml": PROJECT + '[tool.pdm]\nversion = {source = "scm"}\n[build-system]\nbuild-backend = "pdm.backend"\n'}, "pip"),
        ({"pyproject.toml": PROJECT + '[build-system]\nbuild-backend = "hatchling.build"\n'}, "pip"),
        ({"pyproject.toml": PROJECT + '[build-system]\nbuild-backend = "setuptools.build_meta"\n'}, "setuptools"),
        ({"course2024_gpu.yml": "channels:\n  - pytorch\n" + CONDA}, "conda"),
        ({"data.yml": "channels: 3\n", "config.yaml": CONDA}, "none"),
        ({"env/SE3.yml": "channels:\n  - pytorch\n" + CONDA, "setup.py": "from setuptools import setup\nsetup(name='p')\n", "README.md": "    conda env create -f env/SE3.yml\n"}, "conda"),
        ({"pyproject.toml": PROJECT, "pdm.lock": ""}, "pdm"),
        ({"Pipfile": "[packages]\ntorch = '*'\n"}, "pipenv"),
        ({"environment.yml": CONDA}, "conda"),
        ({"environment.yml": CONDA, "requirements.txt": "numpy\n"}, "pip"),
        ({"python_env.yaml": "python: '3.9'\ndependencies: [numpy]\n"}, "pip"),
        ({"python_env.yaml": "channels:\n  - pytorch\n" + CONDA}, "conda"),
        ({"environment.yml": CONDA, "requirements.txt": "x\n", "README.md": "    conda env create -f environment.yml\n"}, "conda"),
        ({"environment.yml": CONDA, "setup.py": "from setuptools import setup\nsetup(name='p')\n"}, "conda"),
        ({"Dockerfile": "FROM python:3.11\nRUN pip install torch\n"}, "docker"),
        ({"requirements-dev.txt": "pytest\n", "setup.py": "from setuptools import setup\nsetup(name='p')\n"}, "setuptools"),
        ({"evaluations/requirements.txt": "tensorflow\n", "setup.py": "from setuptools import setup\nsetup(name='p')\n"}, "setuptools"),
        ({"setup.py": "import os\nos.system('pip install x')\n"}, "none"),
        ({"README.md": "# P\n\n    conda create -n p python=3.6\n    conda install -y pytorch=1.4 -c pytorch\n    pip install tqdm\n"}, "conda"),
        ({"README.md": "# P\n\n    conda create -n p python=3.10 pytorch numpy\n"}, "conda"),
        ({"README.md": "# P\n\n    conda create -n p python=3.10 -y\n    pip install torch\n"}, "pip"),
        ({"README.md": "# P\n\n    conda create -n p python=3.10 -y\n"}, "none"),
        ({"README.md": "# P\n\n    conda install pyg\n", "requirements.txt": "numpy\n"}, "pip"),
        ({"README.md": "# P\n\n    conda install pyg\n", "setup.py": "from setuptools import setup\nsetup(name='p', install_requires=[])\n"}, "conda"),
        ({"README.md": "# P\n\n    conda install pyg\n    pip install -e .\n", "setup.py": "from setuptools import setup\nsetup(name='p')\n"}, "setuptools"),
    ],
)  # fmt: skip
def test_the_manager(project, files, manager):
    for path, text in files.items():
        project.write(path, text)
    assert project.facts().package_manager == manager


def test_of_several_environments_the_plain_or_the_readmes_comes_first_and_hides_no_project_in_it(project):
    for name in ("environment-chapter7.yml", "environment.yml", "environment_py39.yaml"):
        project.write(name, CONDA)
    assert project.facts().dependency_files == ("environment.yml",)
    project.readme("conda env create -f environment_py39.yaml")
    assert project.facts().dependency_files == ("environment_py39.yaml",)
    project.empty().write("env/SE3.yml", "channels: [x]\n" + CONDA)
    project.readme("conda env create --file env/SE3.yml", "pip install -e .")
    project.write("setup.py", "from setuptools import setup\nsetup(name='p', install_requires=['torch'])\n")
    assert project.facts().dependency_files == ("env/SE3.yml", "setup.py")


@pytest.mark.parametrize(
    ("lines", "file"),
    [
        ((), "requirements.txt"),
        (("pip install -r requirements-dev.txt",), "requirements.txt"),
        (("pip install -r requirements-training.txt",), "requirements-training.txt"),
        (("pip install -r requirements_gpu.txt", "pip install -r requirements.txt"), "requirements.txt"),
    ],
)
def test_the_plain_requirements_are_installed_unless_the_readme_installs_only_others(project, lines, file):
    for name in (
        "requirements.txt",
        "requirements-training.txt",
        "requirements_gpu.txt",
        "requirements-dev.txt",
    ):
        project.write(name, "torch\n")
    assert project.readme(*lines).facts().dependency_files == (file,)


def test_what_a_project_file_declares_beside_the_requirements_is_installed_after_them(project):
    needs = "install_requires=['tqdm', 'python-dotenv>=1'], extras_require={'dev': ['black']}"
    project.write("setup.py", f"from setuptools import setup\nsetup(name='p', {needs})\n")
    project.write("requirements.txt", "tqdm==4.66\n").program("train.py")
    installs = [each.run for each in plan_installs(project.facts())]
    assert installs == ["pip install -r requirements.txt", "pip install 'python-dotenv>=1'"]


@pytest.mark.parametrize(
    ("requirements", "installs"),
    [
        ("tqdm==4.60.0\n", ["pip install -r requirements.txt", "pip install packaging"]),
        ("tqdm==4.60.0\n-e .\n", ["pip install tqdm==4.60.0 packaging"]),
        (None, ["pip install packaging"]),
    ],
)
def test_a_conda_environment_beside_a_list_for_pip_adds_no_requirement_and_no_torch(
    project, requirements, installs
):
    project.write("environment.yaml", "dependencies: [python=3.11, cudatoolkit=11.3, pip: [tqdm==4.62.0]]\n")
    project.write(
        "setup.py", "from setuptools import setup\nsetup(name='p', install_requires=['packaging'])\n"
    )
    if requirements:
        project.write("requirements.txt", requirements)
    facts = project.program("train.py", "import numba").facts()
    assert [each.run for each in plan_installs(facts)] == installs
    assert facts.python.version == "3.11"


def test_requirements_beside_the_program_or_that_the_image_installs_and_workspace_members_are_found(project):
    project.write("src/gpu/requirements.txt", "torch\n").program("src/gpu/train.py")
    facts = project.facts()
    assert (facts.package_manager, facts.dependency_files) == ("pip", ("src/gpu/requirements.txt",))
    project.empty().write("deploy/reqs/requirements.txt", "torch\n").program("main.py")
    path = "deploy/reqs/requirements.txt"
    project.write("Dockerfile", f"FROM python:3.11\nCOPY {path} .\nRUN pip install -r {path}\n")
    assert project.facts().dependency_files == (path,)
    project.write("requirements.txt", "of-another-host\n")
    assert project.facts().dependency_files == (path,)
    project.empty().write("pyproject.toml", '[tool.uv.workspace]\nmembers = ["backend"]\n').write("uv.lock")
    project.write("backend/pyproject.toml", PROJECT).program("backend/main.py")
    assert project.facts().dependency_files == ("pyproject.toml", "uv.lock", "backend/pyproject.toml")


def test_requirements_follow_includes_also_in_a_circle_and_collect_indexes(project):
    lines = "--extra-index-url https://x/whl/cu121\n-r base.txt\ntorch==2.1.0+cu121 # ours\n-e .\n"
    project.write("requirements.txt", lines)
    file = read(project.write("base.txt", "numpy>=1\n"), "requirements.txt")
    assert (names(file), file.indexes) == (["numpy", "torch"], ("https://x/whl/cu121",))
    project.empty().write("requirements.txt", "-r requirements-b.txt\na\n")
    project.write("requirements-b.txt", "-r requirements.txt\nb\n")
    assert "a" in names(read(project, "requirements.txt"))


@pytest.mark.parametrize(
    ("line", "name", "spec"),
    [
        ("Torch>=2.0,<3", "torch", "<3,>=2.0"), ("torch (==2.7.1)", "torch", "==2.7.1"), ("torch==2.7.1+cu126", "torch", "==2.7.1+cu126"),
        ("diffusers[torch]==0.32.2", "diffusers", "==0.32.2"), ("x @ git+https://h/o/x.git", "x", ""), ("git+https://h/o/My_Pkg.git@v1", "my-pkg", ""),
        ("-e git+https://h/o/r.git#egg=thing", "thing", ""), ("torch == 1.9.*", "torch", "==1.9.*"), ("pkg==1.0 --hash=sha256:ab", "pkg", "==1.0"),
    ],
)  # fmt: skip
def test_a_requirement_line(line, name, spec):
    item = parse_requirement(line, "f")
    assert (item.name, item.spec) == (name, spec)


@pytest.mark.parametrize(
    "line",
    ["-e .", ".", "./wheels/a.whl", "--no-binary x", "https://x/y.whl", "pywin32; sys_platform == 'win32'"],
)
def test_a_line_without_a_requirement(line):
    assert parse_requirement(line, "f") is None


def test_setup_py_is_read_without_being_run_with_pins_by_name_and_its_requirements_file(project):
    project.write(
        "setup.py",
        """
        import torch_that_is_not_there
        from setuptools import setup
        base = ["torch>=2"]
        setup(name="p", install_requires=base + ["numpy"], python_requires=">=3.8",
              extras_require={"dev": ["pytest"]}, entry_points={"console_scripts": ["p = p.cli:main"]})
    """,
    )
    file = read(project, "setup.py")
    assert (file.python, file.scripts) == (((">=3.8", "python_requires"),), (("p", "p.cli:main"),))
    assert names(file) == ["torch", "numpy", "pytest"]
    pins = '_deps = ["torch==2.5.1", "numpy>1"]\ndeps = {d: d for d in _deps}\n'
    project.empty().write("setup.py", pins + 'setup(name="p", install_requires=[deps["torch"]])\n')
    assert [item.spec for item in read(project, "setup.py").wanted] == ["==2.5.1"]
    lines = "reqs = open('requirements.txt').read().split()\nsetup(name='p', install_requires=reqs)\n"
    project.empty().write("setup.py", lines)
    assert names(read(project.write("requirements.txt", "torch\n"), "setup.py")) == ["torch"]


def test_setup_cfg_and_conda_are_read_and_their_pins_translated(project):
    options = "[options]\npython_requires = >=3.9\ninstall_requires =\n    torch\n    numpy\n"
    project.write("setup.cfg", "[metadata]\nname = p\n" + options)
    file = read(project, "setup.cfg")
    assert (names(file), file.python) == (["torch", "numpy"], ((">=3.9", "python_requires"),))
    torch = "pytorch::pytorch=1.9.1=py3.8_cuda11.1_cudnn8"
    text = f"name: e\ndependencies:\n  - python >= 3.8\n  - {torch}\n  - pip:\n    - timm==0.9\n"
    project.empty().write("environment.yml", text)
    file = read(project, "environment.yml")
    assert [(item.name, item.spec) for item in file.wanted] == [("torch", "==1.9.1"), ("timm", "==0.9")]
    assert (file.python, file.name) == (((">=3.8", "dependencies"),), "e")


def test_the_python_environment_of_an_mlproject_is_installed(project):
    text = "python: '3.9.18'\nbuild_dependencies: [pip]\ndependencies:\n  - mlflow<3\n  - -r more.txt\n"
    project.write("MLproject", "name: p\npython_env: python_env.yaml\n").write("python_env.yaml", text)
    facts = project.write("more.txt", "rich\n").program("train.py").facts()
    assert facts.dependency_files == ("python_env.yaml",)
    assert [each.run for each in plan_installs(facts)] == ["pip install 'mlflow<3' rich"]
    assert facts.python.version == "3.9"


def test_poetry_versions_are_translated():
    versions = ("^3.10", "^0.4", "~3.11", ">=3.9,<3.12", "*", "2.1.0")
    specs = [">=3.10,<4", ">=0.4,<0.5", ">=3.11,<3.12", ">=3.9,<3.12", "", "==2.1.0"]
    assert [caret(each) for each in versions] == specs


BROKEN = {
    "python_env.yaml": "a: [\n",
    "pyproject.toml": "[p\n",
    "Pipfile": "= =\n",
    "setup.py": "def (:\n",
    "environment.yml": "a: [\n",
}


@pytest.mark.parametrize(("path", "text"), [*BROKEN.items(), (".vscode/launch.json", "{,")])
def test_a_broken_file_is_named_and_nothing_else_happens(project, path, text):
    facts = project.write(path, text).program("train.py").facts()
    assert facts.entrypoint.file == "train.py"
    assert [problem for problem in facts.problems if problem.startswith(path)]


def test_names_of_the_readme_or_imports_stand_in_for_a_missing_file_without_the_standard_library(project):
    project.readme("pip install -U torch numpy 'transformers>=4' tiktoken")
    assert project.facts().requirements == ("torch", "numpy", "transformers>=4", "tiktoken")
    project.empty().write(
        "train.py", "import os, cv2\nimport numpy as np\nfrom PIL import Image\nimport models\n"
    ).write("models.py", "import yaml\n")
    assert set(project.facts().requirements) == {"opencv-python", "numpy", "pillow", "pyyaml"}
    project.empty().write(
        "a.ipynb", '{"cells": [{"cell_type": "code", "source": ["import random\\n", "import torch"]}]}'
    )
    assert project.facts().requirements == ("torch",)


AT_GIT = "git+https://h/z"


@pytest.mark.parametrize(
    ("lines", "installs"),
    [
        (["pip install numpy==1.24.4 'torch>=1.8, <2' gym[atari] yacs=0.1"], ["numpy==1.24.4 'torch<2,>=1.8' 'gym[atari]' yacs"]),
        (["conda install pytorch==1.8.0 torchvision=0.9 cudatoolkit=10.2 -c pytorch", "pip install tqdm"],
         ["tqdm torch==1.8.0 'torchvision==0.9.*'"]),
        (["conda install torchvision=0.9 -c pytorch"], ["torch 'torchvision==0.9.*' numpy"]),
        (["pip install torch==2.6.0+cu124 --index-url https://download.pytorch.org/whl/cu124"],
         ["--extra-index-url https://download.pytorch.org/whl/cu124 torch==2.6.0"]),
        (["pip install 'z @ git+https://h/z' -e git+https://h/z#egg=zz  # both"], [f"'z @ {AT_GIT}' 'zz @ {AT_GIT}#egg=zz'"]),
        (["pip install numpy git+https://me:s@h/z.git@v1#subdirectory=py"],
         ["numpy", "{0} || pip install --no-build-isolation {0}".format("'git+https://h/z.git@v1#subdirectory=py'")]),
        (["# pip install required packages", "pip install tqdm  # or pip install other things"], ["tqdm"]),
        (["pip install git+https://h/detectron2.git"], ["--no-build-isolation git+https://h/detectron2.git"]),
    ],
)  # fmt: skip
def test_what_only_the_readme_installs_keeps_its_versions_extras_and_addresses(project, lines, installs):
    facts = project.write("train.py", "import torch, torchvision, numpy\n").readme(*lines).facts()
    runs = [each.run for each in plan_installs(facts)]
    assert runs[-len(installs) :] == [f"pip install {each}" for each in installs]


def test_system_packages_follow_the_requirements_and_a_folder_the_readme_installs_is_the_project(project):
    facts = project.write("requirements.txt", "opencv-python\nmpi4py\nx @ git+https://h/x.git\n").facts()
    assert facts.apt == ("libgl1", "libglib2.0-0", "openmpi-bin")
    assert facts.build_apt == ("build-essential", "git", "libopenmpi-dev")
    project.empty().write("learn/train.py", "import torch\n")
    project.write("python/requirements.txt", "torch==0.4.0\n")
    project.write("python/setup.py", "from setuptools import setup\nsetup(name='p')\n")
    project.readme("git clone https://example.org/course.git", "cd course/python", "pip install .")
    facts = project.facts()
    assert (facts.package_manager, facts.torch.version) == ("pip", "0.4.0")


@pytest.mark.parametrize(
    ("lines", "packages"),
    [
        (["sudo apt update && sudo apt install ffmpeg sox", "sudo pacman -S sox2", "brew install x"], "ffmpeg sox"),
        (["$ sudo -E apt-get -qq install -y \\", "  -t bookworm libsndfile1 ./x.deb \\", "  sox=14.4 a/stable B | tee log"], "libsndfile1"),
        (["apt install python3.8-venv python3-pip cuda-toolkit-12-4 nvidia-driver-535 linux-headers-$(uname -r) docker.io"], ""),
        (["apt install <package>", "# apt install required packages", "apt remove sox", "apt-get install libopenmpi-dev;reboot"], "libopenmpi-dev"),
    ],
)  # fmt: skip
def test_debian_packages_of_the_readme_are_installed_without_those_of_the_machine(project, lines, packages):
    facts = project.program("train.py").readme(*lines).facts()
    assert facts.readme_apt == tuple(packages.split())
    assert plan_image(facts)[0].optional_apt == facts.readme_apt


def test_a_pixi_lock_says_python_versions_and_cuda_and_a_pixi_toml_that_a_driver_is_needed(project):
    conda = "https://conda.anaconda.org/conda-forge/linux-64"
    project.write("train.py", "import torch\n").write("requirements.txt", "torch==1.12.1\n")
    needs = '[workspace]\nname = "p"\n[system-requirements]\ncuda = "12.0"\n'
    packages = '[dependencies]\npytorch-gpu = "*"\nmake = "*"\n[pypi-dependencies]\neinops = ">=0.8"\n'
    project.write("pixi.toml", needs + packages)
    project.write(
        "pixi.lock",
        f"version: 6\nenvironments:\n  default:\n    packages:\n      linux-64:\n"
        f"      - conda: {conda}/python-3.12.7-h32b2ec7_101_cp312.conda\n"
        f"      - conda: {conda}/pytorch-2.7.1-cuda126_mkl_py312_h62_302.conda\n"
        f"      - pypi: https://files.example/einops-0.8.1+local-py3-none-any.whl\n"
        f"      win-64:\n      - conda: {conda}/python-3.11.1-h1_0.conda\n",
    )
    facts = project.facts()
    assert (facts.package_manager, facts.python.version, facts.gpu) == ("pixi", "3.12", "required")
    assert (facts.torch.version, facts.torch.cuda) == ("2.7.1", "12.6")
    assert facts.declared == ("torch==2.7.1", "einops==0.8.1")


@pytest.mark.parametrize(
    ("path", "text", "declared"),
    [
        ("pyproject.toml", '[project]\nname = "p"\ndependencies = ["ray[tune,default]>=2", "jax[cuda12]", "tomli>=1; python_version < \'3.11\'"]\n',
         ("ray[default,tune]>=2", "jax[cuda12]", 'tomli>=1 ; python_version < "3.11"')),
        ("setup.py", "from setuptools import setup\nsetup(name='p', install_requires=['psycopg[binary]', 'x[a] @ git+https://h/x@v1'])\n",
         ("psycopg[binary]", "x[a] @ git+https://h/x@v1")),
        ("pixi.toml", '[pypi-dependencies]\nimageio = { version = "*", extras = ["ffmpeg"] }\nsam = { git = "https://h/sam.git", rev = "a1" }\n',
         ("imageio[ffmpeg]", "sam @ git+https://h/sam.git@a1")),
    ],
)  # fmt: skip
def test_extras_markers_and_sources_of_requirements_are_installed(project, path, text, declared):
    facts = project.write(path, text).program("train.py").facts()
    assert facts.declared == declared
    (line,) = (each.run for each in plan_installs(facts))
    assert shlex.split(line)[2 : 2 + len(declared)] == [*declared]


@pytest.mark.parametrize(
    ("lines", "declared"),
    [
        (["pip install -e '.[train, log]'", "pip install -e .[gpu]"], ("torch", "datasets[audio]", "wandb")),
        (["cd p && python -m pip install --no-cache-dir .[train]"], ("torch", "datasets[audio]")),
        (["pip install -e .", "pip install -e .[train]  # optional"], ("torch",)),
        (["pip install other[train]", "pip install ./train[log]"], ("torch",)),
    ],
)
def test_the_extras_of_the_first_documented_installation_of_the_repository_are_installed(
    project, lines, declared
):
    extras = "{'train': ['datasets[audio]'], 'log': ['wandb'], 'gpu': ['flash-attn']}"
    project.write(
        "setup.py",
        f"from setuptools import setup\nsetup(name='p', install_requires=['torch'], extras_require={extras})\n",
    )
    assert project.program("train.py").readme(*lines).facts().declared == declared


def test_a_project_that_writes_out_that_it_needs_nothing_gets_nothing(project):
    text = '[project]\nname = "p"\ndependencies = []\n[project.optional-dependencies]\n'
    project.program("train.py", "import p").program("extra/compare.py", "import torch\nimport pyaudio")
    project.write("pyproject.toml", text + 'testing = ["torch==2.9.1"]\n').readme("python train.py")
    facts = project.facts()
    assert (facts.requirements, facts.declared, facts.torch, facts.apt) == ((), (), None, ())
    project.write("pyproject.toml", text + 'train = ["torch==2.9.1"]\n')
    assert project.facts().torch.version == "2.9.1"


def test_nothing_of_a_strangers_python_warns_or_is_too_deep(project, recwarn):
    deep = "a" + ".b" * 50000 + ":\n    loss.backward()\n"
    project.write("train.py", 'import re\nre.compile("\\d")\ntry:\n    import apex\nexcept ' + deep)
    project.write("setup.py", '"\\d"\nfrom setuptools import setup\nsetup(name="x")\n')
    project.facts()
    assert not list(recwarn)


def test_of_more_conda_environments_than_any_repository_has_the_first_are_read(project, monkeypatch):
    monkeypatch.setattr(dependencies, "_MAX_CONDA_CHARS", 100)
    for number in range(4):
        project.write(f"env-{number}.yml", "channels: [a]\ndependencies: [numpy]\n")
    tree = Tree(project.root)
    assert [file.path for file in read_dependency_files(tree)] == ["env-0.yml", "env-1.yml"]
    assert "env-2.yml: not read" in tree.problems[0]


def test_the_readmes_conda_pins_wheel_pages_and_scripts_are_installed_and_so_is_what_only_the_program_imports(
    project,
):
    project.write("train.py", "import torch\nimport torch_geometric\nimport sklearn\nprint(1)\n")
    project.write("setup.py", "from setuptools import setup\nsetup(name='p', install_requires=[])\n")
    project.write("install.sh", "conda create -n p python=3.10.14\npip install transformers==4.51.3\n")
    facts = project.readme(
        "conda install pyg=2.2 -c pyg",
        "pip install pyg-lib -f https://data.pyg.org/whl/x.html",
        ". install.sh",
    ).facts()
    assert facts.python.version == "3.10"
    wanted = ("pyg-lib", "transformers==4.51.3", "torch-geometric==2.2.*", "scikit-learn")
    assert facts.requirements == wanted
    assert facts.index_options == ("-f", "https://data.pyg.org/whl/x.html")
    assert "the README" in next(each.why for each in plan_image(facts)[1] if "dependencies" in each.why)


@pytest.mark.parametrize(
    "line", ["cd project/detr && pip install -e .", "pip install -e detr", "pip install -e ./detr/"]
)
def test_a_package_of_the_repository_that_the_readme_installs_is_importable(project, line):
    project.write("environment.yml", "channels: [x]\ndependencies:\n  - python=3.9\n  - py-opencv=4.7.0\n")
    project.write("detr/setup.py", "from setuptools import setup\nsetup(name='detr')\n").write(
        "detr/util/misc.py"
    )
    facts = project.write("train.py", "import cv2\nfrom util.misc import x\n").readme(line).facts()
    assert (facts.package_manager, facts.local_packages, facts.unnamed) == ("conda", ("detr",), ())
    assert facts.declared == ("opencv-python==4.7.0",)


@pytest.mark.parametrize("tail", ["#egg=pycocotools", "#subdirectory=PythonAPI&egg=pycocotools"])
def test_the_name_of_a_git_requirement_is_its_egg_wherever_that_stands_in_the_fragment(project, tail):
    project.program("train.py").write("requirements.txt", f"git+https://example.org/x/cocoapi.git{tail}\n")
    assert "build-essential" in project.facts().build_apt
