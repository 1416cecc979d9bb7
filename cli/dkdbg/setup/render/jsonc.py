"""Edit our entries in JSON with comments as text, and keep every other byte."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dkdbg.errors import DkdbgError
from dkdbg.setup.render import jsonc_merge
from dkdbg.setup.render.jsonc_edit import Edit, equal
from dkdbg.setup.render.jsonc_tree import parse

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dkdbg.setup.render.jsonc_tree import JsonValue, Node


def decode(data: bytes, *, file: str) -> str:
    """Return the text of a file with byte order mark and line ends, so that `text.encode()` is `data` again.

    Raises:
        DkdbgError: `data` is not UTF-8.
    """
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        message = f"{file}: byte {error.start} is not UTF-8"
        raise DkdbgError(message, hint=f"Save {file} as UTF-8, then try again.") from error


def loads(text: str, *, file: str = "JSON text") -> JsonValue:
    """Return the plain value of JSON with comments; `{}` for a blank file, as VS Code reads it.

    Raises:
        DkdbgError: the text is invalid; the message has file, line, column and the expected token.
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
    """Return `text` with `value` merged into the array at `path`: into the first object with the same `key_field`.

    The merge is key by key: values equal to `last` follow `value`, while values that the user changed, added or
    removed stay, with their comments. Without such an object `value` is appended, and missing parents are created.
    Further objects with the same `key_field` are unchanged.

    Args:
        last: the value of the last merge; None if unknown: every key that differs then is the user's.

    Raises:
        DkdbgError: the text is invalid, or `path` leads through or to a value of another type.
    """
    edit, array, index = _find(text, path, key_field, value[key_field], file)
    if array is None:
        return edit.insert_at(path, [value])
    if index is None:
        return edit.append(array, value)
    while step := jsonc_merge.next_step(array.items[index].value, value, last):
        edit = Edit.of(jsonc_merge.apply(edit, array.items[index], step), file)
        array = edit.container(path, list)
        assert array is not None  # noqa: S101 - a step changes something inside of it
    return edit.text


def overruled(
    text: str,
    path: Sequence[str],
    key_field: str,
    value: Mapping[str, object],
    *,
    file: str = "JSON text",
) -> tuple[str, ...]:
    """Return where the merged `text` differs from `value` by the user's choice, one phrase each.

    Raises:
        DkdbgError: as `upsert`.
    """
    _, array, index = _find(text, path, key_field, value[key_field], file)
    if array is None or index is None:
        return ()
    return tuple(jsonc_merge.differences(array.items[index].value, value))


def drop(
    text: str, path: Sequence[str], key_field: str, last: Mapping[str, object], *, file: str = "JSON text"
) -> str:
    """Return `text` without the object that still equals `last`, and without the array if that empties it.

    Raises:
        DkdbgError: as `upsert`.
    """
    edit, array, index = _find(text, path, key_field, last[key_field], file)
    if array is None or index is None or not equal(array.items[index].value, last):
        return text
    if len(array.items) > 1:
        return edit.remove(array, index)
    parent = edit.container(path[:-1], dict)
    assert parent is not None  # noqa: S101 - it holds the array
    return edit.remove(parent, [member.node for member in parent.members].index(array))


def _find(
    text: str, path: Sequence[str], key_field: str, key: object, file: str
) -> tuple[Edit, Node | None, int | None]:
    """Return the parsed text, the array at `path`, and the index of its first object with the name `key`."""
    edit = Edit.of(text, file)
    array = edit.container(path, list)
    for index, item in enumerate(array.items if array else ()):
        if isinstance(item.value, dict) and item.value.get(key_field) == key:
            return edit, array, index
    return edit, array, None
