"""Text of strangers made fit for a terminal: containers, programs and file names may hold what would command it.

Escape sequences set a terminal's title, colours and clipboard and overwrite what stands there already; a lone carriage
return does the last too; bidirectional controls (U+202A to U+202E, U+2066 to U+2069) show text in another order than
it has (CVE-2021-42574). Letters of all languages stay as they are.
"""

from __future__ import annotations

import codecs
import re
import unicodedata

#: SGR, which sets colours and weight (ECMA-48, 8.3.117); and what may become one, or the end of a line, with what comes next.
_COLOUR = re.compile(r"(\x1b\[[0-9;:]{0,64}m)")
_UNFINISHED = re.compile(r"(\x1b(\[[0-9;:]{0,64})?|\r)\Z")
_RETURN = re.compile(r"\r(?!\n)")
#: Invisible, and needed between letters: in Persian, in the scripts of India, in emoji.
_JOINERS = "\u200c\u200d"
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def printable(text: object) -> str:
    r"""One line, with everything that is no text escaped: `\x1b`, `\n`, `\u202e`; bytes of a file name that is not UTF-8 too.

    It is for reading: a backslash that stood there before stays as it is.
    """
    shown = str(text)
    if shown.isprintable():
        return shown
    return "".join(each if is_text(each) else _escaped(each) for each in shown)


def printable_lines(text: str) -> str:
    """The same for a text of several lines: their ends and tabs stay."""
    if text.isprintable():
        return text
    return "\n".join(
        "\t".join(map(printable, line.removesuffix("\r").split("\t"))) + ("\r" if line.endswith("\r") else "")
        for line in text.split("\n")
    )


class ForTerminal:
    """A program's output on its way to a terminal: lines, tabs and colours stay, everything else that is no text is escaped.

    A lone carriage return, with which progress bars overwrite their line, ends the line instead.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self._rest = ""

    def __call__(self, data: bytes) -> bytes:
        """Take bytes as they come, none at the end, and return what is shown of them, in UTF-8."""
        text = self._rest + self._decoder.decode(data, final=not data)
        cut = _UNFINISHED.search(text) if data else None
        text, self._rest = (text[: cut.start()], text[cut.start() :]) if cut else (text, "")
        parts = _COLOUR.split(_RETURN.sub("\n", text))  # every second one is a colour
        shown = (part if at % 2 else printable_lines(part) for at, part in enumerate(parts))
        return "".join(shown).encode("utf-8", "backslashreplace")


def is_text(char: str) -> bool:
    """Whether a character is one that a person sees, a space, or what joins letters."""
    return char.isprintable() or char in _JOINERS or unicodedata.category(char) == "Zs"


def _escaped(char: str) -> str:
    code = ord(char)
    if 0xDC80 <= code <= 0xDCFF:  # how Python keeps a byte that it could not decode
        code -= 0xDC00
    if char in _SHORT:
        return _SHORT[char]
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
