"""Starts py-spy on this process. It travels to Ray's workers as text: it imports nothing of dkdbg."""

from __future__ import annotations

import os
import subprocess

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Sequence

_PR_SET_PTRACER, _ANYBODY = 0x59616D61, -1


def start(program: str, options: Sequence[str], path: str) -> int:
    """Record until this process ends; return the pid of py-spy, which is not our child: programs wait for theirs.

    Args:
        program: path of py-spy. path: path of its file; its messages go to the same path with `.log`.
    """
    import ctypes

    # Yama (ptrace_scope=1) lets only the parent trace a process, which may permit others.
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
