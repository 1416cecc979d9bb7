"""Parse JSON with comments (VS Code's dialect) into nodes that know their offsets in the text."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NoReturn

from dkdbg.errors import DkdbgError

if TYPE_CHECKING:
    from typing import TypeAlias

    #: A plain Python value, as `json.loads` returns it.
    JsonValue: TypeAlias = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"

BOM = "\ufeff"
#: Maximum nesting. The parser recurses, and Python's limit is about 1000 frames; editor settings are much flatter.
MAX_DEPTH = 200

_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"')
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?(?![0-9A-Za-z_.])")
_WORD = re.compile(r"(?:true|false|null)(?![0-9A-Za-z_])")
_SPACE = re.compile(r"[ \t\r\n]+")
_LINE_END = re.compile(r"\r\n|\r|\n")


@dataclass(frozen=True, kw_only=True)
class Member:
    """A `"key": value` in an object; `start` is the offset of the key's first quote."""

    key: str
    start: int
    node: Node


@dataclass(frozen=True, kw_only=True)
class Node:
    """A value, and its offsets in the text.

    Attributes:
        start, end: `text[start:end]` is the value, without surrounding space.
        value: the plain value. Of duplicate keys the last one counts, as in VS Code.
        members: members of an object in the order of the text, duplicates included; empty for other values.
        items: items of an array in the order of the text; empty for other values.
        last_end: offset after the last child, before its comma; None without children.
        comma_end: offset after a trailing comma; None without one.
        content_end: in a container, the offset after the last child, comma or comment before the closing bracket (in an
            empty one, after the opening bracket); for a scalar the same as `end`.
    """

    start: int
    end: int
    value: JsonValue
    members: tuple[Member, ...] = ()
    items: tuple[Node, ...] = ()
    last_end: int | None = None
    comma_end: int | None = None
    content_end: int = 0

    def child(self, key: str) -> Node | None:
        """Return the value of an object's `key`; of duplicate keys the last one counts, as in VS Code."""
        return next((member.node for member in reversed(self.members) if member.key == key), None)


def parse(text: str, *, file: str) -> Node | None:
    """Return the root value; None for a text that has only blanks and comments.

    `file` is the file's name for messages. The text must have the file's own line endings, not translated ones.

    Raises:
        DkdbgError: the text is not JSON with comments; the message has file, line, column (from 1) and the expected
            token.
    """
    return _Parser(text=text, file=file).root()


def position(text: str, offset: int) -> tuple[int, int]:
    """Return line and column of `offset` in characters, both from 1; a byte order mark does not count."""
    line, line_start = 1, int(text.startswith(BOM))
    for line_end in _LINE_END.finditer(text, 0, offset):
        line, line_start = line + 1, line_end.end()
    return line, max(offset - line_start, 0) + 1


def begins_line(text: str, offset: int) -> bool:
    """Return whether only blanks come before `offset` on its line."""
    return text[_line_start(text, offset) : offset].strip(" \t" + BOM) == ""


def line_indent(text: str, offset: int) -> str:
    """Return the indentation of the line that contains `offset`."""
    line = text[_line_start(text, offset) : offset].lstrip(BOM)
    return line[: len(line) - len(line.lstrip(" \t"))]


def indent_unit(text: str, node: Node) -> str | None:
    """Return the further indentation of the first line nested below `node`; None if no line is nested."""
    outer = line_indent(text, node.start)
    children = [(member.start, member.node) for member in node.members] + [
        (item.start, item) for item in node.items
    ]
    for start, child in children:
        own = line_indent(text, start)
        if begins_line(text, start) and own.startswith(outer) and len(own) > len(outer):
            return own[len(outer) :]
        if deeper := indent_unit(text, child):
            return deeper
    return None


def _line_start(text: str, offset: int) -> int:
    return max(text.rfind("\n", 0, offset), text.rfind("\r", 0, offset)) + 1


