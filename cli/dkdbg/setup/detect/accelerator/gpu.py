"""Decide whether the program needs a GPU, can use one or uses none, with the evidence."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from dkdbg.launchers import registry
from dkdbg.setup.detect.files import parent

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dkdbg.core.facts import Gpu

_INSISTS = re.compile(
    r"assert\s+(?:torch|th)\.cuda\.is_available\(\)|"
    r"if\s+not\s+(?:torch|th)\.cuda\.is_available\(\)\s*:\s*\n\s*(?:raise|sys\.exit|exit|print\([^\n]*\)\s*\n\s*(?:sys\.)?exit)|"
    # every new tensor is on CUDA, despite checks elsewhere; not inside an `if`
    r"^(?![ \t]*(?:(?:el)?if\b(?!\s+__name__)|else\b))[^\n]*\n[ \t]*torch\.set_default_tensor_type\(\s*(?:[\"']torch|torch)\.cuda\.",
    re.MULTILINE,
)
_NCCL = re.compile(r"init_process_group\(\s*(?:backend\s*=\s*)?[\"']nccl[\"']")
_FALLBACK = re.compile(
    r"(?:cuda|th|accelerator)\.is_available\(\)|current_accelerator\(|[\"']--(?:no[-_]cuda|cpu|use[-_]cpu|force[-_]cpu|use[-_]gpu|gpu)[\"']|no_cuda|"
    r"device_map\s*=\s*[\"']auto|accelerator\s*[=:]\s*[\"']?(?:auto|cpu)|list_physical_devices|jax\.devices|\bdevice_count\(\)|"
    r"[\"']--device[\"']|accelerator\.device|is_cuda_available|(?:num_)?gpus?(?!_per_actor)(?:_per_\w+)?\s*(?:=|:\s*int\s*=)\s*0\b"
)
_TOUCHES = re.compile(
    r"cuda|\bgpus?\b|torch\.accelerator|\.to\(\s*[\"']?(?:self\.)?device|nvidia|accelerator\.device|device_map|\bnvcc\b|tf\.config.*GPU",
    re.IGNORECASE,
)
_HARD_CODE = re.compile(
    r"\.cuda\(\)|\.to\(\s*[\"']cuda|device\s*=\s*[\"']cuda(?::\d)?[\"']|torch\.device\(\s*[\"']cuda[\"'](?:,\s*\w+)?\s*\)"
)
#: Each process uses the GPU of its rank; not inside an `if`, and without an alternative.
_RANK_ON_CUDA = re.compile(
    r"^(?![ \t]*(?:(?:el)?if\b|else\b))[^\n]*\n(?![^\n]*\belse\b)[ \t]+\w+\s*=\s*torch\.device\(\s*"
    r"(?:f[\"']cuda:\{|[\"']cuda:(?:\{[^}\n]{0,20}\}[\"']\s*\.format|%d[\"']\s*%|[\"']\s*\+))",
    re.MULTILINE,
)
_NAMES_CPU = re.compile(r"(?<!map_location=)[\"']cpu[\"']")
#: A module that compiles CUDA sources when imported.
_COMPILES = re.compile(
    r"^\w+\s*=\s*(?:torch\.utils\.)?(?:cpp_extension\.)?load\((?=[^\n]{0,200}(?:\n[ \t)\]][^\n]{0,200}){0,20}?\.cu[\"'])",
    re.MULTILINE,
)
#: A command line, an index or a setting for a CPU, which shows that the program runs on one.
_ON_CPU = re.compile(
    r"--device[ =]cpu|device=[\"']?cpu|--cpu\b|accelerator=cpu|trainer=cpu|--no[-_]cuda|JAX_PLATFORMS?=cpu|--use[-_]cpu|"
    r"CUDA_VISIBLE_DEVICES=(?:-1|[\"']{2})|whl/cpu|--accelerator[ =]cpu|--gpu[ =]-1\b|--force-cpu",
    re.IGNORECASE,
)
#: The same in prose, which may be about something else and is weighed against requirements in the prose.
_CPU_PROSE = re.compile(
    r"(?:run\w*|train\w*|inference|sampl\w+|work\w*|test\w*|demo|use\w*|support\w*|evaluat\w+|available)[^.\n]{0,30}\b(?:on|with|for|in) "
    r"(?:a |the |your )?cpus?\b|\bfor cpu\b|cpu[- ]only|without (?:a |an |any )?(?:\w+ )?gpu|no gpu\b|"
    r"\b(?:cpu|gpu)s? (?:or|and) (?:the |a )?(?:cpu|gpu|tpu)s?|(?:cpu/gpu|gpu/cpu)(?! (?:profil|memory|util|offload|usage))|cpu (?:mode|version|inference|support|training|image)|"
    # the GPU itself is optional, not memory saving or the use of several
    r"\boptional(?:ly)?\W{1,4}(?:(?:an?|the|for|on|with|use|using|to|run|set ?up|install\w*|enabl\w+|add\w*|nvidia|cuda)[ -]){0,5}"
    r"gpus?\b(?![ -](?:memory|ram|usage|util\w*|poor))|\bgpus?\b(?![ -](?:memory|ram|usage|util\w*|poor))[^.\n]{0,30}\boptional|"
    r"\bif (?:a )?gpus? (?:is|are) available|"
    r"\bif you (?:have|want|use)(?! (?:only |a )?(?:limited|multiple|several|more|less|fewer|enough|not))[^.\n]{0,30}\bgpu",
    re.IGNORECASE,
)
_NEEDS = re.compile(
    r"(?<!not )(?:require[sd]?|requirements?:|need(?:s|ed)?|must have|at least|minimum|high-end|prerequisites?)"
    r"(?:(?!depending|different|optional)[^.\n|<]){0,60}"
    r"\b(?:gpus?|cuda|nvidia(?= (?:gpu|graphics|video|card|driver|hardware|rtx|geforce|tesla))|vram)\b(?! memory| ram| usage| utili)"
    r"(?![^.\n]{0,40}\b(?:for (?:the )?(?:best|better|optimal|faster|maximum)|if you|to speed|optional))|"
    r"(?<!no )\b(?:gpus?|cuda|vram)\b(?! memory| ram| usage| utili)[^.\n]{0,40}\b(?:is|are) (?:\w+ )?(?:required|needed|necessary|mandatory)",
    re.IGNORECASE,
)
#: CUDA packages in an install line, for users with a GPU; a program that selects its device runs without one.
_CUDA_INSTALL = re.compile(r"pytorch-cuda|cudatoolkit", re.IGNORECASE)
#: The authors' hardware: a hint, not a requirement.
_HARDWARE = re.compile(
    r"tested (?:on|with)[^.\n]{0,60}\b(?:gpus?|cuda|nvidia|[AVH]\d00|rtx|t4)\b|whl/cu\d|"
    r"\b\d+\s*x?\s*(?:nvidia |tesla )?(?:[AVH]\d00|RTX|GPUs)\b",
    re.IGNORECASE,
)
#: The program offers the CPU as an alternative.
_CHOOSES_CPU = re.compile(
    r"is_available\(\)\s*else\s*\(?\s*(?:torch\.device\(\s*)?[\"']cpu|else\s+[\"']cpu[\"']|"
    r"[\"']--device[\"'][^\n]*(?:\n[^\n]*){0,4}?\bcpu\b|[\"']--(?:no[-_]cuda|cpu|use[-_]cpu|force[-_]cpu|gpu[-_]ids?)[\"']|"
    r"accelerator\s*=\s*[\"'](?:auto|cpu)|\bauto_select_device\("
)
#: A module of the program selects a GPU if available, else the CPU.
_PICKS = re.compile(r"is_available\(\)\s*else\s*\(?\s*(?:torch\.device\(\s*)?[\"']cpu")
_ONE_OF_TWO = re.compile(r"[\"']cuda(?::\d)?[\"']\)?\s*if\b[^\n]*is_available\(\)")
#: accelerate selects the device unless told otherwise.
_ACCELERATE = re.compile(r"\bAccelerator\((?![^)\n]{0,400}mixed_precision)")
#: Lightning selects the device by this setting.
_AUTO = re.compile(r"accelerator:\s*[\"']?auto\b")
#: The program reports that it continues without a GPU.
_GOES_ON = re.compile(
    r"fall(?:ing|s)? ?back to (?:the )?cpu|(?:running|run|using) (?:on )?(?:the )?cpu (?:instead|mode)",
    re.IGNORECASE,
)
#: `--device` of a training program with CUDA as default: it selects a GPU, rather than offering the CPU.
_TRAINS_ON_CUDA = re.compile(
    r"[\"']--device[\"'],[^\n]*\n?[^\n]*default\s*=\s*[\"']cuda[\"'](?!\s*if)(?=[\s\S]*(?:optimizer|train_one_epoch|\.backward\(|DataLoader\())"
)
#: Rows of tables, and lines about a hosted demo, which say nothing about the required machine.
_SIDE_LINE = re.compile(
    r"^[ \t]*(?:\||<t[hdr]\b)[^\n]*|^[^\n]*\b(?:colab|hugging ?face space|web demo)\b[^\n]*",
    re.IGNORECASE | re.MULTILINE,
)
#: Statements for users with a GPU, such as "If you have one, you will need CUDA".
_CONDITION = re.compile(r"\bif you (?:have|own)\b[^.\n]{0,60}\bgpus?\b[^\n]*", re.IGNORECASE)
#: A file that installs or builds for a machine without an NVIDIA GPU: `requirements_cpu.txt`, `docker/cpu/Dockerfile`,
#: `env_macos.yaml`.
_CPU_FILE = re.compile(r"(?:^|[/._-])(?:cpu(?:[-_]only)?|mac(?:os)?|osx|darwin)(?:[/._-]|$)", re.IGNORECASE)
#: Pseudo-package for the CUDA driver that a pixi.toml requires of the machine.
CUDA_DRIVER = "cuda-driver"
#: Distributions that work on NVIDIA GPUs only, or are in practice not used on a CPU.
_GPU_PACKAGES = {
    "flash-attn", "bitsandbytes", "xformers", "deepspeed", "apex", "vllm", "tensorrt", "nvidia-dali-cuda110", "cupy-cuda11x",
    "cupy-cuda12x", "onnxruntime-gpu", "tensorflow-gpu", "pycuda", "tiny-cuda-nn", "tinycudann", "nvdiffrast", "gsplat",
    "faiss-gpu", "paddlepaddle-gpu", "spconv-cu118", "spconv-cu120", "mamba-ssm", "causal-conv1d", "auto-gptq", "autoawq", "minkowskiengine",
    "transformer-engine", "liger-kernel", "unsloth", "pynvml", "nvidia-ml-py", "triton", "cudf-cu12", "megatron-core", "nemo-toolkit",
    CUDA_DRIVER,
}  # fmt: skip
_WEAK_PACKAGES = {
    "cudatoolkit",
    "pytorch-cuda",
    "pynvml",
    "nvidia-ml-py",
    "triton",
    "bitsandbytes",
    "xformers",
    "deepspeed",
    "onnxruntime-gpu",
    "nemo-toolkit",
}

#: Simulators that run on NVIDIA GPUs only. Most are in no index, so only imports show them.
_ON_GPU_ALONE = re.compile(
    r"^[ \t]*(?:import|from)[ \t]+(?:isaacgym|isaacsim|isaaclab|omni\.isaac)\b", re.MULTILINE
)
_COMMENT = re.compile(r"^[ \t]*#.*$", re.MULTILINE)
#: Distributions that only monitor GPUs.
_MONITORS = {"pynvml", "nvidia-ml-py"}


def read_gpu(
    *,
    service: tuple[str, bool] | None,
    other_services: Iterable[tuple[str, bool]],
    cpu_variant: str | None,
    devcontainers: Sequence[tuple[str, bool]],
    base_cuda: tuple[str, str] | None,
    entry: tuple[str, str] | None,
    launcher: str | None,
    sources: Sequence[tuple[str, str]],
    documents: Sequence[tuple[str, str]],
    configs: Sequence[tuple[str, str]],
    packages: frozenset[str],
    extras: frozenset[str],
    files: Sequence[str],
    uses_framework: bool,
    places_itself: bool,
    modules: Sequence[tuple[str, str]] = (),
    either_way: str | None = None,
) -> tuple[Gpu, str]:
    """Return the need for a GPU, and the evidence as text.

    Args:
        service: name of the service to debug, and whether it requests a GPU.
        other_services: the same for the other services that run this repository.
        cpu_variant: a compose file for the same program without a GPU, None if missing.
        devcontainers: path, and whether it requests a GPU.
        base_cuda: (file, image) of a Dockerfile based on a CUDA image.
        entry: (path, text) of the program.
        launcher: launcher of the program.
        sources: (path, text) of Python files, those near the program first.
        documents: (path, text) of README files.
        configs: (path, text) of configuration files.
        packages: distribution names.
        extras: names of optional dependency groups.
        files: paths of dependency files, Dockerfiles and compose files.
        uses_framework: whether a framework can use a GPU.
        places_itself: whether a framework uses a GPU by default (JAX, TensorFlow, Lightning and similar).
        modules: (path, text) of the program and of the repository's modules that it imports.
        either_way: a service with a GPU in one compose file and without in another, None if missing.
    """
    others = list(other_services)
    if service is not None:
        asks = service[1] or (service[0], True) in others
        if not asks and not uses_framework and not packages & _GPU_PACKAGES:
            return "none", f"{service[0]} has nothing that computes on a GPU"
        if service[1] and cpu_variant is not None:
            return "optional", f"compose service {service[0]} asks for a GPU, {cpu_variant} is for a CPU"
        if service[1]:
            return "required", f"compose service {service[0]} asks for a GPU"
        asking = next((name for name, gpu in others if gpu), None)
        if asking == service[0]:
            return "optional", f"one compose file gives {asking} a GPU, another one does not"
        if asking is not None:
            return "optional", f"compose service {asking} asks for a GPU, {service[0]} does not"
    elif either_way is not None:
        return "optional", f"one compose file gives {either_way} a GPU, another one does not"
    with_gpu = [path for path, gpu in devcontainers if gpu]
    if with_gpu and len(with_gpu) < len(devcontainers):
        return "optional", f"{with_gpu[0]} asks for a GPU, another dev container does not"
    texts = [*([entry] if entry else []), *sources]
    simulator = _first(_ON_GPU_ALONE, [each for each in texts if not _is_another_program(each, entry)])
    if simulator is not None and service is None:
        return "required", simulator
    statements = [(path, _CONDITION.sub("", _SIDE_LINE.sub("", text))) for path, text in documents]
    prose = _first(_CPU_PROSE, statements)
    cpu = (
        _first(_ON_CPU, documents)
        or _cpu_extra(extras)
        or next((path for path in files if _CPU_FILE.search(path)), None)
        or _first(re.compile(r"accelerator:\s*[\"']?cpu|device:\s*[\"']?cpu"), configs)
    )
    if entry is not None and _INSISTS.search(entry[1]):
        return "required", f"{entry[0]} stops without a GPU"
    touched = (
        _first(_TOUCHES, texts)
        or _first(_TOUCHES, documents)
        or _first(re.compile(r"cuda|\bgpus?\b", re.IGNORECASE), configs)
    )
    may_use = uses_framework or any(gpu for _, gpu in others)
    if not may_use and not with_gpu and base_cuda is None and not packages & _GPU_PACKAGES:
        return "none", "nothing here computes on a GPU"
    if not touched and not packages & (_GPU_PACKAGES - _WEAK_PACKAGES) and not with_gpu and base_cuda is None:
        if places_itself:
            return "optional", "the framework takes a GPU when there is one"
        return "none", "nothing here names a GPU"
    if cpu is not None:
        return "optional", cpu
    needs = _first(_NEEDS, statements) or _first(_CUDA_INSTALL, statements)
    if prose is not None and needs is None:
        return "optional", prose
    return _without_cpu_evidence(
        entry=entry,
        launcher=launcher,
        modules=modules,
        texts=texts,
        documents=statements,
        configs=configs,
        packages=packages,
        with_gpu=with_gpu,
        base_cuda=base_cuda,
        places_itself=places_itself,
    )


def _without_cpu_evidence(
    *,
    entry: tuple[str, str] | None,
    launcher: str | None,
    modules: Sequence[tuple[str, str]],
    texts: Sequence[tuple[str, str]],
    documents: Sequence[tuple[str, str]],
    configs: Sequence[tuple[str, str]],
    packages: frozenset[str],
    with_gpu: Sequence[str],
    base_cuda: tuple[str, str] | None,
    places_itself: bool,
) -> tuple[Gpu, str]:
    """Decide on a repository in which nothing shows that a CPU is enough."""
    if with_gpu:
        return "required", f"{with_gpu[0]} asks for a GPU"
    strong = sorted(packages & (_GPU_PACKAGES - _WEAK_PACKAGES))
    if strong:
        return "required", f"{strong[0]} works on NVIDIA GPUs only"
    if entry is not None and _NCCL.search(entry[1]) and not re.search(r"gloo", entry[1]):
        return "required", f"{entry[0]} uses NCCL"
    if entry is not None and (goes_on := _first(_GOES_ON, [entry])):
        return "optional", goes_on
    near = _program(entry, texts)
    falls_back = _first(_FALLBACK, [(path, _TRAINS_ON_CUDA.sub("", text)) for path, text in near])
    needs = _first(_NEEDS, documents)
    selected = _picks_itself(near, modules, configs if places_itself else ())
    if base_cuda is not None and (needs or not (falls_back or selected)):
        return "required", f"{base_cuda[0]}: FROM {base_cuda[1]}"
    if needs:
        return "required", needs
    compiles = _first(_COMPILES, [each for each in texts if "cpp_extension" in each[1]])
    if compiles:
        return "required", f"{compiles.rpartition(':')[0]}: compiles CUDA code when it is imported"
    chooses = _first(_CHOOSES_CPU, near) or selected or _first(_ACCELERATE, near)
    if chooses:
        return "optional", chooses
    installs = _first(_CUDA_INSTALL, documents)
    if installs:
        return "required", installs
    ranks = _first(_RANK_ON_CUDA, near)
    if ranks and not any(_NAMES_CPU.search(text) for _, text in near):
        return "required", f"{ranks.partition(':')[0]}: each process takes the GPU of its rank"
    weak = sorted(packages & (_WEAK_PACKAGES - _MONITORS))
    if weak:
        return "required", f"installs {weak[0]} and mentions no CPU"
    by = registry.named(launcher or "")
    if by is not None and (by.gpu == "always" or (by.gpu == "no fallback" and not falls_back)):
        return "required", f"started by {launcher} and mentions no CPU"
    hardware = _first(_HARDWARE, documents)
    if hardware:
        return "required", hardware
    hard = _first(_HARD_CODE, _code(near)) or (None if places_itself else _first(_HARD_CODE, _code(texts)))
    if hard and not falls_back:
        return "required", hard
    return "optional", falls_back or _first(
        _FALLBACK, texts
    ) or "a framework that uses a GPU when there is one"


def _picks_itself(
    near: Sequence[tuple[str, str]], modules: Sequence[tuple[str, str]], configs: Sequence[tuple[str, str]]
) -> str | None:
    """Return the place where the device is selected: a module that the program imports, or a setting of its framework.

    None if the program or one of these modules hard-codes a GPU.
    """
    read = [(path, _ONE_OF_TWO.sub("", text)) for path, text in (*near, *modules)]
    if _first(_HARD_CODE, _code(read)):
        return None
    return _first(_PICKS, modules) or _first(_AUTO, configs)


def _program(entry: tuple[str, str] | None, texts: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the sources that select the device: the program, with its package if it is only the package's entry.

    Without a program, as in a library, all sources count.
    """
    if entry is None:
        return list(texts)
    home = parent(entry[0])
    is_entry = entry[0].endswith("/__main__.py") or (
        any(path == f"{home}/__init__.py" for path, _ in texts) and not _TOUCHES.search(entry[1])
    )
    return [item for item in texts if item[0] == entry[0] or (is_entry and parent(item[0]) == home)]


def _is_another_program(item: tuple[str, str], entry: tuple[str, str] | None) -> bool:
    """Return whether a file is a program of its own, with requirements of its own."""
    return entry is not None and item[0] != entry[0] and "__main__" in item[1]


def _code(texts: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the texts without comment lines, which may contain unused code."""
    return [(path, _COMMENT.sub("", text)) for path, text in texts]


def _first(pattern: re.Pattern[str], texts: Iterable[tuple[str, str]]) -> str | None:
    for path, text in texts:
        if match := pattern.search(text):
            line = text.count("\n", 0, match.start()) + 1
            return f"{path}:{line}: {' '.join(match[0].split())[:80]}"
    return None


def _cpu_extra(extras: frozenset[str]) -> str | None:
    return "an extra named cpu" if "cpu" in {extra.lower() for extra in extras} else None
