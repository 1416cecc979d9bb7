"""Whether a program needs a GPU, can use one, or has nothing to do with one."""

from __future__ import annotations

import pytest

FALLBACK = (
    "import torch\ndevice = 'cuda' if torch.cuda.is_available() else 'cpu'\nfor x in []:\n    x.backward()\n"
)
HARD = "import torch\nmodel = model.cuda()\nfor x in []:\n    x.backward()\n"
GPU = "deploy: {resources: {reservations: {devices: [{driver: nvidia, count: 1, capabilities: [gpu]}]}}}"


def need(project):
    return project.facts().gpu


def test_a_web_application_has_none(project):
    assert need(project.write("requirements.txt", "fastapi\n").program("main.py", "import fastapi")) == "none"


def test_a_cpu_command_in_the_readme_is_optional(project):
    assert need(project.write("train.py", HARD).readme("python train.py --device=cpu")) == "optional"


def test_an_extra_named_cpu_is_optional(project):
    project.write(
        "pyproject.toml",
        '[project]\nname = "p"\n[project.optional-dependencies]\ncpu = ["torch"]\ngpu = ["torch"]\n',
    )
    assert need(project.write("train.py", HARD)) == "optional"


def test_a_configuration_for_the_cpu_is_optional(project):
    project.write("configs/trainer/default.yaml", "accelerator: cpu\n").write(
        "train.py", "import lightning\nTrainer(gpus=1).fit(m)\n"
    )
    assert need(project) == "optional"


@pytest.mark.parametrize(("gpu", "cpu", "expected"), [(True, False, "required"), (False, True, "optional")])
def test_the_chosen_service_decides(project, gpu, cpu, expected):
    project.write(
        "compose.yaml",
        f"services:\n  app:\n    build: .\n    {GPU if gpu else ''}\n  other:\n    build: .\n    {GPU if cpu else ''}\n",
    )
    project.write("Dockerfile", "FROM python:3.11\nWORKDIR /a\nCOPY . .\nCMD python train.py\n").write(
        "train.py", FALLBACK
    )
    assert need(project) == expected


def test_dev_containers_with_and_without_a_gpu_are_optional(project):
    project.write(
        "a/.devcontainer/devcontainer.json", '{"image": "python:3.11", "runArgs": ["--gpus", "all"]}'
    )
    project.write("b/.devcontainer/devcontainer.json", '{"image": "python:3.11"}').write("a/train.py", HARD)
    assert need(project) == "optional"


def test_the_evidence_names_file_and_line(project):
    assert project.write("train.py", HARD).facts().gpu_source.startswith("train.py:2")


def test_a_framework_that_takes_a_gpu_unasked_is_optional(project):
    assert need(project.write("train.py", "import jax\nx = jax.numpy.zeros(3)\nprint(x)\n")) == "optional"


def test_a_lightning_device_number_is_no_cpu(project):
    project.write("environment.yml", "dependencies:\n  - pytorch=1.7\n  - cudatoolkit=11.0\n")
    assert (
        need(project.write("main.py", "import torch\nrun(gpus=1)\n").readme("python main.py -t --gpus 0,"))
        == "required"
    )


@pytest.mark.parametrize("words", ["It does not require a GPU.", "No CUDA environment is needed."])
def test_a_denied_requirement_is_none(project, words):
    assert need(project.write("train.py", FALLBACK).write("README.md", f"{words}\n")) == "optional"


@pytest.mark.parametrize(
    "words",
    [
        "| Size | Required VRAM |\n|---|---|\n| tiny | 1 GB |\n",
        "You will need a modern GPU with CUDA for best performance.\n",
        "You may need a different `jax` package, depending on CUDA.\n",
        "To use it you need to install a PyTorch image from NVIDIA.\n",
    ],
)
def test_a_word_about_gpus_that_demands_none_is_no_requirement(project, words):
    assert need(project.write("train.py", FALLBACK).write("README.md", words)) == "optional"


