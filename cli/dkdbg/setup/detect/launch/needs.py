"""Tell whether a program requires a terminal or a display."""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

#: GUI toolkits, which fail without a display, as in a container.
_WINDOWS = frozenset(
    {"tkinter", "customtkinter", "PySimpleGUI", "FreeSimpleGUI", "PyQt5", "PyQt6", "PySide2", "PySide6", "wx", "kivy", "dearpygui", "pystray"}
)  # fmt: skip


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
