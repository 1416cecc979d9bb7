"""Whether a program needs a GPU, can use one, or has nothing to do with one."""

import pytest

from dkdbg.setup.detect.accelerator import gpu

LIGHTNING = "import lightning\nTrainer(gpus=1).fit(m)\n"
BACKWARD = "for x in []:\n    x.backward()\n"
FALLBACK = "import torch\ndevice = 'cuda' if torch.cuda.is_available() else 'cpu'\n" + BACKWARD
PRINTS = "import torch\nx = torch.zeros(3)\nprint(x)\n"
HARD = "import torch\nmodel = model.cuda()\n" + BACKWARD
MAIN = "\nif __name__ == '__main__':\n    main()\n"
GPU = "deploy: {resources: {reservations: {devices: [{driver: nvidia, count: 1, capabilities: [gpu]}]}}}"
GPU_RUN_ARGS = '{"image": "python:3.11", "runArgs": ["--gpus", "all"]}'
EXTRAS = '[project]\nname = "p"\ndependencies = ["torch"]\n[project.optional-dependencies]\n'
#: Programs whose module, not they themselves, may pick the device.
OF_PACKAGE = "from p.training import train\n" + MAIN
OF_NGC = {"train.py": OF_PACKAGE, "Dockerfile": "FROM nvcr.io/nvidia/pytorch:22.03-py3\nCOPY . /w\n"}
CUDA_IMAGE = "FROM nvidia/cuda:11.6.2-cudnn8-runtime-ubuntu20.04\nCOPY . /app\nCMD python3 run.py\n"
LOOKS = "import torch\ntorch.accelerator.is_available()\n"
IF_THERE = "import torch\nif torch.cuda.is_available():\n    model.cuda()\n"
AUTO_SELECT = "from torch_geometric.graphgym.utils.device import auto_select_device\nauto_select_device()\n"
#: Words about GPUs that demand none, and words about CPUs that promise nothing.
NO_DEMAND = (
    "Less GPU memory required.",
    "It does not require a GPU.",
    "No CUDA environment is needed.",
    "| Size | Required VRAM |\n|---|---|\n| tiny | 1 GB |",
    "You will need a modern GPU with CUDA for best performance.",
    "You may need a different `jax` package, depending on CUDA.",
    "To use it you need to install a PyTorch image from NVIDIA.",
)
NO_FALLBACK = (
    "Run our demo in Colab (no GPU needed).",
    "Debugging tools: CPU/GPU profiling.",
    "You can use 4 bits if you have limited GPU memory.",
)

