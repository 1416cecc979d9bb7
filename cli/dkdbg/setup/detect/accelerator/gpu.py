"""Decide whether the program needs a GPU, can use one or uses none; give the evidence, and whether it is in doubt.

Code and configuration decide, not the prose of a README. If code leaves a doubt, `init` asks the user.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dkdbg.launchers import registry
from dkdbg.setup.detect.files import parent

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dkdbg.core.facts import Gpu

_INSISTS = re.compile(
    r"assert\s+(?:torch|th)\.cuda\.is_available\(\)|"
    r"if\s+not\s+(?:torch|th)\.cuda\.is_available\(\)\s*:\s*\n\s*(?:raise|sys\.exit|exit|print\([^\n]*\)\s*\n\s*(?:sys\.)?exit)|"
    # every new tensor is then on the GPU, whatever is checked elsewhere; ignored directly below an `if`
    r"^(?![ \t]*(?:(?:el)?if\b(?!\s+__name__)|else\b))[^\n]*\n[ \t]*torch\.set_default_tensor_type\(\s*(?:[\"']torch|torch)\.cuda\.",
    re.MULTILINE,
)
#: A `--device` option in argparse or click; its default if that is a GPU.
_DEVICE, _OF_CUDA = r"[\"']--device[\"']", r"[^()]{0,200}?\bdefault\s*=\s*[\"']cuda[^\"'\n]*[\"']"
_FALLBACK = re.compile(
    r"(?:cuda|th|accelerator)\.is_available\(\)|current_accelerator\(|[\"']--(?:no[-_]cuda|cpu|use[-_]cpu|force[-_]cpu|use[-_]gpu|gpu)[\"']|no_cuda|"
    r"device_map\s*=\s*[\"']auto|accelerator\s*[=:]\s*[\"']?(?:auto|cpu)|list_physical_devices|jax\.devices|\bdevice_count\(\)|"
    rf"{_DEVICE}(?!{_OF_CUDA})|accelerator\.device|is_cuda_available|(?:num_)?gpus?(?!_per_actor)(?:_per_\w+)?\s*(?:=|:\s*int\s*=)\s*0\b"
)
_TOUCHES = re.compile(
    r"cuda|\bgpus?\b|torch\.accelerator|\.to\(\s*[\"']?(?:self\.)?device|nvidia|accelerator\.device|device_map|\bnvcc\b|tf\.config.*GPU",
    re.IGNORECASE,
)
_HARD_CODE = re.compile(
    r"\.cuda\(\)|\.to\(\s*[\"']cuda|device\s*=\s*[\"']cuda(?::\d)?[\"']|torch\.device\(\s*[\"']cuda[\"'](?:,\s*\w+)?\s*\)|"
    rf"{_DEVICE}{_OF_CUDA}"
)
#: Code that offers the CPU as an alternative.
_CHOOSES_CPU = re.compile(
    r"is_available\(\)\s*else\s*\(?\s*(?:torch\.device\(\s*)?[\"']cpu|else\s+[\"']cpu[\"']|"
    r"[\"']--device[\"'][^\n]*(?:\n[^\n]*){0,4}?\bcpu\b|[\"']--(?:no[-_]cuda|cpu|use[-_]cpu|force[-_]cpu|gpu[-_]ids?)[\"']|"
    r"accelerator\s*=\s*[\"'](?:auto|cpu)|\bauto_select_device\(|"
    r"is_available\(\)\s*:\s*\n(?=[^\n]*cuda)[^\n]*\n\s*else\s*:\s*\n[^\n]*[\"']cpu[\"']"
)
#: Settings that choose the CPU; words in configuration files that name a GPU.
_CPU = re.compile(r"accelerator:\s*[\"']?cpu|device:\s*[\"']?cpu")
_NAMES = re.compile(r"cuda|\bgpus?\b", re.IGNORECASE)
#: Name under which a pixi.toml requires the machine's CUDA driver; it is not a package.
CUDA_DRIVER = "cuda-driver"
#: Distributions that run only on NVIDIA GPUs, or that are hardly ever used on a CPU.
_GPU_PACKAGES = {
    "flash-attn", "bitsandbytes", "xformers", "deepspeed", "apex", "vllm", "tensorrt", "nvidia-dali-cuda110", "cupy-cuda11x",
    "cupy-cuda12x", "onnxruntime-gpu", "tensorflow-gpu", "pycuda", "tiny-cuda-nn", "tinycudann", "nvdiffrast", "gsplat",
    "faiss-gpu", "paddlepaddle-gpu", "spconv-cu118", "spconv-cu120", "mamba-ssm", "causal-conv1d", "auto-gptq", "autoawq", "minkowskiengine",
    "transformer-engine", "liger-kernel", "unsloth", "triton", "cudf-cu12", "megatron-core", "nemo-toolkit",
    CUDA_DRIVER,
}  # fmt: skip
_WEAK_PACKAGES = {
    "cudatoolkit",
    "pytorch-cuda",
    "triton",
    "bitsandbytes",
    "xformers",
    "deepspeed",
    "onnxruntime-gpu",
    "nemo-toolkit",
}


@dataclass(frozen=True, kw_only=True)
class GpuNeed:
    """The need for a GPU, its evidence as text, and whether other evidence may outweigh that."""

    need: Gpu
    source: str
    in_doubt: bool = False


def read_gpu(
    *,
    service: tuple[str, bool] | None,
    other_services: Iterable[tuple[str, bool]],
    devcontainers: Sequence[tuple[str, bool]],
    base_cuda: tuple[str, str] | None,
    entry: tuple[str, str] | None,
    launcher: str | None,
    sources: Sequence[tuple[str, str]],
    documents: Sequence[tuple[str, str]],
    configs: Sequence[tuple[str, str]],
    packages: frozenset[str],
    extras: frozenset[str],
    uses_framework: bool,
    places_itself: bool,
    modules: Sequence[tuple[str, str]] = (),
) -> GpuNeed:
    """Return the need for a GPU.

    Args:
        service: (name of the service to debug, whether it requests a GPU).
        other_services: the same for the other services that run this repository.
        devcontainers: (path, whether it requests a GPU).
        base_cuda: (Dockerfile, image) if the Dockerfile's base is a CUDA image.
        entry: (path, text) of the program.
        launcher: name of the program that starts it, such as torchrun.
        sources: (path, text) of Python files, those near the program first.
        documents: (path, text) of READMEs, in which only mentions of a GPU count (`_TOUCHES`).
        configs: (path, text) of configuration files.
        packages: names of the required distributions.
        extras: names of optional dependency groups.
        uses_framework: whether the repository uses a framework that can use a GPU.
        places_itself: whether one of its frameworks uses a GPU by default (JAX, TensorFlow, Lightning and similar).
        modules: (path, text) of the program and of the repository's modules that it imports.
    """
    others = list(other_services)
    stated = _of_services(service, others, can=uses_framework or bool(packages & _GPU_PACKAGES))
    if stated is not None:
        return stated
    with_gpu = [path for path, gpu in devcontainers if gpu]
    if with_gpu and len(with_gpu) < len(devcontainers):
        return GpuNeed(
            need="optional", source=f"{with_gpu[0]} asks for a GPU, another dev container does not"
        )
    texts = [*([entry] if entry else []), *sources]
    if entry is not None and _INSISTS.search(entry[1]):
        return GpuNeed(need="required", source=f"{entry[0]} stops without a GPU")
    may_use = uses_framework or any(gpu for _, gpu in others)
    strong = sorted(packages & (_GPU_PACKAGES - _WEAK_PACKAGES))
    if not may_use and not with_gpu and base_cuda is None and not packages & _GPU_PACKAGES:
        return GpuNeed(need="none", source="nothing here computes on a GPU")
    named = _first(_TOUCHES, texts) or _first(_TOUCHES, documents) or _first(_NAMES, configs)
    if not named and not strong and not with_gpu and base_cuda is None:
        if places_itself:
            return GpuNeed(need="optional", source="the framework takes a GPU when there is one")
        return GpuNeed(need="none", source="nothing here names a GPU")
    cpu = ("an extra named cpu" if "cpu" in {extra.lower() for extra in extras} else None) or _first(
        _CPU, configs
    )
    if cpu is not None:
        return GpuNeed(need="optional", source=cpu)
    if with_gpu:
        return GpuNeed(need="required", source=f"{with_gpu[0]} asks for a GPU")
    if strong:
        return GpuNeed(need="required", source=f"{strong[0]} works on NVIDIA GPUs only")
    near = _program(entry, texts)
    falls_back = _first(_FALLBACK, near)
    chooses = _first(_CHOOSES_CPU, near) or _first(_CHOOSES_CPU, modules)
    if base_cuda is not None and not (falls_back or chooses):
        return GpuNeed(need="required", source=f"{base_cuda[0]}: FROM {base_cuda[1]}", in_doubt=True)
    if chooses:
        return GpuNeed(need="optional", source=chooses)
    weak = sorted(packages & _WEAK_PACKAGES)
    by = registry.named(launcher or "")
    hard = _first(_HARD_CODE, near) or (None if places_itself else _first(_HARD_CODE, texts))
    if weak and not falls_back:
        return GpuNeed(need="required", source=f"installs {weak[0]} and mentions no CPU")
    if by is not None and (by.gpu == "always" or (by.gpu == "no fallback" and not falls_back)):
        return GpuNeed(need="required", source=f"started by {launcher} and mentions no CPU")
    if hard and not falls_back:
        return GpuNeed(need="required", source=hard)
    default = "a framework that uses a GPU when there is one"
    source = falls_back or _first(_FALLBACK, texts) or default
    return GpuNeed(need="optional", source=source, in_doubt=bool(weak or hard))


def _of_services(
    service: tuple[str, bool] | None,
    others: Sequence[tuple[str, bool]],
    *,
    can: bool,
) -> GpuNeed | None:
    """Return the need that the compose services show; None if they show none. `can`: a package here can use a GPU."""
    if service is None:
        return None
    name, asks = service
    if not asks and (name, True) not in others and not can:
        return GpuNeed(need="none", source=f"{name} has nothing that computes on a GPU")
    if asks:
        return GpuNeed(need="required", source=f"compose service {name} asks for a GPU")
    asking = next((other for other, gpu in others if gpu), None)
    if asking == name:
        return GpuNeed(need="optional", source=f"one compose file gives {name} a GPU, another one does not")
    if asking is not None:
        return GpuNeed(need="optional", source=f"compose service {asking} asks for a GPU, {name} does not")
    return None


def _program(entry: tuple[str, str] | None, texts: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the sources that may choose the device: the program, and its package if the program only starts that.

    Without a program, as in a library, return all sources.
    """
    if entry is None:
        return list(texts)
    home = parent(entry[0])
    is_entry = entry[0].endswith("/__main__.py") or (
        any(path == f"{home}/__init__.py" for path, _ in texts) and not _TOUCHES.search(entry[1])
    )
    return [item for item in texts if item[0] == entry[0] or (is_entry and parent(item[0]) == home)]


def _first(pattern: re.Pattern[str], texts: Iterable[tuple[str, str]]) -> str | None:
    for path, text in texts:
        if match := pattern.search(text):
            line = text.count("\n", 0, match.start()) + 1
            return f"{path}:{line}: {' '.join(match[0].split())[:80]}"
    return None
