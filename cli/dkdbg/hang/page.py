"""Write the hang map as one self-contained HTML page, which needs no server or network.

The processes are untrusted: their text is embedded as JSON that cannot begin or end markup, and the page's script
inserts it as text. A content security policy allows only that script and its styles, and no requests.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dkdbg.errors import EXIT_USAGE, DkdbgError
from dkdbg.printable import printable_lines
from dkdbg.repository.artefacts import artefact

if TYPE_CHECKING:
    from collections.abc import Sequence

_GENERATOR = '<meta name="generator" content="dkdbg where">'
_BLOCK = re.compile(r"<(style|script)>(.*?)</\1>", re.DOTALL)
#: Seconds between two reloads of a page that `--watch` keeps writing.
_REFRESH_S = 2


def page(jobs: Sequence[dict[str, Any]], *, asked: str, again: bool) -> str:
    """Return the HTML of the page.

    Args:
        jobs: results of `output.as_json`.
        asked: time of the query, formatted.
        again: whether the page reloads itself because it will be written again.
    """
    text = artefact("templates", "where.html").read_text("utf-8")
    policy = "; ".join(
        ["default-src 'none'", "base-uri 'none'", "form-action 'none'", *(f"{kind}-src {found}" for kind, found in _hashes(text))]
    )  # fmt: skip
    parts = {
        "@POLICY@": policy,
        "@REFRESH@": f'<meta http-equiv="refresh" content="{_REFRESH_S}">\n' if again else "",
        "@DATA@": _embedded({"asked": asked, "jobs": _readable(list(jobs))}),
    }
    return re.sub("|".join(parts), lambda found: parts[found[0]], text)


def write(path: Path, content: str) -> None:
    """Write a page to a new file, or replace a page that dkdbg wrote before.

    Raises:
        DkdbgError: another file exists there, or it cannot be written.
    """
    try:
        if os.path.lexists(path) and (
            path.is_symlink()
            or not path.is_file()
            or _GENERATOR not in path.read_text("utf-8", "replace")[:2000]
        ):
            raise DkdbgError(
                f"{path} already exists and is not a page of dkdbg where", hint="--html with another name", exit_code=EXIT_USAGE
            )  # fmt: skip
        with tempfile.NamedTemporaryFile(
            "w", dir=path.parent, prefix=".dkdbg-where-", delete=False, encoding="utf-8"
        ) as out:
            try:
                out.write(content)
                out.flush()
                Path(out.name).replace(path)
            except BaseException:
                Path(out.name).unlink(missing_ok=True)
                raise
    except OSError as error:
        raise DkdbgError(
            f"cannot write {path}: {error.strerror}",
            hint="--html FILE, in a folder that exists",
            exit_code=EXIT_USAGE,
        ) from error


def _hashes(text: str) -> list[tuple[str, str]]:
    """Return kind (`style`, `script`) and hash of each block in the page, for the content security policy."""
    return [
        (kind, "'sha256-" + base64.b64encode(hashlib.sha256(block.encode()).digest()).decode() + "'")
        for kind, block in _BLOCK.findall(text)
    ]


def _embedded(value: object) -> str:
    """Return JSON that an HTML parser never reads as markup."""
    text = json.dumps(value)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _readable(value: Any) -> Any:  # noqa: ANN401 - JSON
    """Return the value with control characters escaped in each string, bidirectional ones included."""
    match value:
        case str():
            return printable_lines(value)
        case dict():
            return {key: _readable(each) for key, each in value.items()}
        case list() | tuple():
            return [_readable(each) for each in value]
        case _:
            return value
