"""Choose the debug service's image, or plan a Dockerfile for it; list the files that the image depends on."""

from __future__ import annotations

import posixpath
import re
import shlex
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from dkdbg.core.facts import PROJECT_FILES, WITH_TORCH
from dkdbg.core.plan import Decision, ImagePlan, Install
from dkdbg.printable import printable
from dkdbg.setup.plan import literal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dkdbg.core.facts import DockerfileFact, RepoFacts, ServiceFact

#: Packages that compile CUDA code during installation, for which the image needs nvcc.
CUDA_BUILDS = frozenset(
    {"apex", "causal-conv1d", "deepspeed", "detectron2", "flash-attn", "mamba-ssm", "nvdiffrast", "pytorch3d", "tinycudann"}
)  # fmt: skip
#: Packages whose build imports torch.
NO_ISOLATION = frozenset({"apex", "causal-conv1d", "detectron2", "flash-attn", "mamba-ssm"})
DEVEL_BASE = "nvidia/cuda:12.6.3-cudnn-devel-ubuntu22.04"
#: Variables by which the user controls whether and where Python writes bytecode.
_OF_BYTECODE = frozenset({"PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX"})


def plan_image(
    facts: RepoFacts, taken: frozenset[str] = frozenset(), apt: tuple[str, ...] = ()
) -> tuple[ImagePlan, tuple[Decision, ...]]:
    """Plan the image for a repository without a compose service to extend.

    Args:
        facts: the repository's facts, without Dockerfiles that cannot be used.
        taken: paths of all Dockerfiles in the repository; the generated one gets another path.
        apt: further Debian packages to install.
    """
    existing = usable_dockerfile(facts)
    if existing:
        base = next((each.base for each in facts.dockerfiles if each.path == existing), "")
        return ImagePlan(dockerfile=existing, base=base), (
            Decision(
                what=f"image from {existing}", why="the repository has it, and dkdbg leaves it unchanged"
            ),
        )
    base, why = choose_base(facts)
    installs = plan_installs(facts)
    lowered = {path.lower() for path in taken}
    names = ("Dockerfile", "dkdbg.Dockerfile", *(f"dkdbg-{number}.Dockerfile" for number in range(2, 100)))
    name = next(each for each in names if each.lower() not in lowered)
    decisions = [Decision(what=f"{name} on {base}", why=why)]
    if installs:
        stated = () if facts.requirements else facts.dependency_files
        files = ", ".join(stated) or "the README and the imports"
        decisions.append(
            Decision(what=f"install with {_installer(facts)}", why=f"dependencies come from {files}")
        )
    needs_project = facts.installs_itself or bool(
        facts.entrypoint and facts.entrypoint.launcher == "console-script"
    )
    needed = _apt(facts, base, apt)
    image = ImagePlan(
        dockerfile=name, is_generated=True, base=base, apt=needed, installs=installs,
        optional_apt=tuple(each for each in facts.readme_apt if each not in needed),
        context=("*",) if needs_project else (), installs_project=needs_project,
        comment=printable(why),
    )  # fmt: skip
    return image, tuple(decisions)


def usable_dockerfile(facts: RepoFacts) -> str | None:
    """Return the Dockerfile in the root or in docker/ that builds this repository, first one called `Dockerfile`.

    A Dockerfile that the user named (--dockerfile) may be in any folder.
    """
    if facts.asked_dockerfile:
        return facts.dockerfile
    places = [d.path for d in facts.dockerfiles if PurePosixPath(d.path).parent.as_posix() in {".", "docker"}]
    named = [path for path in places if PurePosixPath(path).name.lower() == "dockerfile"]
    return facts.dockerfile if facts.dockerfile in places and not named else next(iter(named or places), None)


def choose_base(facts: RepoFacts) -> tuple[str, str]:
    """Return the base image and the reason for it."""
    version = facts.python.version
    if environment := conda_environment(facts):
        return "mambaorg/micromamba:2", f"{environment} is installed by micromamba"
    if _compiles_cuda(facts):
        base = DEVEL_BASE
        if facts.torch and facts.torch.version and facts.torch.cuda:
            cudnn = 9 if _version_key(facts.torch.version) >= (2, 4) else 8
            base = f"pytorch/pytorch:{_patch(facts.torch.version)}-cuda{facts.torch.cuda}-cudnn{cudnn}-devel"
        return base, "a dependency compiles CUDA code, so nvcc must be in the image"
    why = f"Python {version} fits ({facts.python.source})"
    return f"python:{version}-slim", why + ("; wheels bring CUDA themselves" if facts.torch else "")


