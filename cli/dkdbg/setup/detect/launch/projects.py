"""Split a repository into projects: folders with a program, and dependencies or a README of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dkdbg.core.facts import Project
from dkdbg.setup.detect.files import parent

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dkdbg.core.facts import EntryPoint
    from dkdbg.setup.detect.files import Tree

#: Minimum number of projects; fewer are parts of one program.
_MIN_PROJECTS = 3
_MAX_DEPTH = 3
_OWN = ("requirements.txt", "pyproject.toml", "setup.py", "environment.yml", "environment.yaml", "Pipfile", "Dockerfile", "README.md", "README.rst")  # fmt: skip


def projects(tree: Tree, candidates: Iterable[EntryPoint]) -> tuple[Project, ...]:
    """Return the projects ordered by folder; none if the repository is a single project.

    It is a single one if its root has dependencies, an image or a program.
    """
    if any(tree.has(name) for name in _OWN[:-2]) or any("/" not in (item.file or "/") for item in candidates):
        return ()
    best: dict[str, EntryPoint] = {}
    for item in candidates:
        folder = parent(item.file) if item.file else "."
        if folder.count("/") < _MAX_DEPTH and any(tree.has(f"{folder}/{name}") for name in _OWN):
            best.setdefault(folder, item)
    if len(best) < _MIN_PROJECTS:
        return ()
    return tuple(Project(folder=folder, program=best[folder].file or "") for folder in sorted(best))
