"""Write the hang map as one self-contained HTML page: no server, no network.

The processes are untrusted. Their text is embedded as JSON that cannot begin or end markup, the page's script inserts
it as text, and a content security policy allows only that script and its styles, and loads nothing.
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
#: Seconds between two reloads of a page that is written repeatedly.
_REFRESH_S = 2


def page(jobs: Sequence[dict[str, Any]], *, asked: str, again: bool) -> str:
    """Return the HTML of the page.

    Args:
        jobs: values of `output.as_json`.
        asked: time of the query, as text.
        again: whether the page reloads itself, because it is written repeatedly.
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
    """Write a page to a new file, or over an earlier page.

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
            hint="--html FILE, in a folder that is there",
            exit_code=EXIT_USAGE,
        ) from error


def _hashes(text: str) -> list[tuple[str, str]]:
    """Return kind and hash of the page's own scripts and styles, for the content security policy."""
    return [
        (kind, "'sha256-" + base64.b64encode(hashlib.sha256(block.encode()).digest()).decode() + "'")
        for kind, block in _BLOCK.findall(text)
    ]


def _embedded(value: object) -> str:
    """Return JSON that an HTML parser never takes for markup."""
    text = json.dumps(value)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _readable(value: Any) -> Any:  # noqa: ANN401 - JSON
    """Return the value with control characters escaped, bidirectional ones included."""
    match value:
        case str():
            return printable_lines(value)
        case dict():
            return {key: _readable(each) for key, each in value.items()}
        case list() | tuple():
            return [_readable(each) for each in value]
        case _:
            return value
