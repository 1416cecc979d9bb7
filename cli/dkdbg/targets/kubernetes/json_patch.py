"""Compute JSON patches (RFC 6902), as kustomize applies them. No I/O."""

from __future__ import annotations

from typing import Any

#: One operation of a patch.
Operation = dict[str, Any]
#: A JSON value.
Value = Any
#: Objects to replace as a whole, so that keys added to the original later do not reach the result.
_WHOLE = ("labels", "matchLabels")


def between(before: Value, after: Value) -> list[Operation]:
    """Return the operations that turn `before` into `after`, in order."""
    return _value("", before, after)


def at(*words: str | int) -> str:
    """Return the JSON pointer (RFC 6901) to a value."""
    return "".join(_step(each) for each in words)


def _value(path: str, before: Value, after: Value) -> list[Operation]:
    if _same(before, after):
        return []
    if isinstance(before, dict) and isinstance(after, dict):
        found = [_operation("remove", path + _step(key)) for key in before if key not in after]
        for key, value in after.items():
            if key in before and key not in _WHOLE:
                found += _value(path + _step(key), before[key], value)
            elif key not in before or not _same(before[key], value):
                found.append(_operation("add", path + _step(key), value))
        return found
    # The items of most lists have names: an item with another name is another item.
    if (
        isinstance(before, list)
        and isinstance(after, list)
        and _names(before) == _names(after)[: len(before)]
    ):
        pairs = enumerate(zip(before, after, strict=False))
        found = [each for index, (old, new) in pairs for each in _value(path + _step(index), old, new)]
        return found + [_operation("add", path + "/-", each) for each in after[len(before) :]]
    return [_operation("replace", path, after)]


def _same(before: Value, after: Value) -> bool:
    """Return whether two values are the same in JSON, where True is not 1."""
    if isinstance(before, dict) and isinstance(after, dict):
        return before.keys() == after.keys() and all(_same(before[key], after[key]) for key in before)
    if isinstance(before, list) and isinstance(after, list):
        return len(before) == len(after) and all(map(_same, before, after))
    return isinstance(before, bool) is isinstance(after, bool) and bool(before == after)


def _names(items: list[Any]) -> list[Any]:
    return [
        each.get("name") if isinstance(each, dict) else None if isinstance(each, list) else each
        for each in items
    ]


def _step(word: str | int) -> str:
    return "/" + str(word).replace("~", "~0").replace("/", "~1")


def _operation(op: str, path: str, *value: Value) -> Operation:
    return {"op": op, "path": path, **({"value": value[0]} if value else {})}