@pytest.mark.parametrize(
    "words",
    [
        "Run our demo in Colab (no GPU needed).\n",
        "Debugging tools: CPU/GPU profiling.\n",
        "You can use 4 bits if you have limited GPU memory.\n",
    ],
)
def test_a_word_about_cpus_that_promises_none_is_no_fallback(project, words):
    assert need(project.write("train.py", HARD).write("README.md", words)) == "required"


@pytest.mark.parametrize("path", ["requirements_cpu.txt", "docker/Dockerfile-cpu", "docker/cpu/Dockerfile"])
def test_a_file_that_builds_for_a_cpu_is_optional(project, path):
    text = "FROM python:3.11\n" if "Dockerfile" in path else "torch\n"
    assert need(project.write("train.py", HARD).write(path, text)) == "optional"


def test_an_optional_package_for_nvidia_is_no_requirement(project):
    project.write(
        "pyproject.toml",
        '[project]\nname = "p"\ndependencies = ["torch"]\n[project.optional-dependencies]\nfast = ["flash-attn"]\n',
    )
    assert need(project.write("train.py", FALLBACK)) == "optional"


def test_the_package_behind_its_main_module_decides_on_the_device(project):
    project.write("p/__init__.py").write("p/__main__.py", "from p.cli import app\napp()\n")
    project.write("p/cli.py", FALLBACK).write("q/old.py", HARD)
    assert need(project.readme("python -m p")) == "optional"


def test_a_training_program_whose_device_is_cuda_by_default_is_required(project):
    option = (
        "import argparse, torch\np = argparse.ArgumentParser()\np.add_argument('--device', default='cuda')\n"
    )
    model = "model.to(p.parse_args().device)\nfor x in []:\n    x.backward()\n"
    project.readme("torchrun --nproc_per_node=8 train.py")
    assert need(project.write("train.py", option + model)) == "required"


def test_a_compose_file_for_a_cpu_beside_the_chosen_one_is_optional(project):
    service = "services: {app: {build: ../.., command: python train.py, {0}}}\n"
    project.write("docker/gpu/compose.yml", service.replace("{0}", GPU))
    project.write("docker/cpu/compose.yml", service.replace("{0}", "tty: true"))
    project.write("Dockerfile", "FROM python:3.11\nWORKDIR /app\nCOPY . .\n").write("train.py", HARD)
    assert (project.facts().service.file, need(project)) == ("docker/gpu/compose.yml", "optional")


def test_a_package_that_only_looks_at_gpus_is_no_requirement(project):
    project.write("requirements.txt", "torch\npynvml\n")
    assert need(project.write("train.py", "import torch\ntorch.accelerator.is_available()\n")) == "optional"


def test_a_comment_that_names_cuda_says_nothing(project):
    body = 'import torch\n# Passed on, such as device="cuda:0".\nmodel.to(device)\n'
    assert need(project.write("train.py", body)) == "optional"


def test_a_simulator_of_another_program_is_not_this_ones(project):
    project.program("train_isaac.py", "import isaacgym\nimport torch").readme("python train.py")
    assert need(project.write("train.py", FALLBACK)) == "optional"
    assert need(project.write("train.py", "import isaacgym\n" + FALLBACK)) == "required"


def test_a_program_that_says_that_it_goes_on_without_one_is_optional_whatever_its_image(project):
    project.write(
        "Dockerfile", "FROM nvidia/cuda:11.6.2-cudnn8-runtime-ubuntu20.04\nCOPY . /app\nCMD python3 run.py\n"
    )
    quiet = "import torch\nif torch.cuda.is_available():\n    model.cuda()\n"
    assert (
        need(project.program("run.py", quiet).readme("You need a GPU: CUDA is required", "python3 run.py"))
        == "required"
    )
    assert (
        need(project.program("run.py", quiet + "else:\n    print('No GPU: falling back to CPU')\n"))
        == "optional"
    )


def test_a_service_with_a_gpu_in_one_compose_file_and_none_in_another_is_optional(project):
    project.write("docker-compose.yml", "services:\n  web: {image: 'org/web:latest'}\n")
    project.write(
        "docker-compose.cuda.yml", "services:\n  web:\n    image: org/web:latest-cuda\n    " + GPU + "\n"
    )
    assert need(project.program("main.py", "import flask, torch")) == "optional"


