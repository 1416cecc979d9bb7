"""What turns one JSON document into another, as RFC 6902 writes it and kustomize applies it. No I/O."""

from __future__ import annotations

from typing import Any

#: An operation of a patch.
Operation = dict[str, Any]
#: A value of JSON.
Value = Any
#: Objects that are replaced as a whole: what somebody else adds to them later must not get into the result.
_WHOLE = ("labels", "matchLabels")


def between(before: Value, after: Value) -> list[Operation]:
    """The operations that make `after` of `before`, in their order."""
    return _value("", before, after)


def at(*words: str | int) -> str:
    """The JSON pointer (RFC 6901) to a value."""
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
    # Names tell the items of most lists apart: one that has another name is another item.
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
    """Whether both are one value in JSON, where True is not 1."""
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
