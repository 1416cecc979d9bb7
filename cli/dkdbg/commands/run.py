"""`dkdbg run [--on PLACE] -- CMD`: a command under the agent, wherever it runs; nothing has to be set up there."""

from __future__ import annotations

import contextlib
import signal
import sys
from pathlib import PurePath
from typing import TYPE_CHECKING

from dkdbg import console, process
from dkdbg.agent.contract import DEFAULT_PORT
from dkdbg.delivery.bring import bring
from dkdbg.errors import EXIT_CONFLICT, EXIT_USAGE, DkdbgError
from dkdbg.places import registry
from dkdbg.targets.mapping import folder_name
from dkdbg.targets.place import Apart, Far, Outliving, Roomy
from dkdbg.tunnel import far_program

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from dkdbg.delivery.bring import Brought
    from dkdbg.door.actions import Note
    from dkdbg.targets.place import Place, Reach

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
    sync: bool = False,
    reload: bool = False,
    attach: int | None = None,
) -> int:
    """Start `command` under the agent and return its own exit code; Ctrl-C is the command's.

    With `reload` Ctrl-C restarts it, and two leave.

    Args:
        root: the repository's root, resolved.
        target: an address or a name; None for this machine.
        command: word by word, never through a shell.
        port: that the agent listens on there; None for 5678, or for a free one where others may have that.
        wait: seconds that the command waits for an editor before its first line.
        python: the interpreter that runs the agent there; None to look for one.
        sync: have the files of `root` there first, and what is saved as long as the command runs.
        reload: `sync`, and start it again when a source file has changed there.
        attach: a port of this machine that leads an editor to the command, as `dkdbg attach` would.

    Raises:
        DkdbgError: the place is not there or not running, it has no Python, or there is no command.
    """
    if not command:
        raise DkdbgError(
            "there is no command to run", hint="dkdbg run -- python train.py", exit_code=EXIT_USAGE
        )
    with contextlib.ExitStack() as opened:
        place = opened.enter_context(contextlib.closing(registry.place_of(target or "local:", root)))
        if attach is not None:
            _open_door(opened, registry.place_of(target or "local:", root), attach)
        if (sync or reload) and isinstance(place, Roomy):
            place = opened.enter_context(contextlib.closing(place.with_folder(folder_name(root))))
        reach = place.find()
        copy = None
        if target is not None and (sync or reload):
            from dkdbg.commands.live_copy import LiveCopy

            copy = opened.enter_context(contextlib.closing(LiveCopy(root, place, reach, python=python)))
        verb: tuple[str, ...] = ("launch",)
        if reload:
            verb = ("supervise", "--reload", copy.folder if copy else str(root))
            # Where no terminal is ours Ctrl-C comes as a signal; from a person all the same, if one types here.
            verb += ("--interactive",) if sys.stdin.isatty() else ()
        brought = opened.enter_context(contextlib.closing(bring(reach, python=python)))
        if brought.sent:
            console.warn(f"dkdbg: {reach.label}: brought the agent there; it goes with the last session")
        if copy is not None:
            copy.wait()
        if attach is None:
            console.warn(f"dkdbg: attach with: dkdbg attach {target or place.address}")
        words = (*_words(place, command, port=port, wait=wait, verb=verb), *command)
        told = ("env", *copy.environment) if copy else ()
        return _attached(place, reach, brought, (*told, *brought.argv, *words))


def _open_door(opened: contextlib.ExitStack, place: Place, port: int) -> None:
    """Lead editors to the place, until `opened` is closed; the port is that of their launch entry, and no other."""
    from dkdbg.commands.host_door import HostDoor  # most of dkdbg

    door = HostDoor([place], _Quiet(), port=port)
    opened.callback(door.close)
    if door.port != port:
        raise DkdbgError(
            f"port {port} of this machine is taken",
            hint="another run --attach, or dkdbg attach, may have it: end that, or name another port, also in launch.json",
            exit_code=EXIT_CONFLICT,
        )
    door.start()
    door.follow()
    console.warn(f"dkdbg: attach an editor to 127.0.0.1:{port}")


class _Quiet:
    """What the door has to say goes past the program's terminal: the editor is told what concerns it."""

    def note(self, note: Note) -> None:
        """Nothing."""

    def line(self, text: str) -> None:
        """Nothing."""

    def event(self, kind: str, text: str, *, prefix: str = "", **more: object) -> None:
        """Nothing."""


def _words(
    place: Place, command: Sequence[str], *, port: int | None, wait: int, verb: Sequence[str]
) -> tuple[str, ...]:
    host = place.listens_on() if isinstance(place, Apart) else "127.0.0.1"
    if port is None:
        port = 0 if isinstance(place, Far) else DEFAULT_PORT
    name = PurePath(command[1] if len(command) > 1 and command[1][:1] != "-" else command[0]).name
    return (
        verb[0], "--host", host, "--port", str(port), "--wait", str(wait), "--name", name, *verb[1:], "--",
    )  # fmt: skip


def _attached(place: Place, reach: Reach, brought: Brought, argv: Sequence[str]) -> int:
    tty, left = _tty(), f"what still runs there: dkdbg ps {place.address}"
    try:
        if isinstance(place, Outliving) and place.outlives_cuts:
            return far_program.run(place, brought.argv, argv, label=place.label, tty=tty, hint=left)
        code = process.attached(reach.wrap(argv, tty=tty), tty=tty, on_signal=brought.signal)
    finally:  # who has pressed Ctrl-C twice presses it a third time, while what was opened is closed
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
    if code == _LOST and isinstance(place, Far) and (why := place.lost()):
        raise DkdbgError(why, hint=left, exit_code=code)
    return code


def _tty() -> bool:
    return all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr))
