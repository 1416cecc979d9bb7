"""The torch that a repository asks for."""

import pytest

from dkdbg.setup.detect import torch_matrix
from dkdbg.setup.detect.accelerator.torch import wheel_cuda

NEWEST = torch_matrix.RELEASES[-1].default


def said(project):
    fact = project.facts().torch
    return fact and (fact.version, fact.cuda)


def test_no_torch_another_package_or_an_open_range_says_no_version_an_upper_bound_the_highest(project):
    assert said(project.write("requirements.txt", "fastapi\n")) is None
    assert said(project.write("requirements.txt", "torch>=2.0.0\n"))[0] is None
    assert said(project.write("requirements.txt", "torch>=1.10,<2.2\n")) == ("2.1.2", "12.1")
    others = "pytorch-lightning==1.9\ntorch-fidelity==0.3\n"
    assert said(project.write("requirements.txt", others))[0] is None


def test_the_source_of_uv_names_the_index(project):
    project.write(
        "pyproject.toml",
        """
        [project]
        name = "p"
        dependencies = ["torch==2.7.0"]
        [tool.uv.sources]
        torch = [{ index = "b", marker = "sys_platform == 'linux'" }]
        [[tool.uv.index]]
        name = "a"
        url = "https://download.pytorch.org/whl/cu118"
        [[tool.uv.index]]
        name = "b"
        url = "https://download.pytorch.org/whl/cu128"
    """,
    )
    facts = project.facts()
    assert (facts.torch.cuda, facts.torch_index) == ("12.8", "https://download.pytorch.org/whl/cu128")


def test_the_readme_says_what_the_files_leave_out_for_pip_and_conda_and_a_pin_in_a_file_beats_it(project):
    project.write("requirements.txt", "numpy\n").write("train.py", "import torch\n")
    project.readme("pip install torch==2.6.0 torchvision --index-url https://download.pytorch.org/whl/cu124")
    assert said(project) == ("2.6.0", "12.4")
    project.empty().readme("conda install pytorch==1.12.1 torchvision cudatoolkit=11.3 -c pytorch")
    project.write("train.py", "import torch\n")
    assert said(project) == ("1.12.1", "11.3")
    project.empty().write("requirements.txt", "torch==2.1.0\n").readme("pip install torch==1.9.0")
    assert said(project)[0] == "2.1.0"


def test_the_base_image_a_vendors_and_the_build_hold_a_torch(project):
    project.write("Dockerfile", "FROM pytorch/pytorch:2.5.1-cuda12.4-cudnn9-runtime\nRUN pip install x\n")
    project.write("train.py", "import torch\n")
    assert said(project) == ("2.5.1", "12.4")
    project.empty().write("Dockerfile", "FROM nvcr.io/nvidia/pytorch:21.08-py3\n")
    project.write("train.py", "import torch\n")
    assert said(project) == ("1.10", "11.4")
    project.empty().write(
        "Dockerfile", "FROM python:3.10\nRUN pip install \\\n  torch==2.7.0+cu128 \\\n  triton\n"
    ).write("train.py", "import torch\n")
    assert said(project) == ("2.7.0", "12.8")


@pytest.mark.parametrize(
    ("url", "cuda"),
    [("https://download.pytorch.org/whl/cu124", "12.4"), ("https://download.pytorch.org/whl/cu92/torch_stable.html", "9.2"), ("https://mirror.example/simple", None),
     ("https://download.pytorch.org/whl/cpu", None)],
)  # fmt: skip
def test_the_cuda_of_an_index(url, cuda):
    assert wheel_cuda(url) == cuda


def test_every_release_has_a_wheel_for_its_default_cuda():
    assert [release.torch for release in torch_matrix.RELEASES if release.default not in release.cuda] == []


def test_prose_names_the_torch_of_another_package_and_no_side_folder_or_developers_group_counts(project):
    words = "```bash\nuv pip install vllm==0.8.5\n```\nThis will also install PyTorch `v2.6.0`.\n"
    project.write("train.py", "import torch\n")
    assert said(project.write("README.md", words)) == ("2.6.0", "12.4")
    project.empty().write("train.py", "import torch\n")
    project.write("extras/README.md", "pip install torch==1.8.0\n")
    assert said(project)[0] is None
    extras = '[project.optional-dependencies]\ndev = ["torch==2.7.1"]\n'
    project.empty().write(
        "pyproject.toml", '[project]\nname = "p"\ndependencies = ["torch>=1.13"]\n' + extras
    )
    assert said(project.readme("pip install torch==2.1.2+cu118")) == ("2.1.2", "11.8")