ALL_ON_CUDA = "torch.set_default_tensor_type('torch.cuda.FloatTensor')\n"


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("if __name__ == '__main__':\n    ", "required"),
        ("x = 1\n", "required"),
        ("if torch.cuda.is_available():\n    ", "optional"),
        ("if args.cuda:\n    ", "optional"),
    ],
)
def test_a_program_that_makes_each_tensor_one_of_cuda_needs_a_gpu(project, before, expected):
    assert need(project.write("train.py", FALLBACK + before + ALL_ON_CUDA)) == expected


def test_a_library_that_takes_a_gpu_by_itself_makes_it_optional(project):
    project.write("requirements.txt", "sentence-transformers\n")
    embed = "from sentence_transformers import SentenceTransformer\nSentenceTransformer('x')\n"
    assert need(project.write("serve.py", embed)) == "optional"


def test_an_actor_without_a_gpu_does_not_make_the_program_run_without(project):
    driver = "import torch\nmodel.to('cuda')\nWorkers(num_gpus_per_actor=0)\n"
    assert need(project.write("train.py", driver)) == "required"


RANK = """\
    import torch


    def train(rank):
        torch.cuda.manual_seed(1)
        device = torch.device({device})
        for x in []:
            x.to(device).backward()


    if torch.cuda.is_available():
        train(0)
    """


@pytest.mark.parametrize("device", ["'cuda:{:d}'.format(rank)", "f'cuda:{rank}'", "'cuda:' + str(rank)"])
def test_a_device_by_rank_that_nothing_asks_for_is_required(project, device):
    assert need(project.write("train.py", RANK.format(device=device))) == "required"


def test_a_device_by_rank_with_another_choice_is_optional(project):
    other = RANK.format(device="f'cuda:{rank}'") + "    else:\n        device = torch.device('cpu')\n"
    assert need(project.write("train.py", other)) == "optional"
    below = (
        RANK.format(device="f'cuda:{rank}'")
        .replace("torch.cuda.manual_seed(1)", "if rank >= 0:")
        .replace("        device", "            device")
    )
    assert need(project.write("train.py", below)) == "optional"


COMPILES = """\
    import os
    from torch.utils.cpp_extension import load

    here = os.path.dirname(__file__)
    op = load(
        "op",
        sources=[
            os.path.join(here, "op.cpp"),
            os.path.join(here, "op_kernel.cu"),
        ],
    )
    """


def test_cuda_sources_that_are_compiled_at_an_import_are_required(project):
    project.write("train.py", FALLBACK).write("op/op.py", COMPILES)
    facts = project.facts()
    assert (facts.gpu, facts.gpu_source) == ("required", "op/op.py:5: compiles CUDA code when it is imported")


@pytest.mark.parametrize(
    "change", [("    op = load(", "    def get():\n        op = load("), ("op_kernel.cu", "op2.cpp")]
)
def test_sources_that_are_compiled_on_demand_or_for_a_cpu_require_nothing(project, change):
    project.write("train.py", FALLBACK).write("op/op.py", COMPILES.replace(*change))
    assert need(project) == "optional"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("3. (Optional) Setup for GPU support", "optional"),
        ("Optionally, an NVIDIA GPU", "optional"),
        ("- GPU (optional)", "optional"),
        ("A GPU with CUDA is optional", "optional"),
        ("- (Optional) To save GPU memory during training, add `--grad_checkpointing`", "required"),
        ("- Optional: install flash attention on Hopper GPUs only", "required"),
        ("GPU memory is freed by --empty (optional)", "required"),
    ],
)
def test_optional_is_a_gpu_only_where_the_word_is_about_it(project, words, expected):
    assert need(project.write("train.py", HARD).write("README.md", f"# P\n\n{words}\n")) == expected


IMPORTS = "import torch\nfrom core.solver import Solver\n"
CONDA = "conda install -y pytorch=1.4.0 cudatoolkit=10.0 -c pytorch"


