"""Read or set a variable in a .env file; every other byte stays as it is."""

from __future__ import annotations

import os
import re
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from dkdbg.repository import transaction

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_ASSIGNMENT = re.compile(r"\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=(.*)")


def decode(data: bytes | None) -> str:
    """Return the text of a .env file ("" if there is no file); `encode` restores bytes that are not UTF-8."""
    return "" if data is None else data.decode("utf-8", errors="surrogateescape")


def encode(text: str) -> bytes:
    """Return the bytes of a text from `decode`, also after changes."""
    return text.encode("utf-8", errors="surrogateescape")


def read(root: Path, key: str) -> str | None:
    """Return a variable as compose resolves it: from the environment, else from .env; None if in neither.

    Raises:
        DkdbgError: the file cannot be read.
    """
    return os.environ.get(key) or _saved(root, key)


def _saved(root: Path, key: str) -> str | None:
    text = transaction.read(root, PurePosixPath(".env"))
    return value_of(text.decode("utf-8", errors="replace"), key) if text else None


def local_port(root: Path, planned: int) -> int:
    """Return the debug port on 127.0.0.1: DKDBG_PORT if that is a valid port, otherwise `planned`."""
    return _port(read(root, "DKDBG_PORT")) or planned


def saved_port(root: Path, planned: int) -> int:
    """Return the debug port for generated files, which do not see this shell's environment: .env, else `planned`."""
    return _port(_saved(root, "DKDBG_PORT")) or planned


def _port(text: str | None) -> int | None:
    is_port = text and re.fullmatch(r"[0-9]{1,5}", text) and 0 < int(text) < 65536
    return int(text) if text and is_port else None


def assignments(text: str) -> Iterator[tuple[str, str]]:
    """Yield names and values in order, as compose reads them: without quotes and trailing comments."""
    for line in text.split("\n"):
        match = _ASSIGNMENT.match(line.lstrip("\ufeff"))
        if match:
            raw = match[2].strip()
            quoted = re.match(r"""(["'])(.*)\1""", raw)
            yield match[1], quoted[2] if quoted else re.split(r"\s#", raw)[0].strip()


def value_of(text: str, key: str) -> str | None:
    """Return the value that compose uses for `key`: that of the last assignment."""
    return dict(assignments(text)).get(key)


def with_value(text: str, key: str, value: str) -> str:
    """Return `text` with `key` set: replace dkdbg's own line, or append one, because compose uses the last one."""
    if value_of(text, key) == value:
        return text
    newline = "\r\n" if "\r\n" in text else "\n"
    line = f"{key}={value}  # dkdbg"
    own_line = re.compile(rf"^{re.escape(key)}=.*  # dkdbg(?=\r?$)", re.MULTILINE)
    replaced = own_line.sub(lambda _: line, text)
    if value_of(replaced, key) == value:
        return replaced
    # Move dkdbg's line to the end: a later line of the user's would override it.
    text = re.sub(rf"^{re.escape(key)}=.*  # dkdbg\r?\n", "", text, flags=re.MULTILINE)
    gap = "" if not text or text.endswith("\n") else newline
    return f"{text}{gap}{line}{newline}"
