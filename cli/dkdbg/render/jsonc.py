"""Edits JSON with comments as text: our entries change, every other byte of the file stays as it is."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dkdbg.errors import EXIT_CONFLICT, DkdbgError
from dkdbg.render.jsonc_tree import BOM, Node, begins_line, indent_unit, line_indent, parse, position

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dkdbg.render.jsonc_tree import JsonValue

#: VS Code's own indentation of files that it creates.
DEFAULT_INDENT = "    "
#: Arrays of scalars stay on one line up to this column.
LINE_WIDTH = 88


def decode(data: bytes, *, file: str) -> str:
    """Return the text of a file, byte order mark and line ends kept, so that `text.encode()` is `data` again.

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
        DkdbgError: the text is not valid; the message says file, line, column and what was expected there.
    """
    root = parse(text, file=file)
    return {} if root is None else root.value


def upsert(
    text: str, path: Sequence[str], key_field: str, value: Mapping[str, object], *, file: str = "JSON text"
) -> str:
    """Return `text` with `value` in the array at `path`, in the place of the first object of the same `key_field`.

    Such an object that is equal already is left alone with its comments; without one `value` is appended. Missing
    objects and the array on the way of `path` are made. Further objects of the same `key_field` are left alone.

    Raises:
        DkdbgError: the text is not valid, or `path` leads through or to a value of another kind.
    """
    edit = _Edit.of(text, file)
    array = edit.container(path, list)
    if array is None:
        return edit.insert_at(path, [value])
    for item in array.items:
        if isinstance(item.value, dict) and item.value.get(key_field) == value[key_field]:
            return text if _equal(item.value, value) else edit.replace(item, value)
    return edit.append(array, value)


def set_if_absent(text: str, path: Sequence[str], value: object, *, file: str = "JSON text") -> str:
    """Return `text` with `value` at `path`, unless anything, `null` too, is there already.

    Raises:
        DkdbgError: the text is not valid, or `path` leads through a value that is no object.
    """
    edit = _Edit.of(text, file)
    parent = edit.container(path[:-1], dict)
    if parent is not None and parent.child(path[-1]) is not None:
        return text
    return edit.insert_at(path, value)


def append_unique(
    text: str, path: Sequence[str], item: str | float | bool | None, *, file: str = "JSON text"
) -> str:
    """Return `text` with the scalar `item` in the array at `path`, appended unless an equal one is there.

    Raises:
        DkdbgError: the text is not valid, or `path` leads through or to a value of another kind.
    """
    edit = _Edit.of(text, file)
    array = edit.container(path, list)
    if array is None:
        return edit.insert_at(path, [item])
    if any(_equal(present.value, item) for present in array.items):
        return text
    return edit.append(array, item)


@dataclass(frozen=True, kw_only=True)
class _Edit:
    """The text of one file, parsed, with the habits that new text follows."""

    text: str
    file: str
    root: Node | None
    newline: str
    indent: str

    @classmethod
    def of(cls, text: str, file: str) -> _Edit:
        root = parse(text, file=file)
        crlf = text.count("\r\n")
        newline = "\r\n" if crlf > text.count("\n") - crlf else "\n"
        indent = (root and indent_unit(text, root)) or DEFAULT_INDENT
        return cls(text=text, file=file, root=root, newline=newline, indent=indent)

    def container(self, path: Sequence[str], kind: type[list[object] | dict[str, object]]) -> Node | None:
        """Return the array or object at `path`; None when it, or something on the way, is missing."""
        node = self.root
        for depth in range(len(path) + 1):
            if node is None:
                return None
            wanted = kind if depth == len(path) else dict
            if not isinstance(node.value, wanted):
                self._fail_kind(node, path[:depth], "an array" if wanted is list else "an object")
            if depth < len(path):
                node = node.child(path[depth])
        return node

    def _fail_kind(self, node: Node, path: Sequence[str], expected: str) -> None:
        line, column = position(self.text, node.start)
        where = " > ".join(path) or "the file"
        raise DkdbgError(
            f"{self.file}:{line}:{column}: {where} must be {expected}, found {self.text[node.start : node.start + 20]!r}",
            hint=f"Change or remove {where} in {self.file}, then try again.",
            exit_code=EXIT_CONFLICT,
        )

    def insert_at(self, path: Sequence[str], value: object) -> str:
        """Return the text with a new member at `path`, where no such member is, and the objects on its way."""
        node, depth = self.root, 0
        while node is not None and depth < len(path) and (child := node.child(path[depth])) is not None:
            node, depth = child, depth + 1
        for key in reversed(path[depth + 1 :] if node else path):
            value = {key: value}
        if node is None:
            return self._with_root(value)
        return self.append(node, value, key=path[depth])

    def _with_root(self, value: object) -> str:
        """Return a text that held no value, its comments kept, with a root."""
        body = self._render(value, "") + self.newline
        comments = self.text.rstrip(" \t\r\n")
        return (comments if comments in {"", BOM} else comments + self.newline) + body

    def replace(self, node: Node, value: object) -> str:
        """Return the text with `value` in the place of `node`."""
        body = self._render(value, line_indent(self.text, node.start))
        return self.text[: node.start] + body + self.text[node.end :]

    def append(self, container: Node, value: object, *, key: str | None = None) -> str:
        """Return the text with `value` as last item (or, with `key`, last member) of `container`."""
        prefix = "" if key is None else _scalar(key) + ": "
        if container.last_end is None:
            return self._fill(container, prefix, value)
        starts = [member.start for member in container.members] or [item.start for item in container.items]
        outer = line_indent(self.text, starts[-1])
        body = prefix + self._render(value, outer, column=len(prefix))
        comma = "" if container.comma_end is None else ","
        if begins_line(self.text, starts[-1]):
            between = self.text[container.last_end : container.content_end]
            body = ("" if comma else ",") + between + self.newline + outer + body + comma
            return self.text[: container.last_end] + body + self.text[container.content_end :]
        # Everything on one line: stay there, directly after the last child, in front of its comment.
        at = container.comma_end or container.last_end
        return self.text[:at] + ("" if comma else ",") + " " + body + comma + self.text[at:]

    def _fill(self, container: Node, prefix: str, value: object) -> str:
        """Return the text with a first child in an empty container, which then spans lines."""
        outer = line_indent(self.text, container.start)
        body = self.newline + outer + self.indent + prefix
        body += self._render(value, outer + self.indent, column=len(prefix))
        space = self.text[container.content_end : container.end - 1]
        if "\n" not in space:
            space = self.newline + outer
        return self.text[: container.content_end] + body + space + self.text[container.end - 1 :]

    def _render(self, value: object, outer: str, *, column: int = 0) -> str:
        """Return `value` as text whose further lines start with `outer`; `column` is taken on the first line."""
        return self.newline.join(_lines(value, outer=outer, unit=self.indent, column=column))


def _lines(value: object, *, outer: str, unit: str, column: int) -> list[str]:
    """Return the lines of `value`, all but the first with their indentation."""
    if isinstance(value, dict) and value:
        children = [(f"{_scalar(key)}: ", child) for key, child in value.items()]
        brackets = "{}"
    elif isinstance(value, (list, tuple)) and value:
        line = "[" + ", ".join(_scalar(item) for item in value) + "]"
        is_flat = not any(isinstance(item, (dict, list, tuple)) for item in value)
        if is_flat and len(outer.expandtabs(4)) + column + len(line) <= LINE_WIDTH:
            return [line]
        children = [("", child) for child in value]
        brackets = "[]"
    else:
        return [_scalar(value)]
    lines = [brackets[0]]
    for index, (prefix, child) in enumerate(children):
        first, *rest = _lines(child, outer=outer + unit, unit=unit, column=len(prefix))
        lines += [outer + unit + prefix + first, *rest]
        if index < len(children) - 1:
            lines[-1] += ","
    return [*lines, outer + brackets[1]]


def _scalar(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _equal(left: object, right: object) -> bool:
    """Compare as JSON: `true` is not 1, the order of keys does not count."""
    return json.dumps(left, sort_keys=True) == json.dumps(right, sort_keys=True)
