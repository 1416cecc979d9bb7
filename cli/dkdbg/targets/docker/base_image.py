"""Ask the engine what a build inherits from a base image, as the lines of a Dockerfile that would set it."""

from __future__ import annotations

import json
import re
from contextlib import suppress

from dkdbg import process
from dkdbg.agent.dap.messages import as_dict, as_list
from dkdbg.core.facts import inherited_lines
from dkdbg.errors import DkdbgError
from dkdbg.targets.docker import client

#: Timeout for each of two answers; short, because `init` also works without an engine.
_ANSWER_TIMEOUT_S = 2.0
#: Image in a FROM line. The repository is untrusted: docker must not read the image as an option.
_REFERENCE = re.compile(r"[A-Za-z0-9][\w./:@+-]{0,500}")
_MAX_ANSWER_BYTES = 1 << 20


def inherited(reference: str) -> tuple[str, ...] | None:
    """Return Dockerfile lines for what a build inherits from an image, without defaults (`WORKDIR /`, `USER root`).

    The ENTRYPOINT of an image whose user is root is left out. It may need root, but the agent becomes the owner of the
    workspace (docs/adr/0004-the-agent-becomes-the-owner-of-the-workspace.md).

    Never pull: return None if the engine does not have the image, or does not answer.
    """
    if not _REFERENCE.fullmatch(reference):
        return None
    with suppress(DkdbgError, OSError, ValueError, KeyError, RecursionError):
        if client.endpoint(_ANSWER_TIMEOUT_S).is_ssh:  # ssh might ask for a password
            return None
        argv = ("docker", "image", "inspect", "--format", "{{json .Config}}", "--", reference)
        asked = process.read(argv, max_bytes=_MAX_ANSWER_BYTES, timeout=_ANSWER_TIMEOUT_S)
        if asked.code == 0:
            return _lines(as_dict(json.loads(asked.stdout)))
    return None


def _lines(config: dict[str, object]) -> tuple[str, ...]:
    values = {"WORKDIR": config.get("WorkingDir"), "USER": config.get("User")}
    found = [f"{keyword} {value}" for keyword, value in values.items() if isinstance(value, str)]
    found.append(f"SHELL {json.dumps(config.get('Shell'))}")
    if any(each.startswith("USER ") for each in inherited_lines(found)):
        found.append(f"ENTRYPOINT {json.dumps(config.get('Entrypoint'))}")
    return inherited_lines((*found, *(f"ENV {each}" for each in as_list(config.get("Env")))))
