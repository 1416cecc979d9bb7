"""Messages from the agent to the user, on the program's terminal or in its log."""

from __future__ import annotations

import os
import sys


def printable(text: str) -> str:
    """Return one line of text from a program with every unprintable character escaped."""
    return "".join(each if each.isprintable() or each == "\t" else ascii(each)[1:-1] for each in text)


def log(text: str) -> None:
    """Write a message to the user on stderr: stdout is the program's.

    Escape unprintable characters: a name of a file or program may hold terminal control sequences.
    """
    try:
        sys.stderr.write("dkdbg: %s\n" % "\n".join(map(printable, text.split("\n"))))
        sys.stderr.flush()
    except (OSError, ValueError):
        pass


def open_closed_streams() -> None:
    """Open the null device on each closed standard descriptor (`<&-`) before another file gets its number.

    Python sets the stream of a closed descriptor to None, and a child would inherit the file that reuses the number.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:  # noqa: PERF203 - one closed descriptor must not skip the others
            # open(2) returns the lowest free number: this one.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
            mode = "w" if number else "r"
            stream = open(number, mode, closefd=False, errors="backslashreplace")  # noqa: SIM115 - open until exit
            setattr(sys, name, stream)
