"""Read conda environment files, translating names and pins for pip; and MLflow's Python environments."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name
from ruamel.yaml.error import YAMLError

from dkdbg.setup.detect.files import join, parent
from dkdbg.setup.detect.python.requirements import (
    INCLUDE_OPTION,
    INDEX_OPTION,
    DependencyFile,
    Wanted,
    folder_in,
    local_folders,
    of_lines,
    parse_requirement,
    read_requirements,
)
from dkdbg.setup.detect.values import Value, elements, load_yaml, table

if TYPE_CHECKING:
    from dkdbg.setup.detect.files import Tree

_CONDA_NAMES = {
    "pytorch": "torch",
    "pytorch-gpu": "torch",
    "pytorch-cpu": "torch",
    "tensorflow-gpu": "tensorflow",
    "pyg": "torch-geometric",
    "py-opencv": "opencv-python",
    "opencv": "opencv-python",
}


def read_conda(tree: Tree, path: str) -> DependencyFile | None:
    """Return the content of a conda environment file; None if it is broken or not such a file."""
    document = _load(tree, path)
    items = document.get("dependencies")
    if not isinstance(items, list):
        return None
    wanted: list[Wanted] = []
    python: list[tuple[str, str]] = []
    indexes: list[str] = []
    local: list[str] = []
    for item in items:
        if isinstance(item, dict):
            for line in elements(item.get("pip")):
                indexes.extend(url for _, url in INDEX_OPTION.findall(str(line)))
                if include := INCLUDE_OPTION.match(str(line)):
                    other = join(parent(path), include[1])
                    below = [read_requirements(tree, other)] if other and tree.has(other) else []
                    wanted.extend(item for each in below for item in each.wanted)
                    local.extend(folder for each in below for folder in each.local)
                elif folders := folder_in(str(line).strip()):
                    local.extend(local_folders(tree, path, folders))
                elif parsed := parse_requirement(str(line), path):
                    wanted.append(parsed)
            continue
        stated = conda_requirement(str(item), path)
        if stated is not None and stated.name == "python":
            python.append((stated.spec, "dependencies"))
        elif stated is not None:
            wanted.append(stated)
    return DependencyFile(
        path=path,
        kind="conda",
        wanted=tuple(wanted),
        python=tuple(python),
        indexes=tuple(indexes),
        local=tuple(local),
        name=str(document.get("name")) if document.get("name") else None,
    )


def conda_requirement(text: str, source: str) -> Wanted | None:
    """Parse a package in conda's syntax, such as `pytorch=1.13` or `conda-forge::numpy >=1.2`; None for other text."""
    match = re.match(r"(?:[\w.-]+::)?([A-Za-z_][\w.-]*)\s*(.*)", text)
    if not match:
        return None
    # The third part of a conda pin (`name=version=build`) is the build string.
    spec = conda_spec(re.sub(r"^(=[^=<>!~]+)=.*$", r"\1", match[2].strip()))
    return Wanted(name=conda_name(match[1]), spec=spec, source=source, url=_cuda_of_build(text))


def read_python_env(tree: Tree, path: str) -> DependencyFile:
    """Return an MLproject's `python_env.yaml`: a Python version, and pip lines (MLflow docs, "MLproject")."""
    document = _load(tree, path)
    python = document.get("python")
    return replace(
        of_lines(tree, path, map(str, elements(document.get("dependencies")))),
        kind="python_env",
        python=((conda_spec(str(python)), "python"),) if python else (),
    )


def _load(tree: Tree, path: str) -> dict[str, Value]:
    """Return the mapping in a YAML file, empty if it has none; record a broken file as a problem."""
    try:
        return table(load_yaml(tree.text(path)))
    except (YAMLError, ValueError, RecursionError) as error:
        tree.add_problem(f"{path}: not valid YAML: {(str(error).splitlines() or ['syntax error'])[0]}")
        return {}


def _cuda_of_build(item: str) -> str | None:
    """Return `cuda:11.3` for a conda build string such as `py3.8_cuda11.3_cudnn8.2.0_0`; None without a CUDA."""
    match = re.search(r"=[\w.]*cuda_?(\d{2})\.?(\d)", item)
    return f"cuda:{match[1]}.{match[2]}" if match else None


def conda_spec(spec: str) -> str:
    """Translate conda's `=1.9` (any 1.9) and `1.9.*` to a specifier for pip."""
    spec = spec.replace(" ", "").split("|")[0]
    if match := re.fullmatch(r"={0,2}([\d.]+)(\.?\*)?", spec):
        version = match[1].rstrip(".")
        return f"=={version}" if version.count(".") > 1 and not match[2] else f"=={version}.*"
    return "" if spec == "*" else spec


def conda_name(name: str) -> str:
    """Return the name that pip uses for a conda package."""
    return _CONDA_NAMES.get(name.lower(), canonicalize_name(name))
