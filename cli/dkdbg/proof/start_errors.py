"""Name the broken link of a start that failed, by the engine's own words in the error."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from dkdbg.proof import program_end
from dkdbg.proof.finding import Finding

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dkdbg.errors import DkdbgError
    from dkdbg.proof.program_end import Around

#: Pattern in an error -> link and cause; the first match wins.
_CAUSES = (
    (r"no Docker engine|daemon socket|there is no program 'docker'|no compose plugin", "engine", "engine-absent"),
    (r"publishes its debug port on", "listen", "published-openly"),
    (r"device driver|runtime name: nvidia|\bCDI\b|custom device|GPU request", "gpu", "gpu-absent"),
    (r"already in use|already allocated|ports are not available|no free port", "port", "port-taken"),
    (r"idles: no program", "setup", "no-program"),
    (r"source metadata|pull access denied|manifest unknown|failed to do request|/v2/|short-name", "image", "base-image-absent"),
    (r"no such service|undefined service", "setup", "service-absent"),
    (r"no space left", "image", "disk-full"),
    (r"variables? that (?:is|are) not set|missing a value", "setup", "variable-missing"),
)  # fmt: skip
#: Patterns by which uv and pip name the requirement that they cannot build, and the one that they cannot find.
_NOT_BUILT = re.compile(
    r"Failed to (?:download and )?build `([^`\n]{1,200})`|Failed building wheel for ([\w.\[\]-]{1,200})"
    r"|Failed to build '([^'\n]{1,200})' when"
)
_NOT_FOUND = re.compile(
    r"No matching distribution found for ([^\s(]{1,200})|Because ([\w.\[\]-]{1,200}) was not found in the package registry"
    r"|Because there (?:is no version|are no versions) of ([^\s,]{1,200})"
)
_NO_COMPILER = re.compile(
    r"Unknown compiler|(?:command|execute) '[^'\n]*(?:gcc|g\+\+|cc|clang)'? failed: No such file|Python\.h: No such file"
    r"|No such file or directory: '(?:gcc|g\+\+|cc|clang)'|(?:gcc|g\+\+|cc): not found"
)
#: Causes that a build's output may name without being its own.
_VAGUE = frozenset({"program-ends", "data-missing", "permission", "command-missing"})


def finding_of(error: DkdbgError, output: Sequence[str], around: Around) -> Finding:
    """Return the finding for a start that failed.

    Args:
        output: lines of its progress.
    """
    text = error.message
    first, *more = text.splitlines()
    found = next((each for each in _CAUSES if re.search(each[0], text, re.IGNORECASE)), None)
    if found is None and any("ERROR" in line for line in output):  # of a build
        if requirement := _of_requirement("\n".join(output)):
            return requirement
        ended = program_end.cause_of("\n".join(output), None, around)
        if ended.cause not in _VAGUE:
            return ended
        found = ("", "image", "build-fails")
    _, link, cause = found or ("", "start", "not-started")
    lines = tuple(line for line in output[-8:] if line.strip())
    return Finding(
        link=link, cause=cause, says=first, remedy=error.hint or "dkdbg up shows more", detail=(*more, *lines)
    )


def _of_requirement(text: str) -> Finding | None:
    """Return the finding for a requirement that the image cannot install."""
    python = "another version of it, or another Python: dkdbg init --python 3.9 for the Dockerfile that init writes, FROM in yours"
    if found := _NOT_BUILT.search(text):
        name = next(filter(None, found.groups()))
        remedy = (
            "a compiler in the image: RUN apt-get update && apt-get install -y --no-install-recommends build-essential python3-dev"
            if _NO_COMPILER.search(text)
            else python
        )
        says = f"{name} has no wheel for this Python, and its sources do not build"
    elif found := _NOT_FOUND.search(text):
        name = next(filter(None, found.groups()))
        says, remedy = f"the package index has no {name} for this Python", python
    else:
        return None
    lines = tuple(line for line in text.splitlines() if line.strip())[-8:]
    return Finding(
        link="image", cause="requirement-fails", says=says, remedy=remedy, detail=lines, subject=name
    )
