"""Takes the comments and docstrings out of the agent's sources: the single file has to fit into a ConfigMap (ADR 20).

A third of the sources is words. Lines keep their numbers, so that a traceback fits the sources of this version. A
pattern does it and no parser, which would take ten times as long as all the rest of the build; that nothing else
is taken is tested for every file of the agent.
"""

from __future__ import annotations

import re

_TRIPLE = r'"{3}(?:[^"\\]|\\.|"(?!""))*"{3}'
#: A docstring and a comment with a line of their own, and what may hold what looks like one.
_PIECES = re.compile(
    rf"^(?P<indent>[ \t]*)(?P<docstring>{_TRIPLE})$"
    r"|^[ \t]*(?P<comment>\#(?!!)[^\n]*)"
    rf"|{_TRIPLE}"
    r"|'{3}(?:[^'\\]|\\.|'(?!''))*'{3}"
    r'|"(?:[^"\\\n]|\\.)*"'
    r"|'(?:[^'\\\n]|\\.)*'"
    r"|\#[^\n]*",
    re.MULTILINE | re.DOTALL,
)


def without(source: bytes) -> bytes:
    """Return a Python source without what only people read; each line keeps its number."""
    return _PIECES.sub(_kept, source.decode()).encode()


def _kept(piece: re.Match[str]) -> str:
    if piece["docstring"] is not None:
        return f'{piece["indent"]}""' + "\n" * piece["docstring"].count("\n")
    return "" if piece["comment"] is not None else piece.group()
