"""Determine the versions of Python, torch and CUDA in a base image from its name."""

from __future__ import annotations

import re
from dataclasses import dataclass

# Tag of nvcr.io/nvidia/pytorch -> torch, CUDA (NVIDIA's Frameworks Support Matrix). This torch is NVIDIA's own build.
_NGC_PYTORCH = {
    "20.12": ("1.8", "11.1"), "21.02": ("1.8", "11.2"), "21.03": ("1.9", "11.2"), "21.04": ("1.9", "11.3"),
    "21.05": ("1.9", "11.3"), "21.06": ("1.9", "11.3"), "21.07": ("1.10", "11.4"), "21.08": ("1.10", "11.4"),
    "21.09": ("1.10", "11.4"), "21.10": ("1.10", "11.4"), "21.11": ("1.11", "11.5"), "21.12": ("1.11", "11.5"),
    "22.01": ("1.11", "11.6"), "22.02": ("1.11", "11.6"), "22.03": ("1.12", "11.6"), "22.04": ("1.12", "11.6"),
    "22.05": ("1.12", "11.7"), "22.06": ("1.13", "11.7"), "22.07": ("1.13", "11.7"), "22.08": ("1.13", "11.7"),
    "22.09": ("1.13", "11.8"), "22.10": ("1.13", "11.8"), "22.11": ("1.13", "11.8"), "22.12": ("1.14", "11.8"),
    "23.01": ("1.14", "12.0"), "23.02": ("1.14", "12.0"), "23.03": ("2.0", "12.1"), "23.04": ("2.1", "12.1"),
    "23.05": ("2.0", "12.1"), "23.06": ("2.1", "12.1"), "23.07": ("2.1", "12.1"), "23.08": ("2.1", "12.2"),
    "23.09": ("2.1", "12.2"), "23.10": ("2.1", "12.2"), "23.11": ("2.2", "12.3"), "23.12": ("2.2", "12.3"),
    "24.01": ("2.2", "12.3"), "24.02": ("2.3", "12.3"), "24.03": ("2.3", "12.4"), "24.04": ("2.3", "12.4"),
    "24.05": ("2.4", "12.4"), "24.06": ("2.4", "12.5"), "24.07": ("2.4", "12.5"), "24.08": ("2.5", "12.6"),
    "24.09": ("2.5", "12.6"), "24.10": ("2.5", "12.6"), "24.11": ("2.6", "12.6"), "24.12": ("2.6", "12.6"),
    "25.01": ("2.6", "12.8"), "25.02": ("2.7", "12.8"), "25.03": ("2.7", "12.8"), "25.04": ("2.7", "12.9"),
    "25.05": ("2.8", "12.9"), "25.06": ("2.8", "12.9"), "25.08": ("2.8", "13.0"), "25.09": ("2.9", "13.0"),
    "25.10": ("2.9", "13.0"), "25.11": ("2.10", "13.0"), "25.12": ("2.10", "13.1"),
}  # fmt: skip
#: (Part of an image reference, Python version of that distribution's python3).
_DISTRIBUTIONS = (
    ("ubuntu:16.04", "3.5"), ("ubuntu16.04", "3.5"), ("xenial", "3.5"), ("ubuntu:18.04", "3.6"), ("ubuntu18.04", "3.6"), ("bionic", "3.6"), ("ubuntu:20.04", "3.8"), ("ubuntu20.04", "3.8"),
    ("focal", "3.8"), ("ubuntu:22.04", "3.10"), ("ubuntu22.04", "3.10"), ("jammy", "3.10"), ("ubuntu:24.04", "3.12"),
    ("ubuntu24.04", "3.12"), ("noble", "3.12"), ("debian:9", "3.5"), ("stretch", "3.5"), ("debian:10", "3.7"),
    ("buster", "3.7"), ("debian:11", "3.9"), ("bullseye", "3.9"), ("debian:12", "3.11"),
    ("bookworm", "3.11"), ("debian:13", "3.13"), ("trixie", "3.13"),
    ("ros:noetic", "3.8"), ("ros:foxy", "3.8"), ("ros:humble", "3.10"), ("ros:iron", "3.10"), ("ros:jazzy", "3.12"),
)  # fmt: skip
_PYTHON_TAG = re.compile(r"python[:/-]?v?(?:\d+-)?(3\.\d+)|py(?:thon)?_?(3\.\d+)|[-_]py(3)(\d{1,2})(?![\d.])")
_PYTHON_LIKE = re.compile(
    r"python|pytorch|tensorflow|jax|conda|mamba|nvcr\.io/nvidia|nvidia/cuda|rocm|uv:|jupyter|huggingface|rayproject|/vllm|ros:"
)


