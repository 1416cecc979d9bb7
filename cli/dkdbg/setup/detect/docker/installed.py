"""Detect images that run an installed copy of the repository's package: breakpoints in mounted files never hit."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

from packaging.utils import canonicalize_name

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
