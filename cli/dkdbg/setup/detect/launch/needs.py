"""What a shown command line asks for before it runs: machines, secrets, values of a person's, a screen."""

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
#: Toolkits that end at once where there is no screen, as in a container.
_WINDOWS = frozenset(
    {"tkinter", "customtkinter", "PySimpleGUI", "FreeSimpleGUI", "PyQt5", "PyQt6", "PySide2", "PySide6", "wx", "kivy", "dearpygui", "pystray"}
)  # fmt: skip


def burden(launch: Launch) -> float:
    """Return how far a command line is from one that runs anywhere, 0 for one that does."""
    text = launch.command
    points = 0.0
    if has_blank(text):
        points += 3
    if any(int(match[1]) > 1 for match in _MANY.finditer(text)) or _MACHINE.search(text):
        points += 1
    if _SECRET.search(text):
        points += 3
    return points


#: What fails, or ends the program, where standard input is no terminal; shutil.get_terminal_size() does not.
_TERMINAL = re.compile(
    r"stty size|(?<!shutil\.)\bos\.get_terminal_size\(|\bcurses\.(?:initscr|wrapper)\(|\btermios\.tcgetattr\(|\btty\.set(?:raw|cbreak)\("
)


def terminal_asked(sources: Iterable[tuple[str, str]]) -> str:
    """Return where one of (path, text) asks for a terminal, `file:line: words`; empty when none does."""
    for path, text in sources:
        if match := _TERMINAL.search(text):
            return f"{path}:{text.count(chr(10), 0, match.start()) + 1}: {match[0].rstrip('(')}"
    return ""


def shows_windows(imports: frozenset[str]) -> bool:
    """Tell whether a program that imports these opens windows."""
    return bool(imports & _WINDOWS)