NONE = {
    "torch on the cpu alone": {"train.py": PRINTS},
    "a web application": {"requirements.txt": "fastapi\n", "main.py": "import fastapi\n" + MAIN},
    "a gpu of another service": {
        "compose.yaml": f"services: {{api: {{build: ., command: python a.py}}, model: {{image: vllm, {GPU}}}}}\n",
        "Dockerfile": "FROM python:3.11\nWORKDIR /app\nCOPY . .\n",
        "a.py": MAIN,
    },
}
OPTIONAL = {
    "a fallback in the program": {"train.py": FALLBACK},
    "an extra named cpu": {"train.py": HARD, "pyproject.toml": EXTRAS + 'cpu = ["torch"]\ngpu = ["torch"]\n'},
    "a configuration for the cpu": {"configs/a.yaml": "accelerator: cpu\n", "train.py": LIGHTNING},
    "dev containers with and without a gpu": {
        "a/.devcontainer/devcontainer.json": GPU_RUN_ARGS,
        "b/.devcontainer/devcontainer.json": '{"image": "python:3.11"}',
        "a/train.py": HARD,
    },
    "a framework that takes a gpu unasked": {"train.py": "import jax\nx = jax.numpy.zeros(3)\nprint(x)\n"},
    **{words: {"train.py": FALLBACK, "README.md": f"{words}\n"} for words in NO_DEMAND},
    "an optional package": {"train.py": FALLBACK, "pyproject.toml": EXTRAS + 'fast = ["flash-attn"]\n'},
    "the package behind its main module decides": {
        "p/__init__.py": "",
        "p/__main__.py": "from p.cli import app\napp()\n",
        "p/cli.py": FALLBACK,
        "q/old.py": HARD,
        "README.md": ("python -m p",),
    },
    "a package that only looks at gpus": {"requirements.txt": "torch\npynvml\n", "train.py": LOOKS},
    "a program that goes on without one, whatever its image": {
        "Dockerfile": CUDA_IMAGE,
        "run.py": IF_THERE + "else:\n    print('No GPU: falling back to CPU')\n" + MAIN,
        "README.md": ("You need a GPU: CUDA is required", "python3 run.py"),
    },
    "a library that takes a gpu automatically": {
        "requirements.txt": "sentence-transformers\n",
        "serve.py": "from sentence_transformers import SentenceTransformer\nSentenceTransformer('x')\n",
    },
    "an image with cuda where a module picks the device": OF_NGC | {"p/training.py": FALLBACK},
    "accelerate takes what there is": {
        "requirements.txt": "torch\naccelerate\n",
        "main.py": "import torch\nfrom accelerate import Accelerator\nAccelerator().prepare(1)\n" + MAIN,
        "README.md": ("pip install torch --extra-index-url https://download.pytorch.org/whl/cu116",),
    },
    "a torch that the README installs beside the lock, and an if with its else": {
        "pyproject.toml": '[tool.poetry.dependencies]\npython = "^3.10"\nnumpy = "*"\n',
        "poetry.lock": '[[package]]\nname = "numpy"\nversion = "1.26.0"\n',
        "p/__init__.py": "",
        "p/where.py": "import torch\nif torch.cuda.is_available():\n    d = torch.device('cuda:0')\nelse:\n    d = torch.device('cpu')\n",
        "train.py": "import torch\nfrom p.where import d\n" + MAIN,
        "old.py": HARD,
        "README.md": ("pip install torch", "python train.py"),
    },
    "an option without a default": {
        "train.py": "import torch\np.add_argument('--device')\nx.cuda()\n" + MAIN
    },
    "a package for nvidia whose import may fail": {
        "train.py": "try:\n    from apex import amp\n\n    HAS = True\nexcept:\n    HAS = False\n"
        + FALLBACK
        + MAIN
    },
    "graphgym picks the device": {
        "main.py": "import torch\n" + AUTO_SELECT + MAIN,
        "README.md": ("conda install pytorch-cuda=11.7", "python main.py"),
    },
}
REQUIRED = {
    "an unconditional cuda call": {"train.py": HARD},
    "an assertion": {"train.py": FALLBACK + "assert torch.cuda.is_available(), 'no'\n"},
    "nccl without a fallback": {
        "train.py": "import torch.distributed as dist\ndist.init_process_group('nccl')\nx.cuda()\n"
    },
    "a package for nvidia alone": {"requirements.txt": "torch\nflash-attn\n", "train.py": PRINTS},
    "a lightning device number is no cpu": {
        "environment.yml": "dependencies:\n  - pytorch=1.7\n  - cudatoolkit=11.0\n",
        "main.py": "import torch\nrun(gpus=1)\n",
        "README.md": ("python main.py -t --gpus 0,",),
    },
    **{words: {"train.py": HARD, "README.md": f"{words}\n"} for words in NO_FALLBACK},
    "an option whose default is cuda": {
        "train.py": "import torch\np.add_argument('--device', type=str,\n  default='cuda')\nx.to(a.device)\n"
        + MAIN
    },
    "an actor without one": {"train.py": "import torch\nmodel.to('cuda')\nWorkers(num_gpus_per_actor=0)\n"},
    "an image with cuda where nothing picks the device": OF_NGC | {"p/training.py": "import torch\n"},
    "a package for nvidia whose failed import ends the program": {
        "train.py": "try:\n    import apex\nexcept ImportError:\n    raise ImportError('install apex')\n"
        + FALLBACK
    },
    "a package for nvidia that is imported": {"train.py": "import apex\n" + FALLBACK + MAIN},
}
CASES = [
    pytest.param(need, files, id=name)
    for need, group in {"none": NONE, "optional": OPTIONAL, "required": REQUIRED}.items()
    for name, files in group.items()
]


def need(project):
    return project.facts().gpu


@pytest.mark.parametrize(("expected", "files"), CASES)
def test_whether_a_gpu_is_needed(project, expected, files):
    assert need(project.files(files)) == expected


def test_the_default_of_an_option_is_the_evidence_for_a_gpu(project):
    facts = project.files(REQUIRED["an option whose default is cuda"]).facts()
    assert facts.gpu_source == "train.py:2: '--device', type=str, default='cuda'"


@pytest.mark.parametrize(("gpu", "cpu", "expected"), [(True, False, "required"), (False, True, "optional")])
def test_the_chosen_service_decides(project, gpu, cpu, expected):
    app, other = (f"{{build: ., {GPU if asks else ''}}}" for asks in (gpu, cpu))
    project.write("compose.yaml", f"services: {{app: {app}, other: {other}}}\n")
    dockerfile = "FROM python:3.11\nWORKDIR /a\nCOPY . .\nCMD python train.py\n"
    assert need(project.files({"Dockerfile": dockerfile, "train.py": FALLBACK})) == expected


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
    all_on_cuda = "torch.set_default_tensor_type('torch.cuda.FloatTensor')\n"
    assert need(project.write("train.py", FALLBACK + before + all_on_cuda)) == expected


@pytest.mark.parametrize(
    ("text", "in_doubt"),
    [(FALLBACK, False), (HARD, False), (HARD + FALLBACK.replace("else 'cpu'", ""), True)],
)
def test_code_for_a_gpu_beside_a_fallback_leaves_a_doubt(project, text, in_doubt):
    rivals = [each.is_close for each in project.write("train.py", text).facts().rivals if each.topic == "gpu"]
    assert rivals == [in_doubt]


def test_hostile_text_is_searched_in_linear_time():
    """A search that begins again at each `cuda` would take minutes."""
    assert not gpu._CHOOSES_CPU.search("is_available():\n" + "cuda" * 250_000 + "\nx")
