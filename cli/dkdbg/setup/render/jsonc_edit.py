"""Edit one value at a time in JSON with comments, as text: every other byte stays as it is."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dkdbg.errors import EXIT_CONFLICT, DkdbgError
from dkdbg.setup.render.jsonc_tree import BOM, Node, begins_line, indent_unit, line_indent, parse, position

if TYPE_CHECKING:
    from collections.abc import Sequence

#: VS Code's indentation of new files.
DEFAULT_INDENT = "    "
#: Maximum columns of an array of scalars that is written on one line.
LINE_WIDTH = 88
_GAP = re.compile(r"(?:[ \t\r\n]|//[^\r\n]*|/\*.*?\*/)*", re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class Edit:
    """A parsed text and its formatting style."""

    text: str
    file: str
    root: Node | None
    newline: str
    indent: str

    @classmethod
    def of(cls, text: str, file: str) -> Edit:
        """Parse `text`; `file` is the file's name for messages."""
        root = parse(text, file=file)
        crlf = text.count("\r\n")
        newline = "\r\n" if crlf > text.count("\n") - crlf else "\n"
        indent = (root and indent_unit(text, root)) or DEFAULT_INDENT
        return cls(text=text, file=file, root=root, newline=newline, indent=indent)

    def container(self, path: Sequence[str], kind: type[list[object] | dict[str, object]]) -> Node | None:
        """Return the array or object at `path`; None if it is missing.

        Raises:
            DkdbgError: a value on the path has another type.
        """
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
        """Return the text with a new value at `path`, which is not in use, and with missing parents."""
        node, depth = self.root, 0
        while node is not None and depth < len(path) and (child := node.child(path[depth])) is not None:
            node, depth = child, depth + 1
        for key in reversed(path[depth + 1 :] if node else path):
            value = {key: value}
        if node is None:
            return self._with_root(value)
        return self.append(node, value, key=path[depth])

    def _with_root(self, value: object) -> str:
        """Return the text with a root value appended; before, it has at most comments."""
        body = self._render(value, "") + self.newline
        comments = self.text.rstrip(" \t\r\n")
        return (comments if comments in {"", BOM} else comments + self.newline) + body

    def replace(self, node: Node, value: object) -> str:
        """Return the text with `node` replaced by `value`."""
        body = self._render(value, line_indent(self.text, node.start))
        return self.text[: node.start] + body + self.text[node.end :]

    def insert_before(self, item: Node, value: object) -> str:
        """Return the text with `value` inserted before `item` of an array."""
        outer = line_indent(self.text, item.start)
        gap = self.newline + outer if begins_line(self.text, item.start) else " "
        return self.text[: item.start] + self._render(value, outer) + "," + gap + self.text[item.start :]

    def remove(self, container: Node, index: int) -> str:
        """Return the text without the member or item number `index` of `container`; comments around it stay."""
        spans = [(member.start, member.node.end) for member in container.members]
        spans = spans or [(item.start, item.end) for item in container.items]
        start, end = spans[index]
        comma = _comma(self.text, end)
        if comma is None and index:  # the last item: remove the comma before it
            comma = _comma(self.text, spans[index - 1][1])
        text = self.text[:start] + self.text[end:]
        if comma is not None:
            comma -= end - start if comma >= end else 0
            text = text[:comma] + text[comma + 1 :]
            start -= comma < start
        return _without_gap(text, start)

    def append(self, container: Node, value: object, *, key: str | None = None) -> str:
        """Return the text with `value` as last item of `container`; with `key`, as last member."""
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
        # All on one line: append after the last child, and before a comment there.
        at = container.comma_end or container.last_end
        return self.text[:at] + ("" if comma else ",") + " " + body + comma + self.text[at:]

    def _fill(self, container: Node, prefix: str, value: object) -> str:
        """Return the text with `value` as the only child of an empty container, on a line of its own."""
        outer = line_indent(self.text, container.start)
        body = self.newline + outer + self.indent + prefix
        body += self._render(value, outer + self.indent, column=len(prefix))
        space = self.text[container.content_end : container.end - 1]
        if "\n" not in space:
            space = self.newline + outer
        return self.text[: container.content_end] + body + space + self.text[container.end - 1 :]

    def _render(self, value: object, outer: str, *, column: int = 0) -> str:
        """Return `value` as text. Its first line comes after `column` characters; `outer` indents the other lines."""
        return self.newline.join(_lines(value, outer=outer, unit=self.indent, column=column))


def _lines(value: object, *, outer: str, unit: str, column: int) -> list[str]:
    """Return the lines of `value`, all but the first one indented."""
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


def equal(left: object, right: object) -> bool:
    """Return whether two values are equal in JSON: `true` is not 1, and the order of keys does not matter."""
    return json.dumps(left, sort_keys=True) == json.dumps(right, sort_keys=True)


def _comma(text: str, offset: int) -> int | None:
    """Return the offset of the comma after a value that ends at `offset`; None without a comma."""
    gap = _GAP.match(text, offset)
    at = gap.end() if gap else offset
    return at if text[at : at + 1] == "," else None


def _without_gap(text: str, offset: int) -> str:
    """Return `text` without the empty line or extra space that is left at `offset` after a removal."""
    start = len(text[:offset].rstrip(" \t"))
    end = offset + len(text[offset:]) - len(text[offset:].lstrip(" \t"))
    if text[:start].endswith(("\n", "\r")) and text[end : end + 1] in {"\n", "\r"}:
        return text[:start] + text[end:].removeprefix("\r").removeprefix("\n")
    if text[end : end + 1] in {"]", "}"}:
        return text[:start] + text[end:]
    return text[:offset] + text[end:]
