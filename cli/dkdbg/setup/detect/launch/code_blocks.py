"""Extract the blocks of shell commands from Markdown and reStructuredText."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_SHELL_LANGUAGES = {
    "",
    "bash",
    "sh",
    "shell",
    "console",
    "zsh",
    "shell-session",
    "bat",
    "cmd",
    "powershell",
    "text",
    "txt",
    "none",
    "terminal",
    "commandline",
    "command",
}
_FENCE = re.compile(r"^[\s>]*(`{3,}|~{3,})\s*\{?\.?([\w+-]*)")
_HEADING = re.compile(r" {0,3}(?:#{1,6}(?:\s|$)|=+\s*$|-{3,}\s*$)")
_STARTS_PYTHON = re.compile(r"\s*(?:\$ )?python3? (?:-\w )?[\w./-]+(?:[ \t\n]|$)")


def code_blocks(text: str, *, is_rst: bool = False) -> Iterator[str]:
    """Yield the blocks of shell commands in a Markdown or reStructuredText document."""
    block: list[str] = []
    fence: str | None = None
    language = ""
    blank_before = True
    for line in text.split("\n"):
        match = _FENCE.match(line)
        if fence is not None:
            if match and match[1].startswith(fence) and not match[2]:
                yield from _commands(block, language)
                block, fence, language = [], None, ""
            else:
                block.append(line.lstrip(">") if line.startswith(">") else line)
            continue
        if match:
            if block:
                yield "\n".join(block)
            block, fence, language = [], match[1][:3], match[2]
            continue
        # An indented block; in Markdown only after a blank line or a heading, indented by four columns or a tab.
        indented = bool(re.match(r"(?: {4}|\t)", line)) or (is_rst and line.startswith("  "))
        if indented and (blank_before or block):
            block.append(line.strip())
        elif line.strip():
            if block:
                yield "\n".join(block)
            block = []
        blank_before = not line.strip() or bool(block) or bool(_HEADING.match(line))
    if block and fence is None:
        yield "\n".join(block)
    elif block:
        yield from _commands(block, language)


def _commands(block: list[str], language: str) -> Iterator[str]:
    """Yield a fenced block if it is shell; a block marked as Python may contain the command `python train.py`."""
    if language.lower() in _SHELL_LANGUAGES or (
        language.lower() in {"python", "py"} and _STARTS_PYTHON.match("\n".join(block))
    ):
        yield "\n".join(block)
