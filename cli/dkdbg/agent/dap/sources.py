"""Compare source files at both ends of an attach by their lines, regardless of line endings."""

from __future__ import annotations

import hashlib
import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict

#: Maximum bytes of a file to read.
MAX_BYTES = 4 << 20


def describe(path: str) -> Dict[str, Any]:
    """Return digest, number of lines, line endings and times (epoch seconds) of a regular file.

    `line_ends` is `CRLF`, `LF`, `mixed`, or empty without any. `changed` is the mtime, which is copied along with
    a file. `placed`, the ctime, is when the file came to this machine, by this machine's clock.

    Return an empty dict for a path that is not absolute, and for a file that is missing, not readable or larger
    than MAX_BYTES.
    """
    if not os.path.isabs(path):
        return {}
    try:
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as source:
            found = os.fstat(source.fileno())
            if not stat.S_ISREG(found.st_mode) or found.st_size > MAX_BYTES:
                return {}
            raw = source.read(MAX_BYTES)
    except (OSError, ValueError):
        return {}
    windows, ends, content = raw.count(b"\r\n"), raw.count(b"\n"), raw.replace(b"\r\n", b"\n")
    return {
        "digest": hashlib.sha256(content).hexdigest(),
        "lines": ends + (not content.endswith(b"\n") and bool(content)),
        "line_ends": "" if not ends else "LF" if not windows else "CRLF" if windows == ends else "mixed",
        "changed": found.st_mtime,
        "placed": found.st_ctime,
    }
