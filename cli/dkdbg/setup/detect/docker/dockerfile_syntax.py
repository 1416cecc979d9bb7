"""Parse Dockerfile syntax: parser directives, continuation lines, here-documents, exec and shell form."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from dkdbg.launchers import words

#: File names of Dockerfiles.
NAME = re.compile(r"(?:[\w.-]+[._-])?(?:Dockerfile|Containerfile)(?:[._-][\w.-]+)?", re.IGNORECASE)
#: `<<EOF` at the end of an instruction.
HEREDOC = re.compile(r"<<-?\s*([\"']?)([A-Za-z_][A-Za-z0-9_]*)\1")
_DIRECTIVE = re.compile(r"#\s*escape\s*=\s*([`\\])\s*$", re.IGNORECASE)
_KEYWORD = re.compile(r"\s*([A-Za-z]+)\s*(.*)", re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class Instruction:
    """An instruction: upper-case keyword, the rest with continuations joined, text and first lines of here-documents."""

    keyword: str
    rest: str
    line: int
    heredocs: tuple[str, ...] = ()
    heredoc_lines: tuple[int, ...] = ()


def parse_instructions(text: str) -> tuple[Instruction, ...]:
    """Return a Dockerfile's instructions in order, each with the number of its first line (from 1)."""
    lines = text.replace("\r\n", "\n").split("\n")
    escape = "\\"
    for line in lines:
        if not line.startswith("#"):
            break
        if match := _DIRECTIVE.match(line):
            escape = match[1]
    found: list[Instruction] = []
    index = 0
    while index < len(lines):
        start = index
        logical, index = _logical_line(lines, index, escape)
        match = _KEYWORD.match(logical)
        if not match:
            continue
        keyword, rest = match[1].upper(), match[2].strip()
        documents: list[str] = []
        begins: list[int] = []
        if keyword in {"RUN", "COPY", "ADD"}:
            for heredoc in HEREDOC.finditer(rest):
                body: list[str] = []
                begins.append(index + 1)
                while index < len(lines) and lines[index].lstrip("\t") != heredoc[2]:
                    body.append(lines[index])
                    index += 1
                index += 1
                documents.append("\n".join(body))
        found.append(
            Instruction(
                keyword=keyword,
                rest=rest,
                line=start + 1,
                heredocs=tuple(documents),
                heredoc_lines=tuple(begins),
            )
        )
    return tuple(found)


def _logical_line(lines: list[str], index: int, escape: str) -> tuple[str, int]:
    parts: list[str] = []
    while index < len(lines):
        line = lines[index]
        index += 1
        stripped = line.strip()
        if stripped.startswith("#") or (parts and not stripped):
            if parts:
                continue
            break
        # BuildKit ignores blanks after the escape character at the end of a line.
        if stripped.endswith(escape):
            parts.append(stripped[:-1])
            continue
        parts.append(stripped)
        break
    return " ".join(parts).strip(), index


def json_words(text: str) -> list[str]:
    """Return the words of an exec form; text that is not JSON is split as a shell does."""
    try:
        words = json.loads(text)
    except (ValueError, RecursionError):
        return split(text)
    return [str(word) for word in words] if isinstance(words, list) else []


#: Maximum characters of an instruction to split as a shell does: for a long word, shlex takes quadratic time.
_MAX_SPLIT = 50_000


def split(text: str) -> list[str]:
    """Split as a shell does, but at blanks if a quote is not closed or the text is longer than _MAX_SPLIT."""
    return text.split() if len(text) > _MAX_SPLIT else words.split(text)


def unquote(text: str) -> str:
    """Return the text without the quotes around it, if any."""
    text = text.strip()
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" else text
