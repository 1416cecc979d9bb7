"""What a .dockerignore keeps out of a build, as far as a start under the debugger changes it."""

from __future__ import annotations

import re

#: Patterns, without slashes around them, that match what Python compiles in every folder. One without `**/` would match
#: in the context's own folder alone. Source: the Dockerfile reference, .dockerignore.
_BYTECODE = re.compile(r"\*\*/(?:__pycache__(?:/\*\*?)?|\*\.py(?:c|\?|\[\w*c\w*\]))|\*\*?")


def keeps_bytecode_out(text: str) -> bool:
    """Return whether no `__pycache__` of any folder gets into a build.

    Args:
        text: of the .dockerignore; the last pattern that matches decides, so what comes after the last `!` counts.
    """
    found = False
    for line in text.splitlines():
        pattern = line.strip()
        if pattern.startswith("!"):
            found = False
        elif not pattern.startswith("#"):
            found = found or _BYTECODE.fullmatch(pattern.removeprefix("./").strip("/")) is not None
    return found