def _compiles_cuda(facts: RepoFacts) -> bool:
    return (
        bool(CUDA_BUILDS & {_bare(name) for name in (*facts.declared, *facts.requirements)})
        and facts.gpu == "required"
    )


def _version_key(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d{1,18}", version.split("+", maxsplit=1)[0])[:2])


def _patch(version: str) -> str:
    plain = version.split("+", maxsplit=1)[0]
    return plain if plain.count(".") >= 2 else f"{plain}.0"


def _apt(facts: RepoFacts, base: str, more: tuple[str, ...]) -> tuple[str, ...]:
    own_python = ("python3", "python3-dev", "python3-pip", "python3-venv") if base == DEVEL_BASE else ()
    return tuple(dict.fromkeys((*own_python, *facts.apt, *facts.build_apt, *more)))


def conda_environment(facts: RepoFacts) -> str | None:
    """Return the conda environment file; None for other package managers, or if only the README mentions conda."""
    if facts.package_manager != "conda":
        return None
    return next((name for name in facts.dependency_files if name.endswith((".yml", ".yaml"))), None)


def _installer(facts: RepoFacts) -> str:
    manager = facts.package_manager
    by_pip = manager in {"none", "setuptools", "docker"} or (
        manager == "conda" and not conda_environment(facts)
    )
    return "pip" if by_pip else manager


def plan_installs(facts: RepoFacts) -> tuple[Install, ...]:
    """Return the RUN lines for the dependencies; the slowest and least often changed come first (layer cache)."""
    files = facts.dependency_files
    if facts.package_manager == "uv" and any(name.endswith("uv.lock") for name in files):
        return (_uv(facts),)
    # Without a lock file poetry would read the repository's local packages, whose folders are not in the image yet.
    if facts.package_manager == "poetry" and (
        any(name.endswith("poetry.lock") for name in files) or not facts.local_packages
    ):
        return (_poetry(facts),)
    tool = {"pdm": "pdm sync --no-self", "pipenv": "pipenv sync"}.get(facts.package_manager)
    if tool and any(name.endswith(".lock") for name in files):
        return (_with_tool(facts.package_manager, tool, files),)
    if environment := conda_environment(facts):
        quoted = shlex.quote(environment)
        run = f"micromamba install -y -n base -f {quoted} && micromamba clean -a -y"
        if facts.installs_itself:  # `-e .` needs the sources, which are copied later
            run = rf"sed -i -E 's/^( *- *)((-e|--editable)[ =]*[A-Za-z0-9_.\/-]+|\.\.?(\/[A-Za-z0-9_.\/-]*)?)(\[.*\])? *(#.*)?$/\1pip/' {quoted} && {run}"
        return (Install(run=run, copy=(environment, *facts.included)),)
    requirement_files = tuple(name for name in files if name.endswith((".txt", ".in")))
    first = _torch_first(facts)
    if requirement_files and not facts.installs_itself:
        flags = " ".join(f"-r {shlex.quote(name)}" for name in requirement_files)
        words = " ".join((flags, *map(shlex.quote, (*_undeclared(facts), *facts.readme_links))))
        run = f"pip install{_index(facts)} {words}"
        early = _before_builds(facts)
        if early:
            run = f"{run} || pip install --no-build-isolation{_index(facts)} {words}"
        return (
            *first,
            *early,
            Install(run=run, copy=(*requirement_files, *facts.included)),
            *_from_names(facts.beside, _index(facts)),
        )
    names = (*(facts.declared or facts.requirements), *_undeclared(facts))
    index = _index(facts) + "".join(f" {shlex.quote(word)}" for word in facts.index_options)
    return (*first, *_from_own_indexes(facts), *_from_names(names, index))


def _before_builds(facts: RepoFacts) -> tuple[Install, ...]:
    """Return an installation of the requirements that the other ones import while they build; empty if none is built.

    Source packages such as flash-attn and cocoapi import torch, numpy or Cython in their setup.py.
    """
    built = {each for each in facts.declared if _bare(each) in NO_ISOLATION or "git+" in each}
    plain = [each for each in facts.declared if each not in built and literal.is_requirement(each)]
    index = _index(facts) + "".join(f" {shlex.quote(word)}" for word in facts.index_options)
    return (
        (Install(run=f"pip install{index} setuptools wheel {shlex.join(plain)}"),) if built and plain else ()
    )


def _undeclared(facts: RepoFacts) -> tuple[str, ...]:
    """Return undeclared imports, to install in one pip command with the declared dependencies.

    With torch before 2.3 numpy becomes `numpy<2`, because those wheels are built for numpy 1 (pytorch #107302).
    """
    version = facts.torch.version if facts.torch else None
    is_old = version is not None and _version_key(version) < (2, 3)
    first = WITH_TORCH if _torch_first(facts) else ()
    return tuple(
        "numpy<2" if name == "numpy" and is_old else name for name in facts.undeclared if name not in first
    )


def _index(facts: RepoFacts) -> str:
    """Return pip's option for the index with torch for the right CUDA; the default index has only one CUDA version."""
    return f" --extra-index-url {shlex.quote(facts.torch_index)}" if facts.torch_index else ""


def _torch_first(facts: RepoFacts) -> tuple[Install, ...]:
    """Return an installation of torch alone, if the program uses torch and no dependency file declares it."""
    named = {_bare(name) for name in (*facts.declared, *facts.requirements)}
    if facts.torch is None or "torch" in named or "torch" not in facts.frameworks:
        return ()
    version = facts.torch.version.split("+")[0] if facts.torch.version else ""
    exact = version.count(".") == 2 and version.replace(".", "").isdigit()
    with_it = "".join(f" {name}" for name in facts.undeclared if name in WITH_TORCH)
    return (Install(run=f"pip install{_index(facts)} torch{f'=={version}' if exact else ''}{with_it}"),)


def gpu_extra(facts: RepoFacts) -> str | None:
    """Return the extra with torch for a GPU or for the CPU, as needed; None if that extra or `cpu` is missing."""
    if "cpu" not in facts.extras:
        return None
    groups = [name for name in facts.extras if re.fullmatch(r"(gpu|cuda|cu\d+)[\w.-]*", name, re.ASCII)]
    return next(iter(groups), None) if facts.gpu != "none" else "cpu"


def _uv(facts: RepoFacts) -> Install:
    extra = f" --extra {gpu_extra(facts)}" if gpu_extra(facts) else ""
    left_out = "--all-packages --no-install-local" if facts.local_packages else "--no-install-project"
    sync = f"UV_PROJECT_ENVIRONMENT=$VIRTUAL_ENV /opt/uv/bin/uv sync --frozen {left_out}{extra}"
    return Install(
        run=f"python3 -m venv /opt/uv && /opt/uv/bin/pip install uv && {sync}", copy=facts.dependency_files
    )


def _poetry(facts: RepoFacts) -> Install:
    extra = f" --extras {gpu_extra(facts)}" if gpu_extra(facts) else ""
    left_out = "--no-root --no-directory" if facts.local_packages else "--no-root"
    return _with_tool("poetry", f"poetry install {left_out} --no-interaction{extra}", facts.dependency_files)


def _with_tool(tool: str, command: str, files: tuple[str, ...]) -> Install:
    """Return an installation by a package manager that is itself installed in a separate environment."""
    return Install(
        run=f"python3 -m venv /opt/{tool} && /opt/{tool}/bin/pip install {tool} && /opt/{tool}/bin/{command}",
        copy=files,
    )


def _from_own_indexes(facts: RepoFacts) -> Iterator[Install]:
    """Yield an installation from each index that the repository names for certain requirements.

    They come first: with several indexes at once, pip takes the highest version, and an attacker could upload one to
    PyPI under the same name. The later installation of all requirements keeps these packages, and adds their
    dependencies.
    """
    for url, names in facts.indexed:
        if known := list(filter(literal.is_requirement, names)):
            yield Install(run=f"pip install --no-deps --index-url {shlex.quote(url)} {shlex.join(known)}")


def _from_names(names: tuple[str, ...], index: str) -> tuple[Install, ...]:
    known = [name for name in names if literal.is_requirement(name)]
    late = [name for name in known if _bare(name) in NO_ISOLATION]
    by_git = [name for name in known if name.startswith("git+") and name not in late]
    plain = [name for name in known if name not in {*late, *by_git}]
    installs = [Install(run=f"pip install{index} {shlex.join(plain)}")] if plain else []
    if by_git:  # a setup.py may import packages that are installed before it, such as torch
        urls = shlex.join(by_git)
        installs.append(Install(run=f"pip install {urls} || pip install --no-build-isolation {urls}"))
    if late:
        installs.append(Install(run=f"pip install --no-build-isolation {shlex.join(late)}"))
    return tuple(installs)


def _bare(requirement: str) -> str:
    name = re.split(r"[\s\[<>=!~;@#]", requirement, maxsplit=1)[0].lower()
    return name.rsplit("/", 1)[-1].removesuffix(".git")


def inputs_of_generated(image: ImagePlan) -> tuple[str, ...]:
    """Return the input files of an image from the generated Dockerfile, relative to the repository's root."""
    copied = tuple(name for install in image.installs for name in install.copy)
    packaging = PROJECT_FILES if image.installs_project else ()
    named = (str(image.dockerfile), f"{image.dockerfile}.dockerignore", *copied, *packaging)
    return tuple(dict.fromkeys(name for name in named if _is_plain(name)))


def inputs_of_users(
    dockerfile: DockerfileFact, base: ServiceFact | None, mounted: tuple[tuple[str, str], ...]
) -> tuple[str, ...] | None:
    """Return the input files of the user's image, relative to the repository's root; None if any file may be one.

    Args:
        dockerfile: the image's Dockerfile.
        base: the service to debug.
        mounted: (local, remote) of all mounts in the container.
    """
    context = (base.context if base else None) or "."
    if dockerfile.inputs is None:
        return None
    if base and ((base.image and not base.release) or base.depends_on or base.context is None):
        return None
    folders = [pair for pair in dockerfile.copies if f"{pair[0]}/" in dockerfile.inputs]
    if any((posixpath.normpath(f"{context}/{local}"), remote) not in mounted for local, remote in folders):
        return None
    if len({local for local, _ in folders}) < sum(name.endswith("/") for name in dockerfile.inputs):
        return None  # an input folder is copied to an unknown path, which no mount may cover
    found = [
        posixpath.normpath(f"{context}/{name}") + ("/" if name.endswith("/") else "")
        for name in dockerfile.inputs
    ]
    names = (
        dockerfile.path,
        f"{dockerfile.path}.dockerignore",
        posixpath.normpath(f"{context}/.dockerignore"),
    )
    named = (*names, *((base.file,) if base else ()), *found)
    return tuple(dict.fromkeys(named)) if all(map(_is_plain, named)) else None


def takes_bytecode(
    facts: RepoFacts, dockerfile: DockerfileFact, base: ServiceFact | None, variables: frozenset[str]
) -> bool:
    """Return whether a `__pycache__` in the repository would make the next build install the packages again.

    Args:
        facts: has the .dockerignore files.
        dockerfile: the image's Dockerfile. Only one that installs packages after copying code is affected; BuildKit
            prefers its own .dockerignore to the context's.
        base: the service to debug.
        variables: names of variables that the user sets in the container, such as PYTHONDONTWRITEBYTECODE.
    """
    variables |= {name for name, _ in dockerfile.env} | (base.variables if base else frozenset())
    if variables & _OF_BYTECODE or dockerfile.inputs is not None:
        return False
    ignores = dict(facts.dockerignores)
    context = (base.context if base else None) or "."
    shared = ignores.get(posixpath.normpath(f"{context}/.dockerignore"), False)
    return not ignores.get(f"{dockerfile.path}.dockerignore", shared)


def _is_plain(name: str) -> bool:
    """Return whether a path stays below the root and fits on one line of a shell script."""
    return ".." not in PurePosixPath(name).parts and not name.startswith("/") and name.isprintable()
