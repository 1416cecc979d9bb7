"""Compare source files at both ends of an attach by their lines, regardless of line ends."""

from __future__ import annotations

import hashlib
import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict

#: Maximum bytes of a file to read.
MAX_BYTES = 4 << 20


def line_ends(path: str) -> str:
    """Return `CRLF`, `LF`, `mixed`, or an empty text for a file without line ends, or one that cannot be read."""
    try:
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as source:
            if not stat.S_ISREG(os.fstat(source.fileno()).st_mode):
                return ""
            content = source.read(MAX_BYTES)
    except (OSError, ValueError):
        return ""
    windows, all_ends = content.count(b"\r\n"), content.count(b"\n")
    return "" if not all_ends else "LF" if not windows else "CRLF" if windows == all_ends else "mixed"


def look(path: str) -> Dict[str, Any]:
    """Return digest, number of lines and modification time (epoch seconds) of a regular file.

    Empty for a path that is not absolute, and for a file that is missing, not readable or larger than MAX_BYTES.
    """
    if not os.path.isabs(path):
        return {}
    try:
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as source:
            found = os.fstat(source.fileno())
            if not stat.S_ISREG(found.st_mode) or found.st_size > MAX_BYTES:
                return {}
            content = source.read(MAX_BYTES).replace(b"\r\n", b"\n")
    except (OSError, ValueError):
        return {}
    lines = content.count(b"\n") + (not content.endswith(b"\n") and bool(content))
    return {"digest": hashlib.sha256(content).hexdigest(), "lines": lines, "changed": found.st_mtime}
