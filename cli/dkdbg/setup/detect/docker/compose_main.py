"""Find the compose files in COMPOSE_FILE, and those that others include."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

from dkdbg.setup.detect.files import join, parent
from dkdbg.setup.detect.values import elements, table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from dkdbg.setup.detect.values import Value

#: Maximum included files to read.
_MAX_FILES = 60


def named_files(value: str, separator: str) -> tuple[str, ...]:
    """Return the files in COMPOSE_FILE, relative to the root, with normalised paths."""
    names = (name.strip().strip("\"'") for name in value.split(separator or ":"))
    return tuple(posixpath.normpath(name) for name in names if name)


def included(files: Mapping[str, Value], load: Callable[[str], Value]) -> Iterator[tuple[str, Value]]:
    """Yield (path, document) of all directly or indirectly included files, each once."""
    seen = set(files)
    todo = list(files.items())
    while todo and len(seen) < _MAX_FILES:
        path, document = todo.pop(0)
        for name in _included_names(document):
            found = join(parent(path), name)
            if found is not None and found not in seen:
                seen.add(found)
                inner = load(found)
                todo.append((found, inner))
                yield found, inner


def _included_names(document: Value) -> Iterator[str]:
    for item in elements(table(document).get("include"))[:_MAX_FILES]:
        named = item.get("path") if isinstance(item, dict) else item
        yield from (name for name in elements(named) if isinstance(name, str))
