"""Rate the requirements of a launch line: machines, secrets, values to fill in, a display."""

from __future__ import annotations

import re

from dkdbg.launchers.lines.blanks import has_blank

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from dkdbg.launchers.launcher import Launch

_MANY = re.compile(
    r"--(?:nproc[-_]per[-_]node|num[-_]processes|num[-_]gpus?|n?gpus?|devices|gpus[-_]per[-_]node|nnodes|num[-_](?:nodes|machines))[= ](\d+)\b"
)
_MACHINE = re.compile(r"--(?:tpu|multi[-_]host|hostfile|slurm)\b|\btpu[_-]|CUDA_VISIBLE_DEVICES=\d+(?:,\d+)+")
_SECRET = re.compile(
    r"--(?:hub|hf|hugging[-_]?face|api|auth|access|wandb|openai)[-_]?(?:token|key|secret)\b|--(?:token|api-?key)[= ]|--push[-_]to[-_]hub\b",
    re.IGNORECASE,
)
#: GUI toolkits, which fail without a display, as in a container.
_WINDOWS = frozenset(
    {"tkinter", "customtkinter", "PySimpleGUI", "FreeSimpleGUI", "PyQt5", "PyQt6", "PySide2", "PySide6", "wx", "kivy", "dearpygui", "pystray"}
)  # fmt: skip


def burden(launch: Launch) -> float:
    """Return the penalty of a command line that does not run everywhere, 0 if it does."""
    text = launch.command
    points = 0.0
    if has_blank(text):
        points += 3
    if any(int(match[1]) > 1 for match in _MANY.finditer(text)) or _MACHINE.search(text):
        points += 1
    if _SECRET.search(text):
        points += 3
    return points


#: Calls that fail, or end the program, if standard input is not a terminal; shutil.get_terminal_size() is harmless.
_TERMINAL = re.compile(
    r"stty size|(?<!shutil\.)\bos\.get_terminal_size\(|\bcurses\.(?:initscr|wrapper)\(|\btermios\.tcgetattr\(|\btty\.set(?:raw|cbreak)\("
)


def terminal_asked(sources: Iterable[tuple[str, str]]) -> str:
    """Return where one of (path, text) requires a terminal, as `file:line: call`; empty if none does."""
    for path, text in sources:
        if match := _TERMINAL.search(text):
            return f"{path}:{text.count(chr(10), 0, match.start()) + 1}: {match[0].rstrip('(')}"
    return ""


def shows_windows(imports: frozenset[str]) -> bool:
    """Return whether a program with these imports opens windows."""
    return bool(imports & _WINDOWS)
