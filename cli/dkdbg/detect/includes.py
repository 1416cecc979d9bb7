"""What a requirements file pulls in from the repository: other files, or the repository itself."""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from dkdbg.detect.files import Tree

_REFERENCE = re.compile(r"^(?:-r|--requirement|-c|--constraint)[\s=]*(\S+)", re.MULTILINE)
_ITSELF = re.compile(
    r"^(?:-e|--editable)?[\s=]*(\.{1,2}(?:/[\w./-]*)?)(?:\[[\w,-]+\])?\s*(?:#.*)?$", re.MULTILINE
)


def included_files(tree: Tree, files: Iterable[str]) -> tuple[str, ...]:
    """Files that pip needs besides `files`, relative to the root, in the order in which it meets them.

    Source: pip's requirements file format; a path is relative to the file that names it.
    """
    return tuple(
        dict.fromkeys(_follow(tree, [name for name in files if name.endswith((".txt", ".in"))], set()))
    )


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
    """Whether one of the requirements files among `files` installs a folder of the repository."""
    return any(_ITSELF.search(tree.text(name)) for name in files if name.endswith((".txt", ".in")))
