"""`dkdbg run [--on PLACE] -- CMD`: a command under the agent, wherever it runs; nothing has to be set up there."""

from __future__ import annotations

import contextlib
import signal
import sys
from pathlib import PurePath
from typing import TYPE_CHECKING, NoReturn, cast

from dkdbg import console, hints, process
from dkdbg.agent.contract import DEFAULT_PORT, ENV_OWN_CONTAINER
from dkdbg.core.mapping import folder_name
from dkdbg.core.record import BadRecord
from dkdbg.core.target import Apart, Contained, Endpoint, Far, Leased, Outliving, Relaying, Roomy, Spreading
from dkdbg.delivery.bring import bring
from dkdbg.errors import EXIT_CONFLICT, EXIT_USAGE, DkdbgError
from dkdbg.launchers.lines.wrappers import unwrapped
from dkdbg.relay import remote_program
from dkdbg.setup.render import manifest
from dkdbg.targets import registry
from dkdbg.verbs.profiling import Profiling, fetch, variables
from dkdbg.verbs.rank_option import continues_of, ranks_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path
    from types import FrameType

    from dkdbg.attach.actions import Note
    from dkdbg.core.target import Reach, Target
    from dkdbg.delivery.bring import Brought

#: What a command line that leads to another machine ends with when it has lost it.
_LOST = 255
#: What asks us to end.
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
#: And with what who was told to end: by SIGTERM, and by SIGKILL.
_ENDED = {143, 137}


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
    ranks: str | None = None,
    workers: str | None = None,
    profiling: Profiling | None = None,
) -> int:
    """Start `command` under the agent and return its own exit code; Ctrl-C is the command's.

    With `reload` Ctrl-C restarts it, and two leave.

    Args:
        root: the repository's root, resolved.
        target: an address or a name; None for the debug service of this repository, and for this machine where there is none.
        command: word by word, never through a shell.
        port: that the agent listens on there; None for 5678, or for a free one where others may have that.
        wait: seconds that the command waits for an editor before its first line.
        python: the interpreter that runs the agent there; None to look for one.
        sync: have the files of `root` there first, and what is saved as long as the command runs.
        reload: `sync`, and start it again when a source file has changed there.
        ranks: which are debugged, the others run free; None for what dkdbg.toml says.
        workers: which of a cluster's are debugged, by shell patterns with commas; None for all.
        attach: a port of this machine that leads an editor to the command, as `dkdbg attach` would.
        profiling: which workers are profiled by what; None for none.

    Raises:
        DkdbgError: the place is not there or not running, it has no Python, or there is no command.
    """
    if not command:
        raise DkdbgError(
            "there is no command to run", hint="dkdbg run -- python train.py", exit_code=EXIT_USAGE
        )
    if workers is not None and not workers.replace(",", " ").strip():
        raise DkdbgError(
            f"--workers {workers!r} names no worker",
            hint="shell patterns with commas, such as --workers '*policy*,crunch'; without --workers all are debugged",
            exit_code=EXIT_USAGE,
        )
    chosen = ranks_of(root, ranks)
    if (
        target is None
        and not (sync or reload or attach or profiling)
        and (service := manifest.debug_service(root)) is not None
    ):
        from dkdbg.verbs.run_service import run_in_service

        return run_in_service(root, service, command, port=port, wait=wait, ranks=ranks or "")
    with contextlib.ExitStack() as opened:
        place = opened.enter_context(contextlib.closing(registry.target_of(target or "local:", root)))
        flags: tuple[str, ...] = ()
        if isinstance(place, Spreading):
            flags, place = place.flags("*" if workers is None else workers), place.drivers
        elif workers is not None:
            raise DkdbgError(
                f"{place.label} has no workers that are started elsewhere",
                hint="--workers is for a Ray cluster: --on ray+ssh://NODE",
                exit_code=EXIT_USAGE,
            )
        if attach is not None:
            again = registry.target_of(target or "local:", root)
            places = again.each() if isinstance(again, Spreading) else [cast("Target", _FromNowOn(again))]
            open_door(opened, places, attach)
            console.warn(f"dkdbg: attach an editor to 127.0.0.1:{attach}")
        if (sync or reload) and isinstance(place, Roomy):
            place = opened.enter_context(contextlib.closing(_with_folder(place, place, root, python)))
        reach = place.find()
        copy = None
        if target is not None and (sync or reload):
            from dkdbg.verbs.live_sync import LiveCopy

            copy = opened.enter_context(contextlib.closing(LiveCopy(root, place, reach, python=python)))
        verb: tuple[str, ...] = ("launch",)
        if reload:
            verb = ("supervise", "--reload", copy.folder if copy else str(root))
            # Where no terminal is ours Ctrl-C comes as a signal; from a person all the same, if one types here.
            verb += ("--interactive",) if sys.stdin.isatty() else ()
        if chosen:
            verb += ("--ranks", chosen)
        if continues := continues_of(root):
            verb += ("--continue", continues)
        verb += flags
        verb += profiling.words if profiling else ()
        brought = opened.enter_context(contextlib.closing(bring(reach, python=python)))
        if brought.sent:
            console.warn(f"dkdbg: {reach.label}: copied the agent there; it is removed with the last session")
        if copy is not None:
            copy.wait()
        if attach is None:
            console.warn(f"dkdbg: {hints.ATTACH_WITH(target=target or place.address)}")
        words = (*_words(place, command, port=port, wait=wait, verb=verb), *command)
        told = _told(place, copy.environment if copy else ())
        code = _attached(place, reach, brought, (*told, *brought.argv, *words))
        if profiling and profiling.pull and target is not None:
            with _interruptible():
                return fetch(root, target, place, reach, python, code=code)
        return code


