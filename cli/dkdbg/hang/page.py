"""The hang map as one page that needs nothing else: no server, no network.

Processes are strangers: what they say lies in the page as JSON in which no markup can begin or end, its script puts it there as
text, and the browser is told to run that script alone and to load nothing.
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

_MARK = '<meta name="generator" content="dkdbg where">'
_BLOCK = re.compile(r"<(style|script)>(.*?)</\1>", re.DOTALL)
#: Seconds between two looks of a page that is written again and again.
_REFRESH = 2


def page(jobs: Sequence[dict[str, Any]], *, asked: str, again: bool) -> str:
    """The page.

    Args:
        jobs: as `told.job` has them.
        asked: when, for people.
        again: it is written anew all the time, and looks by itself.
    """
    text = artefact("templates", "where.html").read_text("utf-8")
    policy = "; ".join(
        ["default-src 'none'", "base-uri 'none'", "form-action 'none'", *(f"{kind}-src {found}" for kind, found in _hashes(text))]
    )  # fmt: skip
    parts = {
        "@POLICY@": policy,
        "@REFRESH@": f'<meta http-equiv="refresh" content="{_REFRESH}">\n' if again else "",
        "@DATA@": _embedded({"asked": asked, "jobs": _readable(list(jobs))}),
    }
    return re.sub("|".join(parts), lambda found: parts[found[0]], text)


def write(path: Path, content: str) -> None:
    """Put a page where a person wants it.

    Raises:
        DkdbgError: something else is there; or it cannot be written.
    """
    try:
        if os.path.lexists(path) and (
            path.is_symlink() or not path.is_file() or _MARK not in path.read_text("utf-8", "replace")[:2000]
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
    """Which of the page's own blocks may take effect."""
    return [
        (kind, "'sha256-" + base64.b64encode(hashlib.sha256(block.encode()).digest()).decode() + "'")
        for kind, block in _BLOCK.findall(text)
    ]


def _embedded(value: object) -> str:
    """JSON that no HTML parser takes for anything else."""
    text = json.dumps(value)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _readable(value: Any) -> Any:  # noqa: ANN401 - JSON
    """The same with every text in the order in which it stands there (bidirectional controls), control characters escaped."""
    match value:
        case str():
            return printable_lines(value)
        case dict():
            return {key: _readable(each) for key, each in value.items()}
        case list() | tuple():
            return [_readable(each) for each in value]
        case _:
            return value
