"""One value of a .env file, everything else kept to the byte."""

from __future__ import annotations

import re


def decode(data: bytes | None) -> str:
    """The text of a .env file, empty for none; bytes that are no UTF-8 come back unchanged by `encode`."""
    return "" if data is None else data.decode("utf-8", errors="surrogateescape")


def encode(text: str) -> bytes:
    """The bytes of a text that `decode` gave."""
    return text.encode("utf-8", errors="surrogateescape")


def value_of(text: str, key: str) -> str | None:
    """The value that compose takes for `key`: the last assignment, without quotes and trailing comment."""
    found = None
    for line in text.split("\n"):
        match = re.match(rf"\s*(?:export\s+)?{re.escape(key)}\s*=\s*(.*?)\s*$", line.lstrip("\ufeff"))
        if match:
            raw = match.group(1)
            quoted = re.match(r"""(["'])(.*)\1""", raw)
            found = quoted.group(2) if quoted else re.split(r"\s#", raw)[0].strip()
    return found


def with_value(text: str, key: str, value: str) -> str:
    """`text` with `key` set: a line of ours is replaced, else one is added at the end, which wins in compose."""
    if value_of(text, key) == value:
        return text
    newline = "\r\n" if "\r\n" in text else "\n"
    mark = f"{key}={value}  # dkdbg"
    ours = re.compile(rf"^{re.escape(key)}=.*  # dkdbg(?=\r?$)", re.MULTILINE)
    replaced = ours.sub(lambda _: mark, text)
    if value_of(replaced, key) == value:
        return replaced
    # The user's own line below ours would win.
    text = re.sub(rf"^{re.escape(key)}=.*  # dkdbg\r?\n", "", text, flags=re.MULTILINE)
    gap = "" if not text or text.endswith("\n") else newline
    return f"{text}{gap}{mark}{newline}"
