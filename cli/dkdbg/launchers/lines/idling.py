"""Recognize commands that run no program and keep a container open for a user."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

_SHELLS = frozenset({"sh", "bash", "zsh", "fish"})
#: Programs that show the machine's load.
_MONITORS = frozenset({"nvidia-smi", "nvtop", "gpustat", "rocm-smi", "top", "htop", "watch"})


def idles(argv: tuple[str, ...]) -> bool:
    """Return whether a command only keeps a container open: a bare shell, a sleep, an endless tail, a monitor."""
    if not argv:
        return False
    name = PurePosixPath(argv[0]).name
    if name in _SHELLS:
        rest = " ".join(argv[1:])
        inner = tuple(rest.removeprefix("-c ").split())  # CMD /bin/bash is `/bin/sh -c /bin/bash`
        if rest.startswith("-c ") and inner and PurePosixPath(inner[0]).name in _SHELLS:
            return idles(inner)
        return all(word.startswith("-") and "c" not in word for word in argv[1:]) or bool(
            re.search(r"(sleep\s+(infinity|inf)|tail\s+-f\s+/dev/null|while\s+(true|:|sleep))", rest)
        )
    if name in _MONITORS:
        return True
    return name == "sleep" or (name == "tail" and argv[-1] == "/dev/null")
