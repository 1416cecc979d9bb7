"""`dkdbg run [--on TARGET] -- CMD`: run a command under the agent on any target, without prior setup there."""

from __future__ import annotations

import argparse
import contextlib
import os
import shlex
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dkdbg import console, hints, process, signals
from dkdbg.agent import settings
from dkdbg.agent.settings import ENV_OWN_CONTAINER
from dkdbg.core.address import LOCAL
from dkdbg.core.mapping import folder_name
from dkdbg.core.target import Capability
from dkdbg.delivery.bring import bring, new_run
from dkdbg.errors import EXIT_INTERRUPTED, EXIT_USAGE, DkdbgError
from dkdbg.launchers.lines.wrappers import program_name
from dkdbg.relay import remote_program
from dkdbg.setup.render import manifest
from dkdbg.targets import registry
from dkdbg.verbs import values
from dkdbg.verbs.parts.launch_options import launch_flags, ranks_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from dkdbg.core.target import Executor, Target
    from dkdbg.delivery.bring import Brought
    from dkdbg.verbs.parser import Parser

#: Exit codes of a command that SIGTERM or SIGKILL has ended.
_ENDED = {143, 137}
#: Folder for profiles on the target, relative to the agent's working directory.
FOLDER = "dkdbg-profiles"
#: Local environment variables with further settings of a profiler; they are passed on to the target.
_MORE = {
    "--nsys": ("options", settings.ENV_NSYS_OPTIONS),
    "--py-spy": ("options", settings.ENV_PY_SPY_OPTIONS),
    "--torch-profile": ("steps", settings.ENV_TORCH_PROFILE_STEPS),
}
#: Timeout in seconds to query the remote working directory; maximum bytes of the answer.
_FOLDER_TIMEOUT_S, _MAX_FOLDER_BYTES = 30.0, 1 << 14


def add_options(parser: Parser) -> None:
    """Add the arguments of `dkdbg run`."""
    parser.add_argument(
        "--on",
        metavar="TARGET",
        help="where; by default this repository's debug service, or this machine (local:) without one",
    )
    parser.add_argument(
        "--port",
        type=values.port,
        metavar="PORT",
        help="the agent's port on the target (5678; locally, if that is taken, and behind ssh: a free one)",
    )
    parser.add_argument(
        "--wait", type=values.count, nargs="?", default=0, const=600, metavar="SECONDS",
        help="make the command wait for an editor (600)",
    )  # fmt: skip
    parser.add_argument(
        "--sync",
        action="store_true",
        help="copy your files to the target first, then each file that you save while it runs",
    )
    parser.add_argument(
        "--reload",
        action="store_true",
        help="like --sync, and restart the command at each save; Ctrl-C restarts it too, twice quits",
    )
    parser.add_argument(
        "--attach", type=values.port, nargs="?", const=5677, metavar="PORT",
        help="also forward this port of 127.0.0.1 (5677) to it, as dkdbg attach does",
    )  # fmt: skip
    parser.add_argument(
        "--workers",
        metavar="PATTERNS",
        help="in a Ray cluster: which tasks and actors, such as '*policy*,crunch' (all)",
    )
    parser.add_argument("--ranks", dest="choice", metavar="SET", help=values.RANKS)
    parser.add_argument(
        "--python",
        metavar="PATH",
        help="the interpreter on the target that runs the agent (default: the command's own, python3, ...)",
    )
    _add_profiling(parser)
    parser.add_argument(
        "command", nargs=argparse.REMAINDER, metavar="-- CMD", help="the command, word by word"
    )


