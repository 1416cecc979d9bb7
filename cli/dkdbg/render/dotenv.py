"""One value of a .env file, everything else kept to the byte."""

from __future__ import annotations

import re


def value_of(text: str, key: str) -> str | None:
    """The value that compose takes for `key`: the last assignment, without quotes and trailing comment."""
    found = None
    for line in text.splitlines():
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
    if ours.search(text):
        return ours.sub(lambda _: mark, text)
    gap = "" if not text or text.endswith("\n") else newline
    return f"{text}{gap}{mark}{newline}"
