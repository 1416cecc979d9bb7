"""Which image the debug service runs, and what our Dockerfile installs when there is none."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from dkdbg.model.plan import Decision, ImagePlan, Install

if TYPE_CHECKING:
    from dkdbg.model.facts import RepoFacts

#: Where our Dockerfile puts the environment: outside the workspace, so that the bind mount cannot hide it.
VENV = "/opt/venv"
#: Packages that compile CUDA code while they are installed; they need nvcc in the image.
CUDA_BUILDS = frozenset(
    {"apex", "causal-conv1d", "deepspeed", "detectron2", "flash-attn", "mamba-ssm", "nvdiffrast", "pytorch3d", "tinycudann", "xformers"}
)  # fmt: skip
#: flash-attn and its like import torch while they build.
NO_ISOLATION = frozenset({"apex", "causal-conv1d", "detectron2", "flash-attn", "mamba-ssm"})
DEVEL_BASE = "nvidia/cuda:12.6.3-cudnn-devel-ubuntu22.04"


def plan_image(facts: RepoFacts) -> tuple[ImagePlan, tuple[Decision, ...]]:
    """The image for a repository without a compose service of its own."""
    existing = usable_dockerfile(facts)
    if existing:
        return ImagePlan(dockerfile=existing, base=_base_of(facts, existing)), (
            Decision(what=f"image from {existing}", why="the repository has it, and it stays as it is"),
        )
    base, why = choose_base(facts)
    installs = plan_installs(facts)
    decisions = [Decision(what=f"Dockerfile on {base}", why=why)]
    if installs:
        files = ", ".join(facts.dependency_files) or "what the README and the imports name"
        decisions.append(Decision(what=f"install with {_installer(facts)}", why=f"dependencies come from {files}"))
    return (
        ImagePlan(
            dockerfile="Dockerfile", ours=True, base=base, apt=_apt(facts, base), installs=installs,
            index=torch_index(facts), comment=f"Python {facts.python.version}: {facts.python.source}",
        ),
        tuple(decisions),
    )  # fmt: skip


def usable_dockerfile(facts: RepoFacts) -> str | None:
    """The Dockerfile in the root (or in docker/) that builds this repository, the plain name first."""
    places = [d.path for d in facts.dockerfiles if PurePosixPath(d.path).parent.as_posix() in {".", "docker"}]
    named = [path for path in places if PurePosixPath(path).name.lower() == "dockerfile"]
    return next(iter(named or places), None)


def _base_of(facts: RepoFacts, path: str) -> str:
    return next((d.base for d in facts.dockerfiles if d.path == path), "")


def choose_base(facts: RepoFacts) -> tuple[str, str]:
    """Base image and the reason for it."""
    version = facts.python.version
    if facts.package_manager == "conda":
        return "mambaorg/micromamba:2", "environment.yml is installed by micromamba"
    if _compiles_cuda(facts):
        if facts.torch and facts.torch.version and facts.torch.cuda:
            cudnn = 9 if _version_key(facts.torch.version) >= (2, 4) else 8
            tag = f"{_patch(facts.torch.version)}-cuda{facts.torch.cuda}-cudnn{cudnn}-devel"
            return f"pytorch/pytorch:{tag}", "a dependency compiles CUDA code, so nvcc has to be in the image"
        return DEVEL_BASE, "a dependency compiles CUDA code, so nvcc has to be in the image"
    why = f"Python {version} is what fits ({facts.python.source})"
    return f"python:{version}-slim", why + ("; wheels bring CUDA themselves" if facts.torch else "")


def _compiles_cuda(facts: RepoFacts) -> bool:
    return bool(CUDA_BUILDS & set(facts.requirements)) and facts.gpu == "required"


def _version_key(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version.split("+", maxsplit=1)[0])[:2])


def _patch(version: str) -> str:
    plain = version.split("+", maxsplit=1)[0]
    return plain if plain.count(".") >= 2 else f"{plain}.0"


def _apt(facts: RepoFacts, base: str) -> tuple[str, ...]:
    own_python = ("python3", "python3-pip", "python3-venv") if base == DEVEL_BASE else ()
    return tuple(dict.fromkeys((*own_python, *facts.apt, *facts.build_apt)))


def torch_index(facts: RepoFacts) -> str:
    """Extra package index of the torch build that the repository names, empty when the default one is right."""
    torch = facts.torch
    if torch is None or not torch.cuda or "index" not in torch.source.lower() or "default" in torch.source.lower():
        return ""
    if torch.cuda == "cpu":
        return "https://download.pytorch.org/whl/cpu"
    return f"https://download.pytorch.org/whl/cu{torch.cuda.replace('.', '')}"


def _installer(facts: RepoFacts) -> str:
    return {"none": "pip", "setuptools": "pip", "docker": "pip"}.get(facts.package_manager, facts.package_manager)


def plan_installs(facts: RepoFacts) -> tuple[Install, ...]:
    """RUN lines that bring the dependencies, the slowest and most stable first."""
    files = facts.dependency_files
    extra = f" --extra-index-url {torch_index(facts)}" if torch_index(facts) else ""
    if facts.package_manager == "uv" and "uv.lock" in files:
        return (
            Install(
                run="pip install uv && UV_PROJECT_ENVIRONMENT=$VIRTUAL_ENV uv sync --frozen --no-install-project --inexact",
                copy=tuple(f for f in files if f in {"pyproject.toml", "uv.lock"}),
            ),
        )
    if facts.package_manager == "poetry":
        lock = tuple(f for f in files if f in {"pyproject.toml", "poetry.lock"})
        return (Install(run="pip install poetry && poetry install --no-root --no-interaction", copy=lock),)
    if facts.package_manager == "conda" and files:
        environment = next((f for f in files if f.endswith((".yml", ".yaml"))), files[0])
        return (Install(run=f"micromamba install -y -n base -f {environment} && micromamba clean -a -y", copy=(environment,)),)
    requirement_files = tuple(f for f in files if f.endswith((".txt", ".in")))
    if requirement_files:
        flags = " ".join(f"-r {name}" for name in requirement_files)
        return (Install(run=f"pip install{extra} {flags}", copy=requirement_files),)
    return _from_names(facts, extra)


def _from_names(facts: RepoFacts, extra: str) -> tuple[Install, ...]:
    plain = [name for name in facts.requirements if _bare(name) not in NO_ISOLATION]
    late = [name for name in facts.requirements if _bare(name) in NO_ISOLATION]
    quoted = " ".join(f"'{name}'" if re.search(r"[^\w.-]", name) else name for name in plain)
    installs = [Install(run=f"pip install{extra} {quoted}")] if plain else []
    if late:
        installs.append(Install(run=f"pip install --no-build-isolation {' '.join(late)}"))
    return tuple(installs)


def _bare(requirement: str) -> str:
    return re.split(r"[\s\[<>=!~;@]", requirement, maxsplit=1)[0].lower()