def _add_profiling(parser: Parser) -> None:
    tools = parser.add_argument_group(
        "profile chosen workers",
        "SET is 0,3 or 0-7:2; PATTERNS are '*policy*,*vllm*' and match train-rank0, train, train.py, rank0, and actors of Ray",
    )
    for flag, what in (
        ("--nsys", "Nsight Systems"),
        ("--py-spy", "py-spy"),
        ("--torch-profile", "torch's profiler"),
    ):
        tools.add_argument(flag, metavar="PATTERNS", help=f"profile workers whose name matches, with {what}")
        tools.add_argument(f"{flag}-ranks", metavar="SET", help=f"profile these ranks, with {what}")
    tools.add_argument(
        "--pull", action="store_true", help="fetch the profiles at the end, into dkdbg-pulled in this folder"
    )


def call(options: argparse.Namespace, root: Path) -> int:
    """Run the verb with its parsed options; return the exit code."""
    command = options.command[1:] if options.command[:1] == ["--"] else options.command
    return run(
        root, options.on, command, port=options.port, wait=options.wait, python=options.python, sync=options.sync,
        reload=options.reload, attach=options.attach, ranks=options.choice, workers=options.workers,
        profiling=_asked_profiling(
            (options.nsys, options.nsys_ranks), (options.py_spy, options.py_spy_ranks),
            (options.torch_profile, options.torch_profile_ranks), pull=options.pull,
        ),
    )  # fmt: skip


