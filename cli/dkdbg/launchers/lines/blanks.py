"""Find the placeholders of a documented command line: `<port>`, `/path/to/data`, `$OUTPUT_DIR`, `your_...`."""

from __future__ import annotations

import re

from dkdbg.launchers.words import split

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

# `<|im_end|>` is a token of a language model, not a placeholder.
_BLANK = re.compile(
    r"<(?!\|)[^<>]*[^<>|]>|/?path/to|\$\{?\w|\.\.\.|\u2026|\[[A-Z_ ]+\]|\{[a-z_ ]+\}|(?:^|[ =/])(?:YOUR|your)[_-]|\bXXX?\b",
    re.IGNORECASE,
)
_IN_WORDS = re.compile(r"<(?!\|)[^<>\n]*[^<>|\n]>|\{[a-z_ ]+\}")
#: `[--batch-size <size> --tag <tag>]`: optional words; a list of values does not match.
_OPTIONAL = re.compile(r"\[\s*--?[A-Za-z][^\[\]\n]*\]")
#: `$PWD` and `$HOME` have a value wherever a shell runs.
_SET = re.compile(r"\$\{?(?:PWD|HOME|USER)\b\}?")
_KEY_AND_VALUE = re.compile(r"[+~]{0,2}[A-Za-z_][\w./@-]*=")


def has_blank(text: str) -> bool:
    """Return whether a command line, or a word of one, has a placeholder for the user to fill in."""
    return blanks(text) > 0


def blanks(text: str) -> int:
    """Return the number of placeholders in a command line, plus one if it has optional words (`[--option VALUE]`)."""
    whole = _OPTIONAL.sub("", text)
    return len(_BLANK.findall(_SET.sub("", whole))) + (whole != text)


def as_words(command: str) -> tuple[str, ...]:
    """Return the words of a documented line, with a placeholder such as `<path of your data>` as one word.

    A line with unbalanced quotes is split at whitespace; `[--option VALUE]` is left out.
    """
    while (fewer := _OPTIONAL.sub("", command)) != command:
        command = fewer
    return tuple(split(_IN_WORDS.sub(lambda match: re.sub(r"\s+", "_", match[0]), command)))


def without_blanks(argv: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return an argv without the options that have a placeholder, and the removed options as written.

    A shell would read `<port>` as a redirection, and a program would use `/path/to/data` as a folder. The first word
    always stays.
    """
    kept: list[str] = list(argv[:1])
    left: list[str] = []
    for word in argv[1:]:
        if not has_blank(word):
            kept.append(word)
        elif (
            not word.startswith("-")
            and not _KEY_AND_VALUE.match(word)
            and len(kept) > 1
            and kept[-1].startswith("-")
            and "=" not in kept[-1]
            and kept[-1] not in {"-", "--"}
            and (kept[-1] != "-m" or any(each.endswith(".py") for each in kept))
        ):
            left.append(f"{kept.pop()} {word}")
        else:
            left.append(word)
    return tuple(kept), tuple(left)
