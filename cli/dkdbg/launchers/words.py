"""Words of a command line: tell options from their values, and join words for display."""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

PYTHON_FILE = r"[^\s\"'=:]*\.py"
DOTTED = r"[A-Za-z_][\w.]*"
_APP = r"([A-Za-z_][\w.]*):([A-Za-z_][\w.]*)(?:\(.*\))?"
_PLAIN = r"[\w@%+=:,./\-~$<>{}*\[\]]+"


def positionals(rest: Sequence[str], value_options: Collection[str]) -> Iterator[tuple[int, str]]:
    """Yield index and word of everything that is neither an option nor an option's value."""
    is_value = False
    for place, word in enumerate(rest):
        if is_value:
            is_value = False
        elif word.startswith("-") and word != "-":
            is_value = word in value_options
        else:
            yield place, word


def value_of(rest: Sequence[str], options: Collection[str]) -> str | None:
    """Return the value of the first of these options, None when none is given."""
    for place, word in enumerate(rest):
        option, equals, value = word.partition("=")
        if option in options:
            return value if equals else rest[place + 1] if place + 1 < len(rest) else None
    return None


def whole_number(text: str, max_value: int = 10**18 - 1) -> int | None:
    """Return a text of ASCII digits as a number; None for any other text, and above `max_value`."""
    # int() rejects `²`, although isdigit() accepts it, and more than 4300 digits.
    found = int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None
    return found if found is not None and found <= max_value else None


def is_python_file(word: str) -> bool:
    """Return whether a word is the path of a Python file."""
    return re.fullmatch(PYTHON_FILE, word) is not None


def is_dotted(word: str) -> bool:
    """Return whether a word can be the name of a module."""
    return re.fullmatch(DOTTED, word) is not None


def app_module(word: str) -> str | None:
    """Return the module of `module:app` or `module:make()`, None for anything else."""
    match = re.fullmatch(_APP, word)
    return match.group(1) if match else None


def split(text: str) -> list[str]:
    """Split as a shell does, or at whitespace if a quote is not closed."""
    import shlex  # noqa: PLC0415 (the agent splits nothing)

    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def join(words: Sequence[str]) -> str:
    """Join for display: quote only words that the shell would split or change.

    Do not quote the words of a command substitution, which was split like other text.
    """
    import shlex  # noqa: PLC0415 (the agent joins nothing)

    if any("$(" in word or "`" in word for word in words):
        return " ".join(words)
    return " ".join(word if re.fullmatch(_PLAIN, word) else shlex.quote(word) for word in words)