def run(
    root: Path,
    name: str | None,
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
    """Start `command` under the agent, and return its exit code; Ctrl-C goes to the command.

    With `reload`, Ctrl-C restarts the command, and a second Ctrl-C quits.

    Args:
        root: absolute, symlinks resolved.
        name: address or name of the target; None for this repository's debug service, otherwise this machine.
        command: list of words, never interpreted by a shell.
        port: port on the target that the agent listens on. None for 5678; if that is taken on this machine, or other
            users of the target may use it, for a free port.
        wait: seconds for which the command waits for an editor before its first line.
        python: the interpreter that runs the agent on the target; None to look for one.
        sync: copy the files of `root` to the target first, and then each save.
        reload: as `sync`, and restart the command when a source file has changed on the target.
        attach: local port from which editors are forwarded to the command, as by `dkdbg attach`.
        ranks: ranks to debug, while the others run free; None for those in dkdbg.toml.
        workers: shell patterns, separated by commas, of a cluster's workers to debug; None for all.
        profiling: the workers to profile, and by which profilers; None to profile none.

    Raises:
        DkdbgError: the target is missing, is not running or has no Python, or the command is empty.
    """
    _check(command, workers)
    chosen = ranks_of(root, ranks)
    if (
        name is None
        and not (sync or reload or attach or profiling)
        and (service := manifest.debug_service(root)) is not None
    ):
        from dkdbg.verbs.parts.run_service import run_in_service

        return run_in_service(root, service, command, port=port, wait=wait, ranks=ranks or "")
    run = new_run()
    with contextlib.ExitStack() as opened:
        target = opened.enter_context(contextlib.closing(registry.target_of(name or "local:", root)))
        flags, target = target.worker_flags(workers), target.driver
        flags += (*(("--ranks", chosen) if chosen else ()), *(profiling.flags if profiling else ()))
        flags += launch_flags(root)
        if attach is not None:
            _lead_editors(opened, registry.target_of(name or "local:", root), attach, run)
        if (sync or reload) and Capability.NEEDS_WORKDIR in target.capabilities:
            target = opened.enter_context(contextlib.closing(_in_workdir(target, root, python)))
        executor = target.find()
        copy = None
        if name is not None and (sync or reload):
            from dkdbg.sync.live_copy import LiveCopy

            copy = opened.enter_context(contextlib.closing(LiveCopy(root, target, executor, python=python)))
        brought = opened.enter_context(
            contextlib.closing(bring(executor, python=python, run=run, command=command))
        )
        if brought.sent:
            console.warn(
                f"dkdbg: {executor.label}: copied the agent to the target; it is removed when the last session ends"
            )
        if copy is not None:
            copy.wait()
        if attach is None:
            console.warn(f"dkdbg: {hints.ATTACH_WITH(target=name or target.address)}")
        watched = (copy.folder if copy else str(root)) if reload else None
        argv = _launch_words(target, command, port=port, wait=wait, watched=watched, flags=flags)
        with_env = _env_argv(target, copy.environment if copy else ())
        code = _attached(target, executor, brought, (*with_env, *brought.argv, *argv))
        if profiling and profiling.pull and name is not None:
            signals.handle(signals.interrupt_once)  # from now on, Ctrl-C stops fetching the profiles
            try:
                return _fetch(root, name, target, executor, python, code=code)
            finally:
                signals.ignore()
        return code


def _check(command: Sequence[str], workers: str | None) -> None:
    """Raise DkdbgError if the command is empty, or if `workers` contains no pattern."""
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


def _env_argv(target: Target, more: Sequence[str]) -> tuple[str, ...]:
    """Return an `env` command line that sets variables for the remote agent."""
    is_container = Capability.CONTAINER in target.capabilities
    own = (*_variables(), *([f"{ENV_OWN_CONTAINER}=1"] if is_container else []), *more)
    return ("env", *own) if own else ()


def _in_workdir(target: Target, root: Path, python: str | None) -> Target:
    """Return the target with its working directory: the one in its address, `root` on a shared disk, or dkdbg's own."""
    if not target.names_workdir:
        from dkdbg.sync import shared

        if (found := shared.find(str(root), target.find(), python=python)) is not None:
            return target.in_workdir(found)
    return target.with_workdir(folder_name(root))


def _lead_editors(opened: contextlib.ExitStack, target: Target, port: int, run: str) -> None:
    """Forward editors to the session of this run, and on a cluster also to its workers."""
    from dkdbg.verbs.parts.attach_proxy import open_proxy  # slow: loads most of dkdbg

    targets = target.each() if Capability.CLUSTER in target.capabilities else [target]
    for each in targets:
        each.run = run
    open_proxy(opened, targets, port)
    console.warn(f"dkdbg: attach an editor to 127.0.0.1:{port}")


def _launch_words(
    target: Target, command: Sequence[str], *, port: int | None, wait: int, watched: str | None, flags: Sequence[str]
) -> tuple[str, ...]:  # fmt: skip
    """Return the agent's command that starts `command`, with its flags.

    Args:
        port: port that the agent listens on; None for the target's default.
        watched: remote folder in which a changed file restarts the command; None for no such restart.
        flags: further flags of the agent's command.
    """
    host, found = target.listen_address(port)
    is_asked = port is not None or bool(os.environ.get(settings.ENV_PORT))
    argv = (
        "--host",
        host,
        "--port",
        str(found),
        *(() if is_asked or target.address.scheme != LOCAL else ("--or-free-port",)),
        "--wait",
        str(wait),
        "--name",
        program_name(command),
    )
    if watched is None:
        return ("launch", *argv, *flags, "--", *command)
    # --interactive is for a user at this terminal; without a terminal, Ctrl-C arrives as a signal.
    typed = ("--interactive",) if sys.stdin.isatty() else ()
    return ("supervise", *argv, "--reload", watched, *typed, *flags, "--", *command)


def _attached(target: Target, executor: Executor, brought: Brought, argv: Sequence[str]) -> int:
    tty = all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr))
    try:
        if Capability.REMOTE not in target.capabilities:
            return process.attached(executor.wrap(argv, tty=tty), tty=tty, on_signal=brought.signal)
        over, left = target.over(), f"see what still runs there: dkdbg ps {target.address}"
        code = remote_program.run(
            target, brought.argv, argv, label=target.label, tty=tty, hint=left, over=over
        )
        if over and code in _ENDED and (why := target.lost()):
            raise DkdbgError(why, exit_code=code)
        return code
    finally:
        signals.ignore()


@dataclass(frozen=True, kw_only=True)
class Profiling:
    """The profiling that the user asked for.

    Attributes:
        flags: the agent's flags, as `agent/supervisor/profiles.py` parses them.
        pull: whether to fetch the profiles at the end.
    """

    flags: tuple[str, ...]
    pull: bool


