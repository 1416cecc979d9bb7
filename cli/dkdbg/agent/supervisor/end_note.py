"""The message to the editor at the program's end: its exit code or signal and, where known, the reason."""

from __future__ import annotations

from dkdbg.agent import console, contract

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List

#: Maximum lines of stderr, and characters of each.
MAX_LINES = 12
MAX_LINE_CHARS = 300


def compose(code: int, end: str, words: str, name: str = "") -> str:
    """Return the message.

    Args:
        code: the exit code. end: its description, `exited with code 1`.
        words: the last stderr output; empty where unknown.
        name: name of the process that wrote it; empty for the program itself.
    """
    text = headline(code, end)
    if code == 0:
        return text
    lines = last_lines(words)
    if not lines:
        return text + "; what it said is in its log"
    return "%s; %s last on stderr:\n%s" % (text, name + " said" if name else "it said", "\n".join(lines))


def headline(code: int, end: str) -> str:
    """Return the first part, without the reason."""
    return "the program %s%s" % (end, _MEANINGS.get(code, ""))


def last_lines(words: str) -> List[str]:
    """Return the last lines of a program's output, printable and indented."""
    lines = [line.rpartition("\r")[2].rstrip() for line in words.replace("\r\n", "\n").split("\n")]
    found = [console.printable(line) for line in lines if line][-MAX_LINES:]
    return ["  " + (line if len(line) <= MAX_LINE_CHARS else line[:MAX_LINE_CHARS] + "...") for line in found]


_MEANINGS = {
    contract.EXIT_NOT_FOUND: ", as a shell does when it does not find a command",
    contract.EXIT_NOT_EXECUTABLE: ", as a shell does when it may not execute a file",
}
