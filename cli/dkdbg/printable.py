"""Escape text of containers, programs and file names, which may contain terminal control sequences.

Escape sequences set a terminal's title, colours and clipboard, and overwrite text. A lone carriage return
overwrites text, too. Bidirectional controls (U+202A to U+202E, U+2066 to U+2069) show text in another order
(CVE-2021-42574). Letters of all languages stay as they are.
"""

from __future__ import annotations

import codecs
import re
import unicodedata

#: SGR sequences, which set colours and weight (ECMA-48, 8.3.117). `_UNFINISHED` matches an incomplete one, or an
#: incomplete line end, at the end of the data: the next data may complete it.
_COLOUR = re.compile(r"(\x1b\[[0-9;:]{0,64}m)")
_UNFINISHED = re.compile(r"(\x1b(\[[0-9;:]{0,64})?|\r)\Z")
_RETURN = re.compile(r"\r(?!\n)")
#: Invisible characters that join letters: in Persian, in the scripts of India, in emoji.
_JOINERS = "\u200c\u200d"
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def printable(text: object) -> str:
    r"""Return `text` as one line with non-text characters escaped: `\x1b`, `\n`, `\u202e`, undecodable bytes of a file name.

    The result is for reading only: backslashes in the text are not escaped.
    """
    shown = str(text)
    if shown.isprintable():
        return shown
    return "".join(each if is_text(each) else _escaped(each) for each in shown)


def printable_lines(text: str) -> str:
    """Return `text` with non-text characters escaped; line ends and tabs stay."""
    if text.isprintable():
        return text
    return "\n".join(
        "\t".join(map(printable, line.removesuffix("\r").split("\t"))) + ("\r" if line.endswith("\r") else "")
        for line in text.split("\n")
    )


class ForTerminal:
    """Filter for a program's output to a terminal: lines, tabs and colours stay, other non-text characters are escaped.

    A lone carriage return, with which progress bars overwrite their line, becomes a line end.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self._rest = ""

    def __call__(self, data: bytes) -> bytes:
        """Return the bytes to show for the next `data`, in UTF-8; empty `data` marks the end."""
        text = self._rest + self._decoder.decode(data, final=not data)
        cut = _UNFINISHED.search(text) if data else None
        text, self._rest = (text[: cut.start()], text[cut.start() :]) if cut else (text, "")
        parts = _COLOUR.split(_RETURN.sub("\n", text))  # every second part is a colour
        shown = (part if at % 2 else printable_lines(part) for at, part in enumerate(parts))
        return "".join(shown).encode("utf-8", "backslashreplace")


def is_text(char: str) -> bool:
    """Return whether a character is visible, a space, or a joiner of letters."""
    return char.isprintable() or char in _JOINERS or unicodedata.category(char) == "Zs"


def _escaped(char: str) -> str:
    code = ord(char)
    if 0xDC80 <= code <= 0xDCFF:  # surrogateescape: a byte that Python could not decode
        code -= 0xDC00
    if char in _SHORT:
        return _SHORT[char]
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
