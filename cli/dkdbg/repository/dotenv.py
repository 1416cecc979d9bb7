"""Read and set a value of a .env file, and keep the rest to the byte."""

from __future__ import annotations

import re


def decode(data: bytes | None) -> str:
    """Return the text of a .env file, empty for no file; `encode` restores bytes that are not UTF-8."""
    return "" if data is None else data.decode("utf-8", errors="surrogateescape")


def encode(text: str) -> bytes:
    """Return the bytes of a text from `decode`."""
    return text.encode("utf-8", errors="surrogateescape")


def value_of(text: str, key: str) -> str | None:
    """Return compose's value for `key`: the last assignment, without quotes and trailing comment."""
    found = None
    for line in text.split("\n"):
        match = re.match(rf"\s*(?:export\s+)?{re.escape(key)}\s*=\s*(.*?)\s*$", line.lstrip("\ufeff"))
        if match:
            raw = match.group(1)
            quoted = re.match(r"""(["'])(.*)\1""", raw)
            found = quoted.group(2) if quoted else re.split(r"\s#", raw)[0].strip()
    return found


def with_value(text: str, key: str, value: str) -> str:
    """Return `text` with `key` set: replace dkdbg's own line, or append one, which takes precedence in compose."""
    if value_of(text, key) == value:
        return text
    newline = "\r\n" if "\r\n" in text else "\n"
    mark = f"{key}={value}  # dkdbg"
    ours = re.compile(rf"^{re.escape(key)}=.*  # dkdbg(?=\r?$)", re.MULTILINE)
    replaced = ours.sub(lambda _: mark, text)
    if value_of(replaced, key) == value:
        return replaced
    # A later line of the user's would take precedence.
    text = re.sub(rf"^{re.escape(key)}=.*  # dkdbg\r?\n", "", text, flags=re.MULTILINE)
    gap = "" if not text or text.endswith("\n") else newline
    return f"{text}{gap}{mark}{newline}"
