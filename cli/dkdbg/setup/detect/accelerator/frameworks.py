"""Detect the machine learning frameworks that a repository depends on or imports."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dkdbg.setup.detect.python.imports import distributions

if TYPE_CHECKING:
    from collections.abc import Collection

#: Distribution or module -> name of its framework.
_FRAMEWORKS = {
    "torch": "torch", "pytorch": "torch", "torchvision": "torch", "torchaudio": "torch", "lightning": "lightning", "pytorch-lightning": "lightning",
    "tensorflow": "tensorflow", "tensorflow-gpu": "tensorflow", "tensorflow-cpu": "tensorflow", "keras": "tensorflow",
    "jax": "jax", "jaxlib": "jax", "flax": "jax", "dm-haiku": "jax", "equinox": "jax", "paddlepaddle": "paddle", "paddlepaddle-gpu": "paddle",
    "mxnet": "mxnet", "cupy": "cupy", "ray": "ray", "transformers": "transformers", "diffusers": "diffusers", "accelerate": "accelerate",
    "deepspeed": "deepspeed", "vllm": "vllm", "openai-whisper": "whisper", "faster-whisper": "whisper", "ultralytics": "ultralytics",
    "timm": "timm", "hydra-core": "hydra", "mlflow": "mlflow", "fastapi": "fastapi", "flask": "flask", "django": "django",
    "streamlit": "streamlit", "gradio": "gradio", "celery": "celery", "aiohttp": "aiohttp", "sanic": "sanic", "starlette": "starlette",
    "tornado": "tornado", "dash": "dash", "scikit-learn": "sklearn", "xgboost": "xgboost", "lightgbm": "lightgbm", "rclpy": "ros", "rospy": "ros",
    "stable-baselines3": "sb3", "mpi4py": "mpi", "horovod": "horovod", "sentence-transformers": "sentence-transformers", "peft": "transformers",
    "onnxruntime": "onnxruntime", "onnxruntime-gpu": "onnxruntime", "bentoml": "bentoml", "dask": "dask", "numba": "numba", "spacy": "spacy",
    "mmcv": "mmcv", "mmengine": "mmcv", "detectron2": "detectron2", "fairseq": "fairseq", "easyocr": "torch", "trl": "transformers",
}  # fmt: skip
#: Frameworks that use a GPU if the machine has one.
_ACCELERATED = {
    "torch", "lightning", "tensorflow", "jax", "paddle", "mxnet", "cupy", "transformers", "diffusers", "accelerate", "deepspeed",
    "vllm", "whisper", "ultralytics", "timm", "sb3", "horovod", "mmcv", "detectron2", "fairseq", "sentence-transformers",
}  # fmt: skip
#: Frameworks that put arrays on a GPU by default.
_PLACING = {
    "jax",
    "tensorflow",
    "paddle",
    "lightning",
    "accelerate",
    "ultralytics",
    "sb3",
    "sentence-transformers",
}
_ON_TORCH = {
    "lightning",
    "diffusers",
    "accelerate",
    "deepspeed",
    "vllm",
    "ultralytics",
    "timm",
    "sb3",
    "mmcv",
    "detectron2",
    "fairseq",
    "sentence-transformers",
}


def frameworks_of(packages: Collection[str], imported: tuple[str, ...]) -> tuple[str, ...]:
    """Return the frameworks in order of appearance, torch first. `packages`: distributions; `imported`: modules."""
    names = [*distributions(imported), *imported, *sorted(packages)]
    found = dict.fromkeys(_FRAMEWORKS[name] for name in names if name in _FRAMEWORKS)
    if "torch" not in found and any(name in _ON_TORCH for name in found):
        found["torch"] = None
    return tuple(sorted(found, key=lambda name: name != "torch"))


def uses_accelerator(frameworks: Collection[str]) -> bool:
    """Return whether one of the frameworks uses a GPU if the machine has one."""
    return not _ACCELERATED.isdisjoint(frameworks)


def places_itself(frameworks: Collection[str]) -> bool:
    """Return whether one of the frameworks puts arrays on a GPU by default."""
    return not _PLACING.isdisjoint(frameworks)