def _asked_profiling(
    nsys: Sequence[str | None], py_spy: Sequence[str | None], torch: Sequence[str | None], *, pull: bool
) -> Profiling | None:
    """Return the profiling that a command line asks for; None if it asks for none.

    Args:
        nsys, py_spy, torch: worker patterns and ranks for each profiler; empty for none.

    Raises:
        DkdbgError: `pull` is set, but no profiling is asked for.
    """
    options: list[str] = []
    for flag, (names, ranks) in (("--nsys", nsys), ("--py-spy", py_spy), ("--torch-profile", torch)):
        options += (flag, names) if names is not None else ()
        options += (f"{flag}-ranks", ranks) if ranks is not None else ()
        more, variable = _MORE[flag]
        is_chosen = names is not None or ranks is not None or (flag == "--nsys" and _variables())
        if is_chosen and (value := os.environ.get(variable)):
            options += (f"{flag}-{more}", value)
    if pull and not options and not _variables():
        raise DkdbgError(
            "--pull fetches profiles, but none were asked for",
            hint="dkdbg run --nsys-ranks 0 --pull ...; other files: dkdbg sync TARGET --pull FOLDER",
            exit_code=EXIT_USAGE,
        )
    return Profiling(flags=tuple(options), pull=pull) if options or pull else None


def _variables() -> tuple[str, ...]:
    """Return the local variables that choose the workers to profile, as `NAME=VALUE`, for the remote agent."""
    value = os.environ.get(settings.ENV_NEMO_RL_NSYS)
    return (f"{settings.ENV_NEMO_RL_NSYS}={value}",) if value else ()


def _fetch(
    root: Path, name: str, target: Target, executor: Executor, python: str | None, *, code: int
) -> int:
    """Copy the target's profiles to `dkdbg-pulled` here; return `code`, or the copy's exit code if `code` is 0.

    Args:
        name: the target as typed.
        code: exit code of the program, which takes precedence.

    Raises:
        DkdbgError: the profiles cannot be read or written; after a failed program this is only a warning.
    """
    try:
        pulled = _fetched_folder(root, name, target, executor, python)
    except DkdbgError as error:
        if not code:
            raise
        console.warn(f"dkdbg: {error.message}")
        return code
    return code or pulled


def _fetched_folder(root: Path, name: str, target: Target, executor: Executor, python: str | None) -> int:
    if target.address.scheme == LOCAL:
        return 0  # they are on this machine already
    from dkdbg.verbs.sync import sync

    # The command for the user to repeat; set before the first step, because Ctrl-C may come at any time.
    placeholder, what = "/FOLDER", FOLDER
    try:
        done = process.read(executor.wrap(("pwd",)), max_bytes=_MAX_FOLDER_BYTES, timeout=_FOLDER_TIMEOUT_S)
        folder = done.stdout.removesuffix("\n") if done.code == 0 else ""
        if not folder.startswith("/"):
            raise DkdbgError(
                f"the profiles were not fetched from {FOLDER} on {target.label}: the remote folder is unknown",
                hint=f"dkdbg sync {shlex.quote(name)} --to {placeholder} --pull {what}",
            )
        # sync does not copy from `/`, so below it `to` is the folder of the profiles itself.
        placeholder, what = (folder, FOLDER) if folder != "/" else (f"/{FOLDER}", ".")
        console.warn(f"dkdbg: fetching {folder.rstrip('/')}/{FOLDER} of {target.label}")
        return sync(root, name, to=placeholder, pull=(what,), python=python, as_json=False)
    except KeyboardInterrupt:
        typed = f"dkdbg sync {shlex.quote(name)} --to {shlex.quote(placeholder)} --pull {what}"
        console.warn(f"dkdbg: interrupted; to fetch them later: {typed}")
        return EXIT_INTERRUPTED
