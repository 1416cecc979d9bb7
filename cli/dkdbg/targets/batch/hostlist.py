"""Expand Slurm's hostlists, `node-12,node-[22,30-32],gpu[01-02]n[1-2]`, like `scontrol show hostnames`. Pure."""

from __future__ import annotations

import re

#: Maximum number of names in one list: the largest machines have some ten thousand nodes.
MOST = 100_000
#: Maximum characters of a node's name.
_LONGEST = 255
_BRACKETS = re.compile(r"\[([^\[\]]*)\]")
_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")
#: Valid node names: nothing that ssh, srun or a shell would interpret.
_NODE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")


def is_node(name: str) -> bool:
    """Return whether a node may have this name."""
    return len(name) <= _LONGEST and _NODE.fullmatch(name) is not None


def expand(text: str) -> tuple[str, ...]:
    """Return the names that a hostlist stands for, in its order. Raises ValueError: the text is not a hostlist."""
    names: list[str] = []
    for item in _items(text):
        names += _expand_item(item, MOST - len(names))
    if not all(is_node(name) for name in names):
        raise ValueError(f"{text[:100]!r} is not a list of nodes")
    return tuple(names)


def _items(text: str) -> list[str]:
    """Return the parts between those commas that are outside brackets."""
    found, depth, start = [], 0, 0
    for at, char in enumerate(text):
        depth += (char == "[") - (char == "]")
        if char == "," and not depth:
            found.append(text[start:at])
            start = at + 1
    return [each for each in (*found, text[start:]) if each]


def _expand_item(item: str, most: int) -> list[str]:
    names = [""]
    end = 0
    for brackets in _BRACKETS.finditer(item):
        numbers, between = _numbers(brackets[1]), item[end : brackets.start()]
        if len(names) * len(numbers) > most or len(names[0]) + len(between) > _LONGEST:
            raise ValueError(f"{item[:100]!r} is not a list of that many nodes")
        names = [f"{name}{between}{number}" for name in names for number in numbers]
        end = brackets.end()
    if len(names) > most or len(item) - end > _LONGEST:
        raise ValueError(f"{item[:100]!r} is not a list of that many nodes")
    return [name + item[end:] for name in names]


def _numbers(text: str) -> list[str]:
    """Return the numbers of `08-11,20`, with their leading zeros."""
    found: list[str] = []
    for part in text.split(","):
        match = _RANGE.fullmatch(part)
        if match is None:
            raise ValueError(f"{text[:100]!r} is not a list of numbers")
        first, last = match[1], match[2] or match[1]
        count = int(last) - int(first) + 1
        if not 0 < count <= MOST - len(found):
            raise ValueError(f"{text[:100]!r} is not a list of numbers")
        found += [str(number).zfill(len(first)) for number in range(int(first), int(last) + 1)]
    return found
