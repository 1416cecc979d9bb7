"""Command lines of the profilers nsys and py-spy, and the patterns that select workers.

This file is sent to Ray's workers as source text, so it imports nothing of dkdbg.

Workers are selected by name, as with NeMo RL's NRL_NSYS_WORKER_PATTERNS: comma-separated shell patterns (`*`, `?`,
`[seq]`, `[!seq]`), case-sensitive, for the whole name. Spaces around a pattern are ignored, and so is an empty one.
"""

from __future__ import annotations

import fnmatch
import os
import subprocess

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Iterable, List, Sequence

#: Usual paths of nsys outside of PATH.
NSYS_PLACES = (
    "/usr/local/cuda/bin/nsys",
    "/opt/nvidia/nsight-systems/*/bin/nsys",
    "/opt/nvidia/nsight-systems*/bin/nsys",
)
#: Suffix of the raw file that nsys leaves if its importer is not installed, as with Debian's package of 2022.4; nsys-ui
#: or QdstrmImporter converts it.
NSYS_RAW = ".qdstrm"
#: Default options of nsys, unless the user sets them: option, value, the option's other name.
_NSYS_USUAL = (("-t", "cuda,nvtx", "--trace"), ("-s", "none", "--sample"))
_PR_SET_PTRACER, _ANYBODY = 0x59616D61, -1


def parse_patterns(text: str) -> List[str]:
    """Return the patterns in a comma-separated list."""
    return [each.strip() for each in text.split(",") if each.strip()]


def matched(names: Iterable[str], patterns: Sequence[str]) -> str:
    """Return the first pattern that matches one of a worker's names; empty without a match."""
    known = [each for each in names if each]
    for pattern in patterns:
        if any(fnmatch.fnmatchcase(name, pattern) for name in known):
            return pattern
    return ""


def nsys_options(tool: Dict[str, Any]) -> List[str]:
    """Return the arguments after `nsys profile`, up to the name of the file."""
    given = [each.partition("=")[0] for each in tool["options"]]
    usual = [word for option in _NSYS_USUAL if not {option[0], option[2]} & set(given) for word in option[:2]]
    return [*usual, *tool["options"]]


def nsys_line(tool: Dict[str, Any], base: str) -> List[str]:
    """Return the command line of nsys, without the program's; the file is `base`, the program's pid and a suffix."""
    return [tool["path"], "profile", *nsys_options(tool), "-o", base.replace("%", "%%") + "_%p"]


def free(base: str, ending: str) -> str:
    """Return an unused path for a new file: the pid in `base` may be that of an earlier run, as in containers."""
    path, number = base + ending, 1
    while os.path.exists(path):
        number += 1
        path = "%s-%d%s" % (base, number, ending)
    return path


def start_py_spy(program: str, options: Sequence[str], path: str) -> int:
    """Start py-spy, which records until this process ends; return its pid.

    A shell starts it, so that it is not a child of the program, which may wait for all its children.

    Args:
        program: path of py-spy. path: path of the profile; py-spy's messages go to a file with the suffix `.log` added.
    """
    import ctypes

    # Yama (ptrace_scope=1) lets only a process's parent trace it, unless the process permits others.
    ctypes.CDLL(None).prctl(_PR_SET_PTRACER, ctypes.c_ulong(_ANYBODY), 0, 0, 0)
    argv = [
        program,
        "record",
        "--pid",
        "%d" % os.getpid(),
        "--duration",
        "unlimited",
        "--format",
        "speedscope",
    ]
    done = subprocess.run(
        ["sh", "-c", '"$@" >/dev/null 2>"$0" & echo $!', path + ".log", *argv, *options, "-o", path],
        stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, check=False, start_new_session=True,
    )  # fmt: skip
    return int(done.stdout or b"0")
