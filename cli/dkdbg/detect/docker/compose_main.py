"""Which compose files plain `docker compose` reads in the root, those that they include among them."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

from dkdbg.detect.files import join, parent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from dkdbg.detect.values import Value

#: Compose's own order of preference (compose-go `cli/options.go`).
DEFAULT_NAMES = ("compose.yaml", "compose.yml", "docker-compose.yaml", "docker-compose.yml")
OVERRIDE_NAMES = (
    "compose.override.yml", "compose.override.yaml", "docker-compose.override.yml", "docker-compose.override.yaml",
)  # fmt: skip
_MAX_DEPTH, _MAX_FILES = 5, 40


def named_files(value: str, separator: str) -> tuple[str, ...]:
    """Return the files that COMPOSE_FILE names, relative to the root, spelled in one way."""
    names = (name.strip().strip("\"'") for name in value.split(separator or ":"))
    return tuple(posixpath.normpath(name) for name in names if name)


def main_files(files: Sequence[str], compose_env: str | None) -> tuple[str, ...]:
    """Return the files that are merged, in this order: of the overrides compose takes the first alone.

    Args:
        files: the compose files that are here.
        compose_env: what COMPOSE_FILE says, see RepoFacts.
    """
    if compose_env:
        return tuple(compose_env.split(":"))
    main = [name for name in DEFAULT_NAMES if name in files][:1]
    return (*main, *([name for name in OVERRIDE_NAMES if name in files][:1] if main else ()))


def included(
    path: str, document: Value, load: Callable[[str], Value], depth: int = 0
) -> Iterator[tuple[str, Value]]:
    """Yield (path, document) of the files that a compose file includes, and of those that they include."""
    items = document.get("include") if isinstance(document, dict) else None
    for item in items[:_MAX_FILES] if isinstance(items, list) and depth < _MAX_DEPTH else ():
        named = item.get("path") if isinstance(item, dict) else item
        for name in named if isinstance(named, list) else [named]:
            found = join(parent(path), name) if isinstance(name, str) else None
            if found is not None:
                inner = load(found)
                yield found, inner
                yield from included(found, inner, load, depth + 1)
