"""Edit dkdbg's entries in JSON with comments, as text: every other byte stays as it is."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from dkdbg.errors import DkdbgError
from dkdbg.setup.render.jsonc_edit import Edit, equal
from dkdbg.setup.render.jsonc_tree import parse

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from dkdbg.setup.render.jsonc_tree import JsonValue, Node

#: Path to a value: keys of objects and indices of arrays.
Path = tuple[str | int, ...]
_MAX_SHOWN_CHARS = 60
#: Stands for an unknown last request, because None means JSON's null.
_UNKNOWN = object()


def decode(data: bytes, *, file: str) -> str:
    """Return the text of a file, with byte order mark and line endings: `text.encode()` is `data` again.

    Raises:
        DkdbgError: `data` is not UTF-8.
    """
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        message = f"{file}: byte {error.start} is not UTF-8"
        raise DkdbgError(message, hint=f"Save {file} as UTF-8, then try again.") from error


def loads(text: str, *, file: str = "JSON text") -> JsonValue:
    """Return the value of JSON with comments; `{}` for a blank file, as in VS Code.

    Raises:
        DkdbgError: the text is malformed; the message has file, line, column and the expected token.
    """
    root = parse(text, file=file)
    return {} if root is None else root.value


def upsert(
    text: str,
    path: Sequence[str],
    key_field: str,
    value: Mapping[str, object],
    *,
    last: Mapping[str, object] | None = None,
    file: str = "JSON text",
) -> str:
    """Return `text` with `value` merged into the object at `path` (an array) that has the same `key_field`.

    Keys are merged one by one: those that still have their value in `last` get that in `value`; those that the user
    changed, added or removed stay so, with their comments. If no object has this `key_field`, append `value`, and
    create missing parents. If several have it, change only the first.

    Args:
        last: value of the previous merge; None if unknown, so that each different key counts as the user's.

    Raises:
        DkdbgError: the text is malformed, or `path` leads to or through a value of another type.
    """
    edit, array, index = _find(text, path, key_field, value[key_field], file)
    if array is None:
        return edit.insert_at(path, [value])
    if index is None:
        return edit.append(array, value)
    while step := next_step(array.items[index].value, value, last):
        edit = Edit.of(apply(edit, array.items[index], step), file)
        array = edit.container(path, list)
        assert array is not None  # noqa: S101 - a step changes a value inside of it
    return edit.text


def overruled(
    text: str,
    path: Sequence[str],
    key_field: str,
    value: Mapping[str, object],
    *,
    file: str = "JSON text",
) -> tuple[str, ...]:
    """Return a phrase for each value of the user's that the merged `text` has instead of the one in `value`.

    Raises:
        DkdbgError: as `upsert`.
    """
    _, array, index = _find(text, path, key_field, value[key_field], file)
    if array is None or index is None:
        return ()
    return tuple(_differences(array.items[index].value, value))


def drop(
    text: str, path: Sequence[str], key_field: str, last: Mapping[str, object], *, file: str = "JSON text"
) -> str:
    """Return `text` without the object that equals `last`, and without its array if that is then empty.

    Raises:
        DkdbgError: as `upsert`.
    """
    edit, array, index = _find(text, path, key_field, last[key_field], file)
    if array is None or index is None or not equal(array.items[index].value, last):
        return text
    if len(array.items) > 1:
        return edit.remove(array, index)
    parent = edit.container(path[:-1], dict)
    assert parent is not None  # noqa: S101 - it contains the array
    return edit.remove(parent, [member.node for member in parent.members].index(array))


def _find(
    text: str, path: Sequence[str], key_field: str, key: object, file: str
) -> tuple[Edit, Node | None, int | None]:
    """Return the parsed text, the array at `path`, and the index of its first object with the `key` in `key_field`."""
    edit = Edit.of(text, file)
    array = edit.container(path, list)
    for index, item in enumerate(array.items if array else ()):
        if isinstance(item.value, dict) and item.value.get(key_field) == key:
            return edit, array, index
    return edit, array, None


@dataclass(frozen=True, kw_only=True)
class Step:
    """One edit of a value.

    Attributes:
        kind: `set` replaces the value at `path` by `value`; `remove` removes it; `add` inserts `value` there, in an
            array before that index or at the end.
    """

    kind: Literal["set", "remove", "add"]
    path: Path
    value: object = None


def next_step(have: object, want: object, last: object) -> Step | None:
    """Return the next edit that turns `have` into `want`; None if only the user's changes are left.

    Objects are merged by key, arrays of objects by item (a pair of path mappings is one item), other values as a whole.
    A value counts as the user's if it differs from that in `last`, the previous request (None if unknown).
    """
    return _step(have, want, _UNKNOWN if last is None else last, ())


def _step(have: object, want: object, last: object, at: Path) -> Step | None:
    if isinstance(have, dict) and isinstance(want, dict):
        return _in_object(have, want, last if isinstance(last, dict) else {}, at)
    if isinstance(have, list) and isinstance(want, list):
        base = last if isinstance(last, list) else []
        if any(isinstance(item, dict) for item in (*want, *base)):
            return _in_array(have, want, base, at)
    if not equal(have, want) and last is not _UNKNOWN and equal(have, last):
        return Step(kind="set", path=at, value=want)
    return None


def _in_object(
    have: dict[str, object], want: dict[str, object], base: dict[str, object], at: Path
) -> Step | None:
    for key, value in want.items():
        if key in have:
            if step := _step(have[key], value, base.get(key, _UNKNOWN), (*at, key)):
                return step
        elif key not in base:  # if it is in `base`, the user has removed it
            return Step(kind="add", path=(*at, key), value=value)
    for key, value in base.items():
        if key not in want and key in have and equal(have[key], value):
            return Step(kind="remove", path=(*at, key))
    return None


def _in_array(have: list[object], want: list[object], base: list[object], at: Path) -> Step | None:
    stale = [index for index, item in enumerate(have) if _has(base, item) and not _has(want, item)]
    new = [item for item in want if not _has(have, item) and not _has(base, item)]
    if not stale and not new:
        # Only the order differs: keep it, unless the plan's order has changed.
        moved = base and not equal(want, base) and not equal(have, want)
        is_reordered = (
            moved and all(_has(want, item) for item in have) and all(_has(have, item) for item in want)
        )
        return Step(kind="set", path=at, value=want) if is_reordered else None
    # Order matters, because the first path mapping that matches is used.
    later = want[next(index for index, item in enumerate(want) if equal(item, new[0])) + 1 :] if new else []
    place = next((index for index, item in enumerate(have) if _has(later, item)), len(have))
    if stale and new and not any(_has(want, item) for item in have[stale[0] : place]) and stale[0] <= place:
        return Step(kind="set", path=(*at, stale[0]), value=new[0])
    if stale:
        return Step(kind="remove", path=(*at, stale[0]))
    return Step(kind="add", path=(*at, place), value=new[0])


def _has(items: list[object], wanted: object) -> bool:
    return any(equal(item, wanted) for item in items)


def apply(edit: Edit, node: Node, step: Step) -> str:
    """Return the text after one step on the value of `node`."""
    *way, end = step.path or (None,)
    for part in way:
        child = node.child(part) if isinstance(part, str) else node.items[part or 0]
        assert child is not None  # noqa: S101 - the step was made from this value
        node = child
    if step.kind == "add":
        if isinstance(end, str):
            return edit.append(node, step.value, key=end)
        if isinstance(end, int) and end < len(node.items):
            return edit.insert_before(node.items[end], step.value)
        return edit.append(node, step.value)
    if isinstance(end, str):
        end = max(index for index, member in enumerate(node.members) if member.key == end)
        target = node.members[end].node
    else:
        target = node if end is None else node.items[end]
    return edit.remove(node, end or 0) if step.kind == "remove" else edit.replace(target, step.value)


def _differences(have: object, want: object, at: Path = ()) -> Iterator[str]:
    """Yield a phrase for each difference between a merged value and the wanted one: `port is 6000, not 5678`."""
    name = " > ".join(str(part) for part in at)
    if isinstance(have, dict) and isinstance(want, dict):
        for key, value in want.items():
            if key in have:
                yield from _differences(have[key], value, (*at, key))
            else:
                yield f"{' > '.join((*map(str, at), key))} is removed"
    elif isinstance(have, list) and isinstance(want, list) and any(isinstance(item, dict) for item in want):
        yield from (f"{name} lacks {_short(item)}" for item in want if not _has(have, item))
    elif not equal(have, want):
        yield f"{name} is {_short(have)}, not {_short(want)}"


def _short(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _MAX_SHOWN_CHARS else text[: _MAX_SHOWN_CHARS - 3] + "..."
