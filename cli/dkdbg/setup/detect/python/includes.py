"""Find the repository's files that a requirements file, or the pip part of a conda environment, refers to."""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from dkdbg.setup.detect.files import Tree

#: Prefix `- ` of a pip line in a conda environment.
_ITEM = r"^(?:[ \t]*-[ \t]+[\x22\x27]?)?"
_REFERENCE = re.compile(_ITEM + r"(?:-r|--requirement|-c|--constraint)[ \t=]*([^\s\x22\x27]+)", re.MULTILINE)
_ITSELF = re.compile(
    _ITEM + r"(?:-e|--editable)?[ \t=]*\.{1,2}(?:/[\w./-]*)?(?:\[[\w,-]+\])?[\x22\x27]?[ \t]*(?:#.*)?$",
    re.MULTILINE,
)
_KINDS = (".txt", ".in", ".yml", ".yaml")


def included_files(tree: Tree, files: Iterable[str]) -> tuple[str, ...]:
    """Return the files that pip needs besides `files`, relative to the root, in the order of reading.

    Source: pip's requirements file format; a path is relative to the file that contains it.
    """
    return tuple(dict.fromkeys(_follow(tree, [name for name in files if name.endswith(_KINDS)], set())))


def _follow(tree: Tree, files: list[str], seen: set[str]) -> Iterator[str]:
    for name in files:
        if name in seen:
            continue
        seen.add(name)
        for reference in _REFERENCE.findall(tree.text(name)):
            path = posixpath.normpath(posixpath.join(posixpath.dirname(name), reference))
            if tree.has(path):
                yield path
                yield from _follow(tree, [path], seen)


def installs_itself(tree: Tree, files: Iterable[str]) -> bool:
    """Return whether one of `files` installs a folder of the repository."""
    return any(_ITSELF.search(tree.text(name)) for name in files if name.endswith(_KINDS))
