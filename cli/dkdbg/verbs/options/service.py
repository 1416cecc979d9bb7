"""The verbs of the debug service, or of a copy elsewhere: up, down, restart, logs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dkdbg.errors import EXIT_USAGE, DkdbgError
from dkdbg.verbs.options import values

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from dkdbg.verbs.options.parser import Parser, Verbs


def add_up(verbs: Verbs) -> None:
    """Start it."""
    up = verbs.add_parser("up", help="start the debug service, ready for F5")
    up.add_argument(
        "target",
        nargs="?",
        metavar="TARGET",
        help="start a copy of k8s://NAMESPACE/deployment/NAME, statefulset/, job/, cronjob/ or pytorchjob/ instead",
    )
    up.add_argument(
        "--wait-timeout",
        type=values.seconds,
        default=300,
        metavar="SECONDS",
        help="how long to wait until it is ready (300)",
    )
    up.add_argument(
        "--sync", action="store_true", help="then sync until Ctrl-C, if the workspace is not mounted"
    )
    up.add_argument("--json", action="store_true", help="one JSON object instead of text")
    _add_copy(up)
    up.set_defaults(call=_up)


def _add_copy(up: Parser) -> None:
    copy = up.add_argument_group(
        "for a copy of TARGET, with its program under the agent; the original stays as it is"
    )
    copy.add_argument("--yes", action="store_true", help="start it without asking")
    copy.add_argument("--diff", action="store_true", help="show it and start nothing")
    copy.add_argument(
        "--command", metavar="TEXT", default="", help="run this instead of the original's program"
    )
    copy.add_argument(
        "--overlay", metavar="FOLDER", help="copy what dkdbg init --k8s wrote, not what runs there"
    )
    copy.add_argument(
        "--attach", type=values.port, nargs="?", const=5677, metavar="PORT",
        help="forward this port of 127.0.0.1 (5677) to it, and remove the copy at the end",
    )  # fmt: skip
    copy.add_argument(
        "--wait",
        type=values.seconds,
        default=600,
        metavar="SECONDS",
        help="make the program wait for an editor (600)",
    )


def _up(options: argparse.Namespace, root: Path) -> int:
    if options.target:
        from dkdbg.verbs import debug_copy

        return debug_copy.up(
            root, options.target, command=options.command, wait=options.wait, yes=options.yes, diff=options.diff,
            wait_timeout=options.wait_timeout, overlay=options.overlay, attach=options.attach,
        )  # fmt: skip
    if options.overlay or options.attach:
        raise DkdbgError(
            "--overlay and --attach are for a copy of TARGET",
            hint="dkdbg up k8s://NAMESPACE/deployment/NAME --attach",
            exit_code=EXIT_USAGE,
        )
    from dkdbg.verbs.up import up

    code = up(root, as_json=options.json, wait_timeout=options.wait_timeout)
    if code or not options.sync:
        return code
    from dkdbg.verbs.sync import after_up

    return after_up(root, as_json=options.json)


def add_down(verbs: Verbs) -> None:
    """End it."""
    down = verbs.add_parser("down", help="stop and remove the debug service")
    down.add_argument(
        "target", nargs="?", metavar="TARGET", help="remove the copy that dkdbg up TARGET started instead"
    )
    down.add_argument(
        "--all", action="store_true", help="stop the whole compose project, profiled services included"
    )
    down.set_defaults(call=_down)


def _down(options: argparse.Namespace, root: Path) -> int:
    if options.target:
        from dkdbg.verbs import debug_copy

        return debug_copy.down(root, options.target)
    from dkdbg.verbs.down import down

    return down(root, everything=options.all)


def add_restart(verbs: Verbs) -> None:
    """Start its program again."""
    restart = verbs.add_parser("restart", help="start the program again; the editor stays attached")
    restart.add_argument("target", nargs="?", metavar="TARGET", help="where; the debug service by default")
    restart.set_defaults(call=_restart)


def _restart(options: argparse.Namespace, root: Path) -> int:
    from dkdbg.verbs.restart import restart

    return restart(root, options.target)


def add_logs(verbs: Verbs) -> None:
    """Show what it prints."""
    logs = verbs.add_parser("logs", help="show what the program prints")
    logs.add_argument("target", nargs="?", metavar="TARGET", help="where; the debug service by default")
    logs.add_argument("-f", "--follow", action="store_true", help="keep following until Ctrl-C")
    logs.add_argument("--tail", type=values.count, metavar="N", help="only the last N lines")
    logs.set_defaults(call=_logs)


def _logs(options: argparse.Namespace, root: Path) -> int:
    from dkdbg.verbs.logs import logs

    return logs(root, options.target, follow=options.follow, lines=options.tail)
