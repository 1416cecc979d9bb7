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
    (r"that yours depends on", "start", "dependency-fails"),
    (r"your compose file calls external", "setup", "external-absent"),
    (r"does not trust the certificate", "image", "index-untrusted"),
    (r"no space left", "image", "disk-full"),
    (r"variables? that (?:is|are) not set|missing a value", "setup", "variable-missing"),
)  # fmt: skip
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
    if found is None and any("ERROR" in line for line in output):  # a failed build's output has the cause
        said = "\n".join(output)
        ended = program_end.of_requirement(said) or program_end.cause_of(said, None, around)
        if ended.cause not in _VAGUE:
            return ended
        found = ("", "image", "build-fails")
    _, link, cause = found or ("", "start", "not-started")
    lines = tuple(line for line in output[-8:] if line.strip())
    remedy = "docker compose --profile debug build shows all of it" if cause == "build-fails" else error.hint
    return Finding(
        link=link, cause=cause, says=first, remedy=remedy or "dkdbg up shows more", detail=(*more, *lines)
    )
