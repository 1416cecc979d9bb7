"""Values of a stranger's YAML, TOML or JSON, narrowed to what was hoped for."""

from __future__ import annotations

from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.constructor import SafeConstructor

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


class _Constructor(SafeConstructor):
    """Safe YAML in which compose's `!reset` and `!override`, and any other tag, give the plain value."""


def _plain(constructor: SafeConstructor, node: Value) -> Value:
    kind = type(node).__name__
    if kind == "MappingNode":
        return constructor.construct_mapping(node, deep=True)
    if kind == "SequenceNode":
        return constructor.construct_sequence(node, deep=True)
    return constructor.construct_scalar(node)


_Constructor.add_constructor(None, _plain)


def load_yaml(text: str) -> Value:
    """Return the value of the first YAML document.

    Raises:
        YAMLError: with a position where there is one.
    """
    yaml = YAML(typ="safe", pure=True)
    yaml.Constructor = _Constructor
    return next(iter(yaml.load_all(text)), None)
