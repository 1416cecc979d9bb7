"""Find the dependency files of a repository."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from dkdbg.setup.detect.files import is_vendored, parent
from dkdbg.setup.detect.python.conda import read_conda
from dkdbg.setup.detect.python.pyproject import read_lock, read_pipfile, read_pixi, read_pyproject
from dkdbg.setup.detect.python.requirements import read_requirements
from dkdbg.setup.detect.python.setup_files import read_setup_cfg, read_setup_py

if TYPE_CHECKING:
    from dkdbg.setup.detect.files import Tree
    from dkdbg.setup.detect.python.requirements import DependencyFile

_USUAL_CONDA = re.compile(r"(?:conda[-_]?)?env(?:ironment)?(?:[-_.][\w.-]+)?\.ya?ml|conda\.ya?ml")
#: Maximum YAML files with other names to check for conda environments.
_MAX_UNUSUAL = 100
REQUIREMENT_FILES = re.compile(
    r"(?:pip[-_])?requirements?(?:[-_.][\w.-]+)?\.(?:txt|in)|[\w.-]*[-_.]requirements\.txt"
)
#: Requirement files that are not for running the program on Linux.
_SIDE_FILES = re.compile(
    r"dev|test|doc|lint|ci\b|style|quality|build|windows|macos|mac_|darwin|rocm|ipex|xpu|runpod|colab|optional|extra|npu|amd|"
    r"example|tensorboard|notebook|lock",
    re.IGNORECASE,
)


def read_dependency_files(tree: Tree) -> tuple[DependencyFile, ...]:
    """Return every dependency file of the repository, without third-party code, shallow ones first."""
    found: list[DependencyFile] = []
    unusual = [path for path in tree.matching(re.compile(r".*\.ya?ml")) if _may_be_conda(path)][:_MAX_UNUSUAL]
    conda_files = {path for path in unusual if _is_conda(tree.text(path))}
    for path in tree.files:
        name = path.rsplit("/", 1)[-1]
        if is_vendored(path) or path.count("/") > 4:
            continue
        if name == "pyproject.toml":
            found.append(read_pyproject(tree, path))
        elif name == "setup.py":
            found.append(read_setup_py(tree, path))
        elif name == "setup.cfg":
            found.append(read_setup_cfg(tree, path))
        elif name == "Pipfile":
            found.append(read_pipfile(tree, path))
        elif name == "pixi.toml":
            found.append(read_pixi(tree, path))
        elif name in {"uv.lock", "poetry.lock", "pdm.lock", "Pipfile.lock", "pixi.lock"}:
            found.append(read_lock(tree, path))
        elif path in conda_files or _USUAL_CONDA.fullmatch(name):
            conda = read_conda(tree, path)
            if conda is not None:
                found.append(conda)
        elif REQUIREMENT_FILES.fullmatch(name) or (
            parent(path).rsplit("/", 1)[-1] == "requirements" and name.endswith((".txt", ".in"))
        ):
            found.append(read_requirements(tree, path))
    return tuple(found)


def _may_be_conda(path: str) -> bool:
    """Return whether a file is in a place for conda environments, whatever its name."""
    return path.count("/") < 2 and not path.startswith(".")


def _is_conda(text: str) -> bool:
    """Return whether a YAML file is a conda environment, by its content."""
    return all(f"\n{key}:" in f"\n{text}" for key in ("channels", "dependencies"))


def is_side_file(path: str) -> bool:
    """Return whether a requirements file is for tests, another platform or similar, by its name."""
    name = path.rsplit("/", 1)[-1]
    return bool(_SIDE_FILES.search(name)) or bool(re.search(r"(?:^|/)(?:tests?|docs?)/", path))
