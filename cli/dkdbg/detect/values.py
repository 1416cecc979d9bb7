"""Values of a stranger's YAML, TOML or JSON, narrowed to what was hoped for."""

from __future__ import annotations

from typing import Any

#: Whatever a parser gave; narrowed by the functions here at every use.
Value = Any


def table(value: Value) -> dict[str, Value]:
    """Return a mapping, an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def elements(value: Value) -> list[Value]:
    """Return the elements of a list, one for a plain string, none for anything else."""
    if isinstance(value, str):
        return [value]
    return list(value) if isinstance(value, (list, tuple)) else []
