"""Detect images that run an installed copy of the repository's package: breakpoints in mounted files never hit."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

from packaging.utils import canonicalize_name

from dkdbg.setup.detect.files import is_vendored, parent

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dkdbg.setup.detect.files import Tree

#: `editable`: linked to the sources; `copied`: a copy of the sources; `released`: a release from a package index.
Installed = Literal["editable", "copied", "released", ""]
_INSTALL = re.compile(r"\b(?:pip3?|uv pip) install\s([^;&|\n]*)")
_EDITABLE = re.compile(
    r"(?:^|\s)(?:-e|--editable)[\s=]|\bsetup\.py develop\b|\bpoetry install\b(?![^;&\n]*--no-root)"
    r"|\buv sync\b(?![^;&\n]*--no-(?:editable|install-project))"
)
_COPIED = re.compile(r"(?:^|\s)[\"']?(?:\.|\./|/[\w./-]*[\w-])(?:\[[^\]]*\])?[\"']?(?=\s|$)")
_OF_A_FILE = re.compile(
    r"(?:-r|--requirement|-c|--constraint|-t|--target|--prefix|--cache-dir|-f|--find-links)[\s=]+\S+|\S+\.(?:whl|txt|tar\.gz|zip)\b"
)
_COMPILED = re.compile(
    r"ext_modules|Extension\(|CUDAExtension|cmake|maturin|scikit[-_]build|mesonpy|setuptools[-_]rust",
    re.IGNORECASE,
)

#: Text in a setup.py that declares extension modules, of C++ and CUDA too.
_EXTENSION = re.compile(r"\bext_modules\s*=(?!\s*\[\s*\])|\bcythonize\(|\b(?:Cpp|CUDA|CMake)?Extension\(")
_BUILT = (".so", ".pyd")
_MAX_DEPTH = 4


def how_installed(lines: Iterable[str], names: Iterable[str]) -> Installed:
    """Return how an image's RUN lines install the repository's own package; empty if they do not.

    Args:
        lines: RUN lines, from setup/detect/docker/dockerfile.py.
        names: distribution names of the package, in any spelling.
    """
    own = set(map(canonicalize_name, names))
    found: Installed = ""
    for line in lines:
        if _EDITABLE.search(line):
            return "editable"
        if re.search(r"\bsetup\.py install\b|\buv sync\b[^;&\n]*--no-editable", line):
            found = "copied"
        for match in _INSTALL.finditer(line):
            words = _OF_A_FILE.sub(" ", match[1])
            bare = {
                canonicalize_name(re.split(r"[\[=<>~!@]", word.strip("\"'"))[0]) for word in words.split()
            }
            if _COPIED.search(words):
                found = "copied"
            elif bare & own and not found:
                found = "released"
    return found


def source_root(tree: Tree, packages: Iterable[str]) -> str | None:
    """Return the folder from which the repository's packages are imported, `.` or `src`; None if neither has one."""
    for base in ("src", "."):
        prefix = "" if base == "." else f"{base}/"
        if any(tree.has(f"{prefix}{name}/__init__.py") for name in packages):
            return base
    return None


def is_compiled(tree: Tree) -> bool:
    """Return whether building the package compiles extension modules, which mounted sources lack."""
    return any(_COMPILED.search(tree.text(name)) for name in ("setup.py", "pyproject.toml"))


def extensions(tree: Tree, program: str = "") -> tuple[tuple[str, bool, str], ...]:
    """Return (setup.py, whether it compiles CUDA, folder to make before) of the repository's own with unbuilt modules.

    Other projects of the repository than that of the file `program` are left out: they have requirements of their own.
    """
    own = (each for each in _setups(tree) if not _is_other_project(tree, parent(each), program))
    found = [path for path in own if not _is_built(tree, parent(path))]
    return tuple(
        (path, "CUDAExtension" in tree.text(path), _made_folder(tree, parent(path))) for path in found
    )


def _is_other_project(tree: Tree, folder: str, program: str) -> bool:
    is_around = folder == "." or program.startswith(f"{folder}/")
    return not is_around and any(
        tree.has(f"{folder}/{name}") for name in ("requirements.txt", "pyproject.toml")
    )


def _made_folder(tree: Tree, folder: str) -> str:
    name = folder.rsplit("/", 1)[-1]
    is_package = folder != "." and tree.has(f"{folder}/__init__.py")
    return name if is_package and not tree.has_dir(f"{folder}/{name}") else ""


def build_tools(tree: Tree) -> tuple[str, ...]:
    """Return the distributions that the repository's extension modules are built with."""
    texts = [tree.text(path) for path in _setups(tree)]
    cython = ("cython",) if any(re.search(r"cython", text, re.IGNORECASE) for text in texts) else ()
    return (*(("setuptools",) if texts else ()), *cython)


def _setups(tree: Tree) -> list[str]:
    own = (path for path in tree.named("setup.py") if path.count("/") <= _MAX_DEPTH and not is_vendored(path))
    return [path for path in own if _EXTENSION.search(tree.text(path))]


def _is_built(tree: Tree, folder: str) -> bool:
    below = "" if folder == "." else f"{folder}/"
    return any(path.startswith(below) and path.endswith(_BUILT) for path in tree.files)
