"""`dkdbg run [--on PLACE] -- CMD`: a command under the agent, wherever it runs; nothing has to be set up there."""

from __future__ import annotations

import contextlib
import sys
from pathlib import PurePath
from typing import TYPE_CHECKING

from dkdbg import console, process
from dkdbg.agent.contract import DEFAULT_PORT
from dkdbg.delivery.bring import bring
from dkdbg.errors import EXIT_USAGE, DkdbgError
from dkdbg.places import registry
from dkdbg.targets.place import Apart, Far

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from dkdbg.targets.place import Place

#: What a command line that leads to another machine ends with when it has lost it.
_LOST = 255


def run(
    root: Path,
    target: str | None,
    command: Sequence[str],
    *,
    port: int | None,
    wait: int,
    python: str | None = None,
) -> int:
    """Start `command` under the agent and return its own exit code; Ctrl-C is the command's.

    Args:
        root: the repository's root, resolved.
        target: an address or a name; None for this machine.
        command: word by word, never through a shell.
        port: that the agent listens on there; None for 5678, or for a free one where others may have that.
        wait: seconds that the command waits for an editor before its first line.
        python: the interpreter that runs the agent there; None to look for one.

    Raises:
        DkdbgError: the place is not there or not running, it has no Python, or there is no command.
    """
    if not command:
        raise DkdbgError(
            "there is no command to run", hint="dkdbg run -- python train.py", exit_code=EXIT_USAGE
        )
    with contextlib.closing(registry.place_of(target or "local:", root)) as place:
        return _run_on(place, command, port=port, wait=wait, python=python)


def _run_on(place: Place, command: Sequence[str], *, port: int | None, wait: int, python: str | None) -> int:
    tty = all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr))
    host = place.listens_on() if isinstance(place, Apart) else "127.0.0.1"
    if port is None:
        port = 0 if isinstance(place, Far) else DEFAULT_PORT
    reach = place.find()
    with contextlib.closing(bring(reach, python=python)) as brought:
        if brought.sent:
            console.warn(f"dkdbg: {reach.label}: brought the agent there; it goes with the last session")
        console.warn(f"dkdbg: attach with: dkdbg attach {place.address}")
        name = PurePath(command[1] if len(command) > 1 and command[1][:1] != "-" else command[0]).name
        words = ("launch", "--host", host, "--port", str(port), "--wait", str(wait), "--name", name, "--")
        code = process.attached(
            reach.wrap((*brought.argv, *words, *command), tty=tty), tty=tty, on_signal=brought.signal
        )
        if code == _LOST and isinstance(place, Far) and (why := place.lost()):
            raise DkdbgError(why, hint=f"what still runs there: dkdbg ps {place.address}", exit_code=code)
        return code
