"""Ask the engine what a build inherits from a base image, as the lines of a Dockerfile that would set it."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import TYPE_CHECKING

from dkdbg import process
from dkdbg.agent.dap.messages import as_dict, as_list
from dkdbg.errors import DkdbgError
from dkdbg.targets.docker import client

if TYPE_CHECKING:
    from collections.abc import Iterable

#: Timeout for each of two answers: `init` works without an engine.
_ANSWER_TIMEOUT_S = 2.0
#: An image as FROM names it. It comes from the repository, and is no option of docker.
_REFERENCE = re.compile(r"[A-Za-z0-9][\w./:@+-]{0,500}")
#: A value that needs no quotes in a Dockerfile.
_PLAIN = re.compile(r"[\w./:@%+=,-]{1,500}", re.ASCII)
#: The WORKDIR and USER of an image that sets none.
_PLAIN_IMAGE = frozenset({"/", "root", "0", "0:0"})
#: An instruction without continuation or here-document.
_LINE = re.compile(r"[A-Za-z](?:(?!<<)[ -~]){1,500}(?<!\\)")
_MAX_LINES = 50
_MAX_ANSWER_CHARS = 1 << 20


def inherited(reference: str) -> tuple[str, ...] | None:
    """Return the Dockerfile lines for what a build inherits from an image, beyond `WORKDIR /` and root; never pull.

    None if the engine does not have the image, or does not answer.
    """
    if not _REFERENCE.fullmatch(reference):
        return None
    with suppress(DkdbgError, OSError, ValueError, RecursionError):
        if client.endpoint(_ANSWER_TIMEOUT_S).is_ssh:  # ssh might ask for a password
            return None
        words = ("docker", "image", "inspect", "--format", "{{json .Config}}", "--", reference)
        asked = process.run(words, timeout=_ANSWER_TIMEOUT_S)
        if asked.code == 0 and len(asked.stdout) <= _MAX_ANSWER_CHARS:
            return _lines(as_dict(json.loads(asked.stdout)))
    return None


def _lines(config: dict[str, object]) -> tuple[str, ...]:
    values = {"WORKDIR": str(config.get("WorkingDir") or "/"), "USER": str(config.get("User") or "root")}
    found = [
        f"{keyword} {value}"
        for keyword, value in values.items()
        if value not in _PLAIN_IMAGE and _PLAIN.fullmatch(value)
    ]
    variables, triggers = (map(str, as_list(config.get(key))) for key in ("Env", "OnBuild"))
    found += [
        f"ENV {each}" for each in variables if each.startswith("PYTHONPATH=") and _PLAIN.fullmatch(each)
    ]
    return checked((*found, *triggers))


def checked(lines: Iterable[str]) -> tuple[str, ...]:
    """Return the lines that are whole instructions, up to a maximum: image and manifest are untrusted."""
    return tuple(each for each in lines if _LINE.fullmatch(each))[:_MAX_LINES]