@pytest.mark.parametrize(
    ("words", "version"),
    [
        ("3. Install [PyTorch 1.0]", "1.0"),
        ("Install PyTorch 1.0 or later", None),
        ("Install PyTorch 1.0+", None),
        ("Install PyTorch 1.13.1.", "1.13.1"),
    ],
)
def test_prose_says_which_torch_is_to_be_installed(project, words, version):
    project.write("train.py", "import torch\n").write("README.md", f"# P\n\n{words}\n")
    assert said(project)[0] == version


def test_an_image_says_its_torch_by_an_old_cuda_a_wheels_file_or_over_its_lock(project):
    project.write("setup.cfg", "[metadata]\nname = p\n[options]\ninstall_requires =\n    torch>=1.12\n")
    project.write("Dockerfile", "FROM nvidia/cuda:11.0.3-devel\nCOPY . /w\nRUN pip install -e /w\n")
    assert said(project) == (None, "11.0")
    url = "https://download.pytorch.org/whl/cu100/torch-1.1.0-cp36-cp36m-linux_x86_64.whl"
    project.empty().write("train.py", "import torch\n").write("requirements.txt", "tqdm\n")
    project.write("Dockerfile", f"FROM nvidia/cuda:10.0-devel-ubuntu18.04\nRUN pip3 install {url}\n")
    torch = project.facts().torch
    assert (torch.version, torch.cuda, torch.source) == ("1.1.0", "10.0", "Dockerfile")
    project.empty().write("train.py", "import torch\n").write(
        "pyproject.toml", '[tool.poetry]\nname = "x"\n[tool.poetry.dependencies]\ntorch = "^2.1.0"\n'
    )
    project.write("poetry.lock", '[[package]]\nname = "torch"\nversion = "2.1.0"\n')
    steps = "COPY . .\nRUN poetry install && pip install torch==2.2.1\n"
    project.write("Dockerfile", "FROM nvidia/cuda:12.1.0-devel-ubuntu22.04\n" + steps)
    torch = project.facts().torch
    assert (torch.version, torch.source) == ("2.2.1", "Dockerfile")


@pytest.mark.parametrize(
    ("path", "text", "index"),
    [
        ("requirments_cpu_py312.txt", "torch==2.9.1\n", None),
        ("requirements.txt", "torch==2.9.1+cpu\n", None),
        ("requirements.txt", "--extra-index-url https://download.pytorch.org/whl/cpu\ntorch==2.9.1\n", None),
        ("requirements.txt", "torch==2.9.1\n", "https://download.pytorch.org/whl/cu128"),
    ],
)
def test_a_list_for_the_cpu_gets_no_index_of_cuda(project, path, text, index):
    project.write("train.py", "import torch\n").write(path, text)
    url = "https://download.pytorch.org/whl/cu128"
    project.readme(f"pip install -r {path}", f"pip install torch==2.9.1 --index-url {url}")
    assert project.facts().torch_index == index


INDEXED = "--extra-index-url https://download.pytorch.org/whl/cu118\ntorch==2.1.0\n"
CONDA = "dependencies:\n- pytorch=1.9.1\n- cudatoolkit=11.1\n"
OLD_CUDA = "dependencies:\n- pytorch >= 1.13\n- pytorch-cuda=11.7\n"
VARIANTS = (f'[[package]]\nname = "torch"\nversion = "2.9.1+{each}"\n' for each in ("cpu", "cu128"))
LOCKED = {
    "pyproject.toml": '[project]\nname = "p"\ndependencies = ["torch>=2"]\n',
    "uv.lock": "\n".join(VARIANTS),
}
CASES = {
    "a pin takes the cuda of the default index": (("2.0.0", "11.7"), {"requirements.txt": "torch==2.0.0\n"}),
    "an unpinned torch takes the newest default": ((None, NEWEST), {"requirements.txt": "torch\n"}),
    "a local version names the cuda": (("2.7.1", "12.6"), {"requirements.txt": "torch==2.7.1+cu126\n"}),
    "an index in the requirements names the cuda": (("2.1.0", "11.8"), {"requirements.txt": INDEXED}),
    "the lock names the gpu variant before the cpu one": (("2.9.1", "12.8"), LOCKED),
    "conda names version and cuda": (("1.9.1", "11.1"), {"environment.yml": CONDA}),
    "an old cuda bounds an open range": (("2.0.1", "11.7"), {"environment.yml": OLD_CUDA}),
}


@pytest.mark.parametrize(("expected", "files"), CASES.values(), ids=CASES)
def test_the_torch(project, expected, files):
    assert said(project.files(files)) == expected
