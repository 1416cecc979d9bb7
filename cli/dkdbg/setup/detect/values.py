"""Load untrusted YAML, TOML and JSON, and check the types of values."""

from __future__ import annotations

import functools
import itertools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import tomlkit
from ruamel.yaml import YAML
from ruamel.yaml.constructor import SafeConstructor

if TYPE_CHECKING:
    from collections.abc import Iterator

#: A value from a parser, whose type is checked at each use by the functions here.
Value = Any


def table(value: Value) -> dict[str, Value]:
    """Return a mapping, also if it is tagged `!override`; empty for other values."""
    value = value.value if isinstance(value, Override) else value
    return value if isinstance(value, dict) else {}


def elements(value: Value) -> list[Value]:
    """Return the elements of a list; a string counts as one element, and other values as none."""
    if isinstance(value, str):
        return [value]
    return list(value) if isinstance(value, (list, tuple)) else []


@dataclass(frozen=True, eq=False)
class Override:
    """A value tagged `!override` in compose (it replaces an earlier file's value) or `!reset` (`value` is None)."""

    value: Value


def untagged(value: Value) -> Value:
    """Return a value with compose's tags removed, and without the values tagged `!reset`."""
    if isinstance(value, Override):
        return untagged(value.value)
    if isinstance(value, dict):
        return {key: untagged(item) for key, item in value.items() if not _is_reset(item)}
    return [untagged(item) for item in value if not _is_reset(item)] if isinstance(value, list) else value


def _is_reset(value: Value) -> bool:
    return isinstance(value, Override) and value.value is None


class _Constructor(SafeConstructor):
    """Constructs plain YAML values. Ignores tags except compose's `!reset` and `!override`."""


def _plain(constructor: SafeConstructor, node: Value) -> Value:
    kind = type(node).__name__
    if kind == "MappingNode":
        return constructor.construct_mapping(node, deep=True)
    if kind == "SequenceNode":
        return constructor.construct_sequence(node, deep=True)
    return constructor.construct_scalar(node)


_Constructor.add_constructor(None, _plain)
_Constructor.add_constructor("!reset", lambda *_: Override(None))
_Constructor.add_constructor("!override", lambda constructor, node: Override(_plain(constructor, node)))

#: Limits above any real configuration; the parsers read only 15 KB a second.
MAX_CHARS, MAX_DEPTH, MAX_VALUES, MAX_DOCUMENTS = 128_000, 200, 100_000, 1_000


def load_yaml(text: str, *, keeps_tags: bool = False) -> Value:
    """Return the value of the first YAML document; with `keeps_tags`, compose's tags stay as `Override`.

    Raises:
        YAMLError: the text is not YAML; has a position, if known.
        ValueError, RecursionError: with aliases expanded, the text is larger or deeper than any configuration.
    """
    found = next(_yaml_documents(text), None)
    return found if keeps_tags else untagged(found)


def load_yaml_documents(text: str) -> list[Value]:
    """Return the values of all YAML documents in a text.

    Raises:
        YAMLError, ValueError, RecursionError: as `load_yaml`.
    """
    found = list(map(untagged, itertools.islice(_yaml_documents(text), MAX_DOCUMENTS + 1)))
    if len(found) > MAX_DOCUMENTS:
        raise ValueError(f"it has more than {MAX_DOCUMENTS} documents")
    return found


def _yaml_documents(text: str) -> Iterator[Value]:
    check_text(text)
    yaml = YAML(typ="safe", pure=True)
    yaml.Constructor = _Constructor
    for each in yaml.load_all(text):
        _check_value(each)
        yield each


@functools.lru_cache(maxsize=16)
def load_toml(text: str) -> Value:
    """Return the value of a TOML document. Callers must not change it, because it is cached.

    Raises:
        TOMLKitError: the text is not TOML; has a position.
        ValueError, RecursionError: as `load_yaml`.
    """
    check_text(text)
    value = tomlkit.parse(text).unwrap()
    _check_value(value)
    return value


#: An escape above U+10FFFF, for which ruamel.yaml raises OverflowError.
_NO_CHARACTER = re.compile(r"\\U(?!000|0010)[0-9A-Fa-f]{8}")


def check_text(text: str) -> None:
    """Raise ValueError if a text is larger or deeper than any configuration, or has an escape above U+10FFFF."""
    if _NO_CHARACTER.search(text):
        raise ValueError("it has an escape beyond U+10FFFF")
    if len(text) > MAX_CHARS:
        raise ValueError(f"it is larger than {MAX_CHARS // 1000} KB")
    depth = deepest = 0
    for char in text:
        if char in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif char in "]}" and depth:
            depth -= 1
    if deepest > 5 * MAX_DEPTH:  # generous: counts brackets in strings and comments, too
        raise ValueError("it is nested too deeply")


def _check_value(value: Value) -> None:
    """Raise ValueError for a value that is too large with its aliases expanded, such as nine levels of nine aliases."""
    left, waiting = MAX_VALUES, [(value, 0)]
    while waiting:
        each, depth = waiting.pop()
        left -= 1
        if left < 0 or depth > MAX_DEPTH:
            raise ValueError("it has too many values with its aliases expanded, or is nested too deeply")
        if isinstance(each, dict):
            waiting += [(item, depth + 1) for item in each.values()]
        elif isinstance(each, (list, tuple, set)):
            waiting += [(item, depth + 1) for item in each]
        elif isinstance(each, Override):
            waiting.append((each.value, depth + 1))
