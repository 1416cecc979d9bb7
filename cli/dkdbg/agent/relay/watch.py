"""Watch for the end of a program's allocation, such as a batch job: not every site ends an ssh session with its job."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, List

    from dkdbg.agent.relay.program import Program

#: Seconds between two queries, whose cost all users of a cluster share, and the timeout of one.
PAUSE, _LIMIT = 30.0, 20.0
#: Seconds for the program to exit, like Slurm's KillWait.
KILL_WAIT = 30.0


def watch(words: List[str], program: Program, over: Callable[[], None]) -> None:
    """End the program when the command `words` exits with 0; watch on a background thread.

    Args:
        over: called when that happens, on another thread.
    """
    threading.Thread(target=lambda: _watch(words, program, over), daemon=True).start()


def _watch(words: List[str], program: Program, over: Callable[[], None]) -> None:
    while not program.has_exited.wait(PAUSE):
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            done = subprocess.run(
                words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                timeout=_LIMIT, check=False,
            )  # fmt: skip
            if done.returncode == 0:
                break
    else:
        return
    over()
    program.signal(signal.SIGTERM)
    if not program.has_exited.wait(KILL_WAIT):
        program.kill()
