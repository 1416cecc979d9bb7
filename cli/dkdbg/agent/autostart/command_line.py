"""Tells a job's programs from its helper Pythons: `pip`, `python -c` of a script and the like start no agent."""

from __future__ import annotations

import os
import re

from dkdbg.agent.inprocess import choosing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List

#: Programs and modules that install, build or query; dkdbg's too.
_HELPERS = re.compile(
    r"^(pip[\d.]*|pipx|uv|ninja|cmake|meson|conda|mamba|poetry|pdm|hatch|virtualenv|venv|ensurepip|setup\.py|build|twine"
    r"|compileall|py_compile|json\.tool|site|sysconfig|platform|zipfile|tarfile|supervisord|supervisorctl|awscli|aws"
    r"|dkdbg|debugpy)(\.exe)?$"
)


def is_program(words: List[str], *, is_first: bool, more_helpers: str = "") -> bool:
    """Tell whether a Python command line is that of a program.

    Args:
        words: as the interpreter was started. is_first: whether it is the container's first process, whose
            command was written as the job: then code on the command line is a program too.
        more_helpers: comma-separated text that marks more helpers (DKDBG_SKIP).
    """
    line = " ".join(words)
    if any(word in line for word in more_helpers.split(",") if word):
        return False
    _, kind, _ = choosing.what_runs(words)
    return is_first if kind == "code" else bool(kind) and not _is_helper(words)


def builds(words: List[str]) -> bool:
    """Tell whether this is a build tool, whose Pythons are helpers; those of `conda run` and the like are not."""
    return _is_helper(words) and "run" not in words


def _is_helper(words: List[str]) -> bool:
    _, kind, name = choosing.what_runs(words)
    if kind == "module":
        return bool(_HELPERS.match(name) or _HELPERS.match(name.partition(".")[0]))
    return kind == "file" and bool(_HELPERS.match(os.path.basename(name)))
