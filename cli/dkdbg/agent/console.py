"""Messages from the agent to the user, on the program's terminal or in its log."""

from __future__ import annotations

import sys


def printable(text: str) -> str:
    """Return one line of text from a program with every unprintable character escaped."""
    return "".join(each if each.isprintable() or each == "\t" else ascii(each)[1:-1] for each in text)


def log(text: str) -> None:
    """Write a message to the user on stderr: stdout is the program's.

    Names of files and programs are escaped: they may hold terminal control sequences.
    """
    try:
        sys.stderr.write("dkdbg: %s\n" % "\n".join(map(printable, text.split("\n"))))
        sys.stderr.flush()
    except (OSError, ValueError):
        pass
