"""Strip comments and docstrings from the agent's sources: the single file has to fit into a ConfigMap (ADR 20).

They are a third of the sources. Lines keep their numbers, so that a traceback fits the sources of this version. A
pattern is used because a parser would take ten times as long as the rest of the build. A test checks for every file of
the agent that nothing else is stripped.
"""

from __future__ import annotations

import re

_TRIPLE = r'"{3}(?:[^"\\]|\\.|"(?!""))*"{3}'
#: A docstring and a comment on lines of their own, and the strings and comments that may contain similar text.
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
    """Return a Python source without comments and docstrings; each line keeps its number."""
    return _PIECES.sub(_kept, source.decode()).encode()


def _kept(piece: re.Match[str]) -> str:
    if piece["docstring"] is not None:
        return f'{piece["indent"]}""' + "\n" * piece["docstring"].count("\n")
    return "" if piece["comment"] is not None else piece.group()