def test_an_install_line_with_cuda_needs_no_gpu_where_a_module_picks_the_device(project):
    project.program("main.py", IMPORTS).write("core/solver.py", FALLBACK).readme(CONDA, "python main.py")
    assert need(project.write("metrics/other.py", "def f(x):\n    return x.cuda()\n")) == "optional"


@pytest.mark.parametrize("solver", ["import torch\nx = 1\n", FALLBACK + HARD])
def test_an_install_line_with_cuda_asks_for_a_gpu_where_nothing_picks_it(project, solver):
    project.program("main.py", IMPORTS).write("core/solver.py", solver).readme(CONDA, "python main.py")
    assert need(project) == "required"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("try:\n    from apex import amp\nexcept ImportError:\n    amp = None\n", "optional"),
        ("try:\n    from apex import amp\nexcept:\n    amp = None\n", "optional"),
        ("try:\n    from apex import amp\nexcept KeyError:\n    amp = None\n", "required"),
        ("from apex import amp\n", "required"),
    ],
)
def test_a_package_for_nvidia_that_is_only_tried_is_no_requirement(project, body, expected):
    project.program("train.py", FALLBACK).write("layers.py", body)
    assert need(project) == expected


def test_a_package_that_is_tried_in_one_file_and_imported_in_another_is_required(project):
    project.write("layers.py", "try:\n    import apex\nexcept ImportError:\n    apex = None\n")
    assert need(project.program("train.py", "import apex\n" + FALLBACK)) == "required"


NGC = "FROM nvcr.io/nvidia/pytorch:22.03-py3\nCOPY . /w\n"


def test_an_image_with_cuda_asks_for_no_gpu_where_lightning_takes_what_there_is(project):
    project.program("train.py", "from p.training import train").write(
        "p/training.py", "import pytorch_lightning\n"
    )
    project.write("configs/a.yaml", "trainer:\n  accelerator: 'auto'\n")
    assert need(project.write("Dockerfile", NGC).write("p/model.py", "x = y.is_cuda\n")) == "optional"


def test_an_image_with_cuda_asks_for_a_gpu_where_nothing_picks_the_device(project):
    project.program("train.py", "from p.training import train").write("p/training.py", "import torch\n")
    assert need(project.write("Dockerfile", NGC)) == "required"


def test_an_image_with_cuda_asks_for_no_gpu_where_a_module_picks_the_device(project):
    project.program("train.py", "from p.training import train").write("p/training.py", FALLBACK)
    assert need(project.write("Dockerfile", NGC)) == "optional"


def test_graphgym_picks_the_device(project):
    body = "from torch_geometric.graphgym.utils.device import auto_select_device\nauto_select_device()\n"
    project.program("main.py", "import torch\n" + body).readme(
        "conda install pytorch-cuda=11.7", "python main.py"
    )
    assert need(project) == "optional"


CASES = {
    "torch on the cpu alone is none": ("none", {"train.py": "import torch\nx = torch.zeros(3)\nprint(x)\n"}),
    "a fallback in the program is optional": ("optional", {"train.py": FALLBACK}),
    "an assertion is required": (
        "required",
        {"train.py": FALLBACK + "assert torch.cuda.is_available(), 'no'\n"},
    ),
    "nccl without a fallback is required": (
        "required",
        {"train.py": "import torch.distributed as dist\ndist.init_process_group('nccl')\nx.cuda()\n"},
    ),
    "an unconditional cuda call is required": ("required", {"train.py": HARD}),
    "a requirement in prose is required": (
        "required",
        {"train.py": FALLBACK.replace("else 'cpu'", ""), "README.md": "This requires an NVIDIA GPU.\n"},
    ),
    "gpu memory in prose is no requirement": (
        "optional",
        {"train.py": FALLBACK, "README.md": "Less GPU memory required.\n"},
    ),
    "a package for nvidia alone is required": (
        "required",
        {"requirements.txt": "torch\nflash-attn\n", "train.py": "import torch\nx = 1\nprint(x)\n"},
    ),
}


@pytest.mark.parametrize(("expected", "files"), CASES.values(), ids=CASES)
def test_whether_a_gpu_is_needed(project, expected, files):
    assert need(project.files(files)) == expected
