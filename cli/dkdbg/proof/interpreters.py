"""Look for the interpreter of an image that has a module which the program's one lacks."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dkdbg.proof.finding import Finding

#: Usual places of interpreters, as shell patterns, relative ones in the working directory.
_PLACES = (
    "/usr/bin/python3*", "/usr/local/bin/python3*", "/opt/*/bin/python", "/opt/conda/envs/*/bin/python", "/venv/bin/python",
    "/*/.venv/bin/python", "/root/*/bin/python", "/home/*/*/bin/python", "/usr/src/*/bin/python", ".venv/bin/python", "venv/bin/python",
)  # fmt: skip


def script(module: str) -> str:
    """Return a shell script that prints the interpreters which find a module.

    Args:
        module: top name, an identifier.
    """
    if not re.fullmatch(r"\w+", module):
        return "true"
    code = f"import importlib.util, sys; sys.exit(importlib.util.find_spec('{module}') is None)"
    return (
        f"for each in {' '.join(_PLACES)}; do case $each in *-config|*-dbg) continue ;; esac; "
        f'[ -x "$each" ] && "$each" -c "{code}" 2>/dev/null && echo "$each"; done; true'
    )


def other(finding: Finding, module: str, found: Sequence[str]) -> Finding:
    """Return the finding about a missing module as one about the wrong interpreter."""
    return replace(
        finding, link="process", cause="other-interpreter",
        says=f"the program runs under an interpreter without {module}, which {found[0]} has",
        remedy=f"start it with that one: dkdbg init --command {shlex.quote(f'{found[0]} ...')}, or put {found[0].rpartition('/')[0]} first on PATH in the image",
    )  # fmt: skip