def _told(place: Target, more: Sequence[str]) -> tuple[str, ...]:
    """The words that set variables for the agent there."""
    own = (*variables(), f"{ENV_OWN_CONTAINER}=1") if isinstance(place, Contained) else variables()
    return ("env", *own, *more) if own or more else ()


def _with_folder(place: Target, roomy: Roomy, root: Path, python: str | None) -> Target:
    """In the folder of its address, else in the one there that is `root` itself, else in one of ours."""
    if not roomy.names_folder:
        from dkdbg.sync import shared

        if (found := shared.find(str(root), place.find(), python=python)) is not None:
            return roomy.at(found)
    return roomy.with_folder(folder_name(root))


def open_door(opened: contextlib.ExitStack, places: Sequence[Target], port: int) -> None:
    """Lead editors to places, until `opened` is closed; the port is that of their launch entry, and no other.

    Raises:
        DkdbgError: it is taken.
    """
    from dkdbg.verbs.attach_proxy import HostDoor  # most of dkdbg

    door = HostDoor(places, _Quiet(), port=port)
    opened.callback(door.close)
    if door.port != port:
        raise DkdbgError(
            f"port {port} of this machine is taken",
            hint=hints.PORT_HELD(),
            exit_code=EXIT_CONFLICT,
        )
    door.start()
    door.follow()


class _FromNowOn:
    """A place whose door is there as soon as a session runs there that did not run before: what ran is another program."""

    def __init__(self, place: Target) -> None:
        self._place = place
        self._before: set[str] | None = self._live()

    def __getattr__(self, name: str) -> object:
        return getattr(self._place, name)

    def endpoint(self) -> Endpoint:
        """That of the place, or what is waited for."""
        if self._before is not None:
            if not self._live() - self._before:
                return Endpoint(address=None, why="the program is being started")
            self._before = None
        return self._place.endpoint()

    def _live(self) -> set[str]:
        with contextlib.suppress(DkdbgError, BadRecord):
            return {
                each.id for each in self._place.sessions() if not each.is_ended and each.started is not None
            }
        return set()


class _Quiet:
    """What the door has to say goes past the program's terminal: the editor is told what concerns it."""

    def note(self, note: Note) -> None:
        """Nothing."""

    def line(self, text: str) -> None:
        """Nothing."""

    def event(self, kind: str, text: str, *, prefix: str = "", **more: object) -> None:
        """Nothing."""


def _words(
    place: Target, command: Sequence[str], *, port: int | None, wait: int, verb: Sequence[str]
) -> tuple[str, ...]:
    host = place.listens_on() if isinstance(place, Apart) else "127.0.0.1"
    if port is None:
        is_free = isinstance(place, Far) or (isinstance(place, Relaying) and place.is_relayed())
        port = 0 if is_free else DEFAULT_PORT
    program = unwrapped(list(command)) or command  # what `env NAME=VALUE` sets may be a secret
    name = PurePath(program[1] if len(program) > 1 and program[1][:1] != "-" else program[0]).name
    return (
        verb[0], "--host", host, "--port", str(port), "--wait", str(wait), "--name", name, *verb[1:], "--",
    )  # fmt: skip


def _attached(place: Target, reach: Reach, brought: Brought, argv: Sequence[str]) -> int:
    tty, left = _tty(), f"see what still runs there: dkdbg ps {place.address}"
    try:
        if isinstance(place, Outliving) and place.outlives_cuts:
            over = place.over() if isinstance(place, Leased) else ()
            code = remote_program.run(
                place, brought.argv, argv, label=place.label, tty=tty, hint=left, over=over
            )
            if isinstance(place, Far) and over and code in _ENDED and (why := place.lost()):
                raise DkdbgError(why, exit_code=code)
            return code
        code = process.attached(reach.wrap(argv, tty=tty), tty=tty, on_signal=brought.signal)
    finally:
        _let_nothing_disturb()
    if code == _LOST and isinstance(place, Far) and (why := place.lost()):
        raise DkdbgError(why, hint=left, exit_code=code)
    return code


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """Ctrl-C is ours again after the program's end, until what was opened is closed."""

    def interrupted(_number: int, _frame: FrameType | None) -> NoReturn:
        _let_nothing_disturb()
        raise KeyboardInterrupt

    for number in _ENDING:
        signal.signal(number, interrupted)
    try:
        yield
    finally:
        _let_nothing_disturb()


def _let_nothing_disturb() -> None:
    """Who has pressed Ctrl-C twice presses it a third time, while what was opened is closed."""
    for number in _ENDING:
        signal.signal(number, signal.SIG_IGN)


def _tty() -> bool:
    return all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr))
