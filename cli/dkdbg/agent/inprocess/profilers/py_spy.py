"""Has py-spy look at this process from outside. It travels to Ray's workers as text: nothing of ours is imported here."""

from __future__ import annotations

import os
import subprocess

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Sequence

_PR_SET_PTRACER, _ANYBODY = 0x59616D61, -1


def start(program: str, options: Sequence[str], path: str) -> int:
    """Record until this process ends; the pid of py-spy, which is no child of ours: programs wait for theirs.

    Args:
        program: where py-spy is. path: of the file that it writes, and with `.log` of what it says.
    """
    import ctypes

    # Where Yama lets nobody trace but who started it (ptrace_scope=1): a process may say who else.
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
