"""What the agent says to the user of the program's terminal or log."""

from __future__ import annotations

import sys


def log(text: str) -> None:
    """Say one line to the user, on stderr: stdout is the program's."""
    try:
        sys.stderr.write("dkdbg: %s\n" % text)
        sys.stderr.flush()
    except (OSError, ValueError):
        pass