@dataclass(kw_only=True)
class _Parser:
    text: str
    file: str
    at: int = 0
    #: Offset after the last token (value, comma, bracket, comment), for edits that keep comments.
    token_end: int = field(default=0, init=False)

    def root(self) -> Node | None:
        if self.text.startswith(BOM):
            self.at = 1
        self._skip()
        if self.at == len(self.text):
            return None
        node = self._value(depth=0)
        self._skip()
        if self.at < len(self.text):
            self._fail("the end of the file")
        return node

    def _fail(self, expected: str) -> NoReturn:
        line, column = position(self.text, self.at)
        found = repr(self.text[self.at]) if self.at < len(self.text) else "the end of the file"
        raise DkdbgError(
            f"{self.file}:{line}:{column}: expected {expected}, found {found}",
            hint=f"Correct {self.file} there (JSON with comments and trailing commas), then try again.",
        )

    def _skip(self) -> None:
        """Skip blanks and comments."""
        while True:
            if space := _SPACE.match(self.text, self.at):
                self.at = space.end()
            elif self.text.startswith("//", self.at):
                line_end = _LINE_END.search(self.text, self.at)
                self.at = self.token_end = line_end.start() if line_end else len(self.text)
            elif self.text.startswith("/*", self.at):
                close = self.text.find("*/", self.at + 2)
                if close < 0:
                    self._fail("'*/' for the comment that starts here")
                self.at = self.token_end = close + 2
            else:
                return

    def _peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def _take(self) -> None:
        self.at += 1
        self.token_end = self.at

    def _value(self, *, depth: int) -> Node:
        if depth > MAX_DEPTH:
            self._fail(f"at most {MAX_DEPTH} levels of nesting")
        match self._peek():
            case "{":
                return self._container(depth, "}")
            case "[":
                return self._container(depth, "]")
            case '"':
                start = self.at
                value: JsonValue = self._string()
            case _:
                start = self.at
                word = _WORD.match(self.text, start) or _NUMBER.match(self.text, start)
                if not word:
                    self._fail("a value")
                try:
                    value = json.loads(word.group())
                except ValueError:  # Python converts at most 4300 digits
                    self._fail("a number of at most 4300 digits")
                self.at = self.token_end = word.end()
        return Node(start=start, end=self.at, value=value, content_end=self.at)

    def _string(self) -> str:
        found = _STRING.match(self.text, self.at)
        if not found:
            self._fail("a closed string with valid escapes, starting here")
        self.at = self.token_end = found.end()
        return str(json.loads(found.group()))

    def _container(self, depth: int, close: str) -> Node:
        """Parse an object or array, including its brackets."""
        start = self.at
        self._take()
        members: list[Member] = []
        items: list[Node] = []
        comma_end: int | None = None
        while True:
            self._skip()
            if self._peek() == close:
                break
            if items and comma_end is None:
                self._fail(f"',' or '{close}'")
            key_start = self.at
            key = self._key() if close == "}" else ""
            items.append(self._value(depth=depth + 1))
            members.append(Member(key=key, start=key_start, node=items[-1]))
            comma_end = self._comma()
        content_end = self.token_end
        self._take()
        is_object = close == "}"
        value: JsonValue = {each.key: each.node.value for each in members}
        return Node(
            start=start,
            end=self.at,
            value=value if is_object else [each.value for each in items],
            members=tuple(members) if is_object else (),
            items=() if is_object else tuple(items),
            last_end=items[-1].end if items else None,
            comma_end=comma_end,
            content_end=content_end,
        )

    def _key(self) -> str:
        """Parse a key and its colon; return the key."""
        if self._peek() != '"':
            self._fail("a key in double quotes or '}'")
        key = self._string()
        self._skip()
        if self._peek() != ":":
            self._fail(f"':' after the key {key!r}")
        self._take()
        self._skip()
        return key

    def _comma(self) -> int | None:
        """Parse an optional comma after a child; return the offset after it, None without a comma."""
        self._skip()
        if self._peek() != ",":
            return None
        self._take()
        return self.at
