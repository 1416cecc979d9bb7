"""What the agent says to the user of the program's terminal or log."""

from __future__ import annotations

import sys


def printable(text: str) -> str:
    """Return one line of a program's words with everything that is no text escaped."""
    return "".join(each if each.isprintable() or each == "\t" else ascii(each)[1:-1] for each in text)


def log(text: str) -> None:
    """Say something to the user, on stderr: stdout is the program's.

    Files and programs are called what others like: nothing of a name commands the terminal.
    """
    try:
        sys.stderr.write("dkdbg: %s\n" % "\n".join(map(printable, text.split("\n"))))
        sys.stderr.flush()
    except (OSError, ValueError):
        pass
