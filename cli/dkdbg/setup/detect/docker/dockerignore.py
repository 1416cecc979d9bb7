"""Check whether a .dockerignore excludes bytecode, which a start under the debugger may create."""

from __future__ import annotations

import re

#: Patterns, without slashes around them, that match bytecode in every folder. Without `**/` they would match in the
#: context's own folder only. Source: the Dockerfile reference, .dockerignore.
_BYTECODE = re.compile(r"\*\*/(?:__pycache__(?:/\*\*?)?|\*\.py(?:c|\?|\[\w*c\w*\]))|\*\*?")


def keeps_bytecode_out(text: str) -> bool:
    """Return whether every `__pycache__` is excluded from the build.

    Args:
        text: content of the .dockerignore; the last matching pattern decides, so only those after the last `!` count.
    """
    found = False
    for line in text.splitlines():
        pattern = line.strip()
        if pattern.startswith("!"):
            found = False
        elif not pattern.startswith("#"):
            found = found or _BYTECODE.fullmatch(pattern.removeprefix("./").strip("/")) is not None
    return found
