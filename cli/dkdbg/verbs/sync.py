"""`dkdbg sync`: make the target's files equal to those in this folder, and then copy each save."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

from dkdbg import console, signals
from dkdbg.core.mapping import Workspace, folder_name
from dkdbg.errors import EXIT_ERROR, EXIT_INTERRUPTED, EXIT_USAGE, DkdbgError
from dkdbg.sync.beneath import local_root
from dkdbg.sync.remote.contact import PYTHONS, Contact, SameFolderError
from dkdbg.sync.report import event, printable
from dkdbg.sync.text_output import Reporter
from dkdbg.targets import registry
from dkdbg.verbs import values

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from dkdbg.core.target import Executor, Target
    from dkdbg.sync.session import Session
    from dkdbg.verbs.parser import Parser


def add_options(parser: Parser) -> None:
    """Add the arguments of `dkdbg sync`."""
    parser.add_argument("target", nargs="?", metavar="TARGET", help="where; the debug service by default")
    parser.add_argument(
        "--to",
        metavar="PATH",
        help="the folder on the target (default: the one that init planned, else WORKDIR)",
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--once", action="store_true", help="stop when both sides are equal")
    what.add_argument(
        "--verify", action="store_true", help="only compare both sides; exit 1 when they differ"
    )
    what.add_argument(
        "--pull",
        action="append",
        default=[],
        metavar="FOLDER",
        help="copy a folder of the target to this machine",
    )
    what.add_argument(
        "--explain", metavar="PATH", help="show whether PATH is synced, and which rule decides it"
    )
    parser.add_argument(
        "--into", metavar="DIR", help="with --pull: the local folder (default: dkdbg-pulled/TARGET)"
    )
    parser.add_argument(
        "--limit", type=values.size, metavar="SIZE", help="with --pull: copy at most this much (10GB)"
    )
    parser.add_argument(
        "--python", metavar="PATH", help="the interpreter on the target (python3, python, ...)"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object per line for each event")


def call(options: argparse.Namespace, root: Path) -> int:
    """Run the verb with its parsed options; return the exit code."""
    if options.explain is not None:
        return explain(root, options.explain)
    return sync(
        root, options.target, to=options.to, once=options.once, verify=options.verify, pull=options.pull,
        into=options.into, python=options.python, as_json=options.json, limit=options.limit,
        folder=_folder(options, root),
    )  # fmt: skip


def _folder(options: argparse.Namespace, root: Path) -> str:
    """Return the folder to sync, relative to `root`: with -C and --to, the folder of -C instead of its repository."""
    named = options.to is not None and options.directory != "."
    return Path(options.directory).resolve().relative_to(root).as_posix() if named else "."


def sync(
    root: Path, name: str | None, *, as_json: bool, to: str | None = None, once: bool = False, verify: bool = False,
    pull: Sequence[str] = (), into: str | None = None, python: str | None = None, limit: int | None = None,
    compares: bool = True, folder: str = ".",
) -> int:  # fmt: skip
    """Make the target's files equal to those of `root`, and keep them so until Ctrl-C; return the exit code.

    Args:
        name: address, or name of a service, a container or a session; None for this repository's debug service.
        to: remote folder; None for the one that `init` planned, or the container's WORKDIR.
        folder: local folder, relative to `root`, that is copied to `to`.
        once: return as soon as both sides are equal.
        verify: compare both sides byte for byte, and change nothing.
        pull: remote folders to copy back, below `into`; nothing changes on the target.
        into: local folder for them.
        python: interpreter on the target; None to look for one.
        limit: maximum bytes to copy back; None for 10 GB.
        compares: whether to compare the sides even if they are one folder (a mount), to which nothing is sent.

    Raises:
        DkdbgError: the target cannot be reached or has no Python, or its files cannot be written.
    """
    with contextlib.closing(registry.home(root) if name is None else registry.target_of(name, root)) as named:
        is_made = named.names_workdir and not (to or verify or pull)
        target = named.with_workdir(folder_name(root)) if is_made else named
        executor = target.find()
        workspace = (
            Workspace(local=folder, remote=to, why="--to")
            if to
            else _workspace(root, target, executor, python, writes=not (verify or pull))
        )
        if not workspace.remote.startswith("/"):
            raise DkdbgError(
                f"--to {to} is not an absolute path on the target",
                hint="--to /workspace",
                exit_code=EXIT_USAGE,
            )
        local = local_root(root, workspace.local)
        reporter = Reporter(as_json=as_json)
        if not verify and not pull:
            reporter.begins(local, f"{target.label}:{workspace.remote}", workspace.why)
        elif not to:
            reporter.line(f"{target.label}:{workspace.remote}: {workspace.why}")
        contact = Contact(
            workspace.remote, local, pythons=(python,) if python else PYTHONS, look_only=verify or bool(pull)
        )
        if not verify and not pull:
            contact.start(executor)  # the receiver starts while this process loads modules
        from dkdbg.sync.roots import Roots
        from dkdbg.sync.rules.rules import ConfiguredRules
        from dkdbg.sync.session import Session

        # Keep the collector away from the many small tuples that follow: it would double the time, and find no cycle.
        gc.freeze()
        gc.set_threshold(50_000, 20, 100)
        roots = Roots(
            local=local,
            remote=workspace.remote,
            rules=ConfiguredRules(lambda reason: reporter.event(event("settings", reason=reason))),
            pythons=contact.pythons,
        )
        if verify or pull:
            signals.handle(signals.interrupt_once)
        if verify:
            from dkdbg.sync.verify import verify as compare

            return reporter.verified(compare(roots, executor))
        if pull:
            from dkdbg.sync import pull as pulling

            pull = [pulling.relative(each, workspace.remote) for each in pull]
            goal = pulling.destination(str(root), into, target.label, roots)
            max_bytes = pulling.MAX_BYTES if limit is None else limit
            done = pulling.pull(roots, executor, pull, goal, limit=max_bytes, report=reporter.event)
            return reporter.pulled(done, goal.path)
        session = Session(roots, target.find, report=reporter.event, contact=contact)
        with contextlib.closing(reporter):
            try:
                return _follow(session, reporter, once=once)
            except SameFolderError as error:
                if not compares:
                    raise
                from dkdbg.sync.verify import of_one_folder
                from dkdbg.sync.verify import verify as compare

                reporter.line(f"{error.message}: nothing is sent, and both are compared")
                return reporter.verified(of_one_folder(compare(roots, executor)))


def _follow(session: Session, reporter: Reporter, *, once: bool) -> int:
    """Keep both sides equal until Ctrl-C; with `once`, return when they are. Return the exit code."""
    signals.handle(signal.default_int_handler, [signal.SIGTERM])
    try:
        if once:
            session.once()
        else:
            session.follow()
    except KeyboardInterrupt:
        reporter.stopped(session.files)
        return EXIT_INTERRUPTED if once else 0
    return EXIT_ERROR if session.failed else 0


def _workspace(
    root: Path, target: Target, executor: Executor, python: str | None, *, writes: bool
) -> Workspace:
    """Return the folder in the target's address, otherwise the remote folder at which `root` is mounted, or a default.

    Args:
        writes: whether sync will write to the folder; then it rejects the home directory of a job.
    """
    from dkdbg.sync import shared

    if not target.names_workdir and (found := shared.find(str(root), executor, python=python)) is not None:
        return Workspace(local=".", remote=found, why="it is mounted here")
    return shared.folder_of(target, executor) if writes else target.workspace()


def after_up(root: Path, *, as_json: bool) -> int:
    """Sync to the debug service that `up` has started, unless it mounts the workspace; return the exit code.

    Raises:
        DkdbgError: as `sync`.
    """
    try:
        return sync(root, None, as_json=as_json, compares=False)
    except SameFolderError:
        if not as_json:
            console.say("nothing to sync: the workspace is mounted, so saved files are on the target at once")
        return 0


def explain(root: Path, path: str) -> int:
    """Print whether `path` (absolute, or relative to `root`) is synced and which rule decides; return the exit code.

    Raises:
        DkdbgError: `path` is not below `root`.
    """
    from dkdbg.sync.rules.rules import ConfiguredRules
    from dkdbg.sync.tree.scan import Scanner

    full = os.path.normpath(root / path)
    relative = os.path.relpath(full, root)
    if relative == os.pardir or relative.startswith(os.pardir + "/"):
        raise DkdbgError(
            f"{path} is not below {root}", hint="dkdbg -C ROOT sync --explain PATH", exit_code=EXIT_USAGE
        )
    scanner = Scanner(str(root), rules=ConfiguredRules())
    skip = scanner.scan().skipped.get(relative)
    verdict = scanner.rules.why(relative + ("/" if path.endswith("/") else ""))
    reason = f"left out: {skip.reason}" if verdict.takes_part and skip else verdict.reason
    console.say(printable(f"{relative}: {reason}"))
    return 0