@dataclass(frozen=True, kw_only=True)
class ImageFact:
    """The versions that an image reference shows.

    Attributes:
        python: Python version such as `3.11`; None if unknown.
        system_python: whether `python` is the distribution's own python3, which a build may replace.
        torch: version of torch in the image; None without torch.
        cuda: CUDA version such as `12.1`; None without CUDA.
        is_python: whether the image is made for Python programs.
    """

    python: str | None = None
    system_python: bool = False
    torch: str | None = None
    cuda: str | None = None
    is_python: bool = False


def read_image(reference: str) -> ImageFact:
    """Return the facts of an image reference such as `pytorch/pytorch:2.3.0-cuda12.1-cudnn8-runtime`."""
    name = reference.lower().split("@", 1)[0]
    torch, cuda = _torch_and_cuda(name)
    python, is_system = _python(name, torch)
    return ImageFact(
        python=python,
        system_python=is_system,
        torch=torch,
        cuda=cuda,
        is_python=bool(_PYTHON_LIKE.search(name)),
    )


def _torch_and_cuda(name: str) -> tuple[str | None, str | None]:
    if match := re.search(r"nvcr\.io/nvidia/(pytorch|tensorflow|jax|cuda):([\d.]+)", name):
        if match[1] == "pytorch":
            return _NGC_PYTORCH.get(match[2], (None, None))
        return None, ".".join(match[2].split(".")[:2]) if match[1] == "cuda" else None
    cuda = None
    if match := re.search(r"nvidia/cuda:(\d+\.\d+)", name) or re.search(r"cuda-?(\d+\.\d+)", name):
        cuda = match[1]
    elif match := re.search(r"cu(?:da)?(\d{2})(\d)(?!\d)", name):
        cuda = f"{match[1]}.{match[2]}"
    torch = None
    if (match := re.search(r"pytorch/pytorch:v?(\d+\.\d+(?:\.\d+)?)", name)) or (
        match := re.search(r"(?:torch|pytorch)[-_:](?:release_)?v?(\d+\.\d+(?:\.\d+)?)", name)
    ):
        torch = match[1]
    return torch, cuda


def _python(name: str, torch: str | None) -> tuple[str | None, bool]:
    if match := _PYTHON_TAG.search(name):
        return match[1] or match[2] or f"{match[3]}.{match[4]}", False
    if match := re.search(r"nvcr\.io/nvidia/(?:pytorch|tensorflow|jax):(\d\d\.\d\d)", name):
        tag = match[1]
        return (
            "3.6" if tag < "20.12" else "3.8" if tag < "23.01" else "3.10" if tag < "24.11" else "3.12"
        ), False
    if "pytorch/pytorch" in name and torch:
        # As `python --version` prints in these images; up to torch 2.9 it is conda's Python.
        major, minor = (int(part) for part in torch.split(".")[:2])
        if major == 1:
            return ("3.10" if minor >= 13 else "3.8" if minor == 11 else "3.7"), False
        return ("3.10" if minor < 4 else "3.11" if minor < 10 else "3.12"), False
    if match := re.search(r"tensorflow/tensorflow:2\.(\d{1,4})", name):
        minor = int(match[1])
        return ("3.6" if minor < 5 else "3.8" if minor < 13 else "3.11"), False
    if match := re.search(r"tensorflow/tensorflow:1\.(\d{1,4})[\w.-]*-py3", name):
        return "3.5" if int(match[1]) < 14 else "3.6", False
    for part, version in _DISTRIBUTIONS:
        if part in name:
            return version, True
    return None, False
