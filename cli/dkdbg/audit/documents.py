"""Parse YAML, and JSON with comments, into values with line numbers.

The texts are untrusted: aliases are shared instead of expanded, and size and nesting are limited.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.nodes import MappingNode, SequenceNode

from dkdbg.errors import DkdbgError
from dkdbg.setup.detect import values
from dkdbg.setup.render import jsonc_tree

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Maximum number of values in a file. Values that a merge key (`<<`) copies count again.
_MAX_VALUES = 100_000


@dataclass(frozen=True, eq=False)
class Value:
    """A value of a document.

    Attributes:
        line: first line of the value, or of its key in a mapping; counted from 1.
        text: text of a scalar, as written; empty for other values.
        items: elements of a sequence.
        members: values of a mapping by key, with YAML's merge keys resolved.
        block: whether the text is a YAML block (`|`, `>`), which begins on the line after `line`.
    """

    line: int
    text: str = ""
    items: tuple[Value, ...] = ()
    members: dict[str, Value] | None = None
    block: bool = False

    def get(self, *keys: str) -> Value:
        """Return the value at this path of keys; an empty Value if a key is missing."""
        found = self
        for key in keys:
            found = (found.members or {}).get(key, Value(found.line))
        return found

    def pairs(self) -> Iterator[tuple[str, Value]]:
        """Yield each key of a mapping with its value."""
        yield from (self.members or {}).items()

    def each(self) -> tuple[Value, ...]:
        """Return the elements of a sequence; for a scalar, a tuple of the scalar."""
        return self.items or ((self,) if self.text else ())

    def command(self) -> str:
        """Return the command line in this value, which is a string or a list of words."""
        return self.text or " ".join(each.text for each in self.items)

    def commands(self, seen: set[int] | None = None) -> Iterator[Value]:
        """Yield possible command lines in this value: each string, and each list of words."""
        seen = set() if seen is None else seen
        content = id(self.members or self.items or self)  # each use of an alias is another `Value`
        if content in seen:
            return
        seen.add(content)
        if self.text or (self.items and all(_A_WORD.fullmatch(each.text) for each in self.items)):
            yield self
        else:
            for below in (*(self.members or {}).values(), *self.items):
                yield from below.commands(seen)


_A_WORD = re.compile(r"\S+")


class UnreadableError(Exception):
    """The document is malformed or too large; the message is the reason."""


#: Directives of Helm and Jinja templates that fill a line (_ALONE), or are part of one (_INLINE).
_ALONE = re.compile(
    r"^[ \t]{0,200}(?:-[ \t]{1,20})?(?:\{\{[^\n]{0,500}\}\}|\{%[^\n]{0,500}%\})[ \t]{0,20}$", re.MULTILINE
)
_INLINE = re.compile(r"\{\{[^\n}]{0,200}\}\}|\{%[^\n%]{0,200}%\}")


def without_directives(text: str) -> str:
    """Return a YAML template without its directives. All branches of conditions and the line numbers stay."""
    return _INLINE.sub("x", _ALONE.sub("", text))


def yaml_documents(text: str) -> list[Value]:
    """Return the documents of a YAML file. Raises UnreadableError: the file is malformed or too large."""
    try:
        values.check_text(text)
        yaml = YAML(typ="safe", pure=True)
        nodes = [each for each in yaml.compose_all(text) if each is not None]
        reader = _Reader()
        return [reader.value(each) for each in nodes]
    except YAMLError as error:
        position = getattr(error, "problem_mark", None)
        raise UnreadableError(
            f"not valid YAML{f' in line {position.line + 1}' if position else ''}"
        ) from error
    except RecursionError as error:
        raise UnreadableError("it is nested too deeply") from error
    except ValueError as error:
        raise UnreadableError(str(error)) from error


@dataclass
class _Reader:
    """Turns YAML nodes into values. The nodes must stay alive, because `seen` and `depths` are keyed by their `id`."""

    seen: dict[int, Value] = field(default_factory=dict)
    depths: dict[int, int] = field(default_factory=dict)
    left: int = _MAX_VALUES

    def value(self, node: Any) -> Value:  # noqa: ANN401 - a node of ruamel.yaml
        if id(node) in self.seen:
            return self.seen[id(node)]
        line = node.start_mark.line + 1
        if isinstance(node, MappingNode):
            members: dict[str, Value] = {}
            found = self.seen[id(node)] = Value(line, members=members)
            for key, value in node.value:
                if key.value == "<<" and isinstance(value, (MappingNode, SequenceNode)):
                    for base in value.value if isinstance(value, SequenceNode) else (value,):
                        merged = self.value(base).members or {}
                        self._spend(len(merged))
                        members.update({k: v for k, v in merged.items() if k not in members})
                elif isinstance(key.value, str):
                    below = self.value(value)
                    # A finding in an aliased value is reported at the alias, not at the anchor.
                    anchored = value.start_mark.line < key.start_mark.line
                    members[key.value] = Value(key.start_mark.line + 1, below.text, below.items, below.members, block=below.block and not anchored) if below.text or anchored else below  # fmt: skip
        elif isinstance(node, SequenceNode):
            self.seen[id(node)] = Value(line)  # for an alias in this sequence that refers to the sequence
            found = self.seen[id(node)] = Value(line, items=tuple(map(self.value, node.value)))
        else:
            found = self.seen[id(node)] = Value(line, text=str(node.value), block=node.style in {"|", ">"})
        self._spend(1)
        # `seen` resolves an alias without recursion, so a value can be nested deeper than this method recurses.
        children = () if isinstance(node.value, str) else node.value
        nodes = (each for pair in children for each in (pair if isinstance(pair, tuple) else (pair,)))
        depth = 1 + max((self.depths.get(id(each), 0) for each in nodes), default=0)
        if depth > values.MAX_DEPTH:
            raise ValueError("it is nested too deeply")
        self.depths[id(node)] = depth
        return found

    def _spend(self, count: int) -> None:
        self.left -= count
        if self.left < 0:
            raise ValueError("it has too many values")


def json_document(text: str) -> Value:
    """Return the value of a JSON text with comments, as editors write it. Raises UnreadableError: it is malformed."""
    try:
        root = jsonc_tree.parse(text, file="")
    except (DkdbgError, RecursionError) as error:
        raise UnreadableError(str(error)) from error
    starts = [0, *(at + 1 for at, char in enumerate(text) if char == "\n")]
    return Value(1) if root is None else _of_json(root, root.start, starts)


def _of_json(node: jsonc_tree.Node, start: int, starts: list[int]) -> Value:
    line = bisect_right(starts, start)
    if isinstance(node.value, dict):
        members = {each.key: _of_json(each.node, each.start, starts) for each in node.members}
        return Value(line, members=members)
    if isinstance(node.value, list):
        return Value(line, items=tuple(_of_json(each, each.start, starts) for each in node.items))
    return Value(line, text=str(node.value).lower() if isinstance(node.value, bool) else str(node.value))
