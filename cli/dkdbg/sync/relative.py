"""Paths in sync's form: relative to a root, with `/`; the root itself is empty. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Container, Iterator


def folders_above(path: str) -> Iterator[str]:
    """Yield the folders above `path`, the nearest first, without the root."""
    at = path.rfind("/")
    while at > 0:
        yield path[:at]
        at = path.rfind("/", 0, at)


def is_within(path: str, places: Container[str]) -> bool:
    """Tell whether `path` is one of `places` or below one."""
    while path not in places:
        path, _, _ = path.rpartition("/")
        if not path:
            return "" in places
    return True
