"""`dkdbg up`: start the debug service, wait until it is healthy, and make it reachable on a free port."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from dkdbg import console, hints
from dkdbg.agent.settings import ENV_FOR
from dkdbg.core.plan import PUBLISHED_ON
from dkdbg.core.target import Capability
from dkdbg.core.target_values import Start
from dkdbg.errors import EXIT_USAGE, DkdbgError
from dkdbg.printable import printable
from dkdbg.repository.dotenv import local_port
from dkdbg.setup.render.editor_files import LAUNCH, launch_port
from dkdbg.targets import registry
from dkdbg.verbs import values
from dkdbg.verbs.parts.keep_port import keep_port
from dkdbg.verbs.parts.repository import check_root, debug_service
from dkdbg.verbs.parts.service_token import choose_token
from dkdbg.verbs.parts.start_report import StartReport

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable
    from pathlib import Path

    from dkdbg.core.target import Target
    from dkdbg.verbs.parser import Parser


def add_options(parser: Parser) -> None:
    """Add the arguments of `dkdbg up`."""
    parser.add_argument(
        "target",
        nargs="?",
        metavar="TARGET",
        help="instead of the debug service, start a copy of k8s://NAMESPACE/deployment/NAME, statefulset/, job/, cronjob/ or pytorchjob/",
    )
    parser.add_argument(
        "--wait-timeout",
        type=values.seconds,
        default=300,
        metavar="SECONDS",
        help="how long to wait until it is ready (300)",
    )
    parser.add_argument(
        "--for",
        metavar="TIME",
        dest="limit",
        type=values.duration,
        help=f"{values.FOR}; the program keeps running",
    )
    parser.add_argument(
        "--sync", action="store_true", help="then sync until Ctrl-C, if the workspace is not mounted"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object instead of text")
    _add_copy(parser)


def _add_copy(parser: Parser) -> None:
    copy = parser.add_argument_group(
        "for a copy of TARGET, with its program under the agent; the original stays as it is"
    )
    copy.add_argument("--yes", action="store_true", help="start it without asking")
    copy.add_argument("--diff", action="store_true", help="show the copy and start nothing")
    copy.add_argument(
        "--command", metavar="TEXT", default="", help="run this instead of the original's program"
    )
    copy.add_argument(
        "--overlay", metavar="FOLDER", help="copy what dkdbg init --k8s wrote, not what runs in the cluster"
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


def call(options: argparse.Namespace, root: Path) -> int:
    """Start the debug service, or a debug copy of TARGET, and wait until an attach works; return the exit code.

    Raises:
        DkdbgError: the repository is not set up, or the start failed, with the cause and what to do next.
    """
    if options.target:
        if options.limit is not None:
            raise DkdbgError(
                "--for is for the debug service of this repository",
                hint=f"dkdbg attach {options.target} --for {options.limit:.0f}s closes the local port and the tunnel",
                exit_code=EXIT_USAGE,
            )
        from dkdbg.verbs.parts import debug_copy

        return debug_copy.up(root, options)
    if options.overlay or options.attach:
        raise DkdbgError(
            "--overlay and --attach are for a copy of TARGET",
            hint="dkdbg up k8s://NAMESPACE/deployment/NAME --attach",
            exit_code=EXIT_USAGE,
        )
    if options.limit is not None:  # compose passes it on to the debug service
        os.environ[ENV_FOR] = f"{options.limit:.3f}s"
    _up(root, as_json=options.json, wait_timeout=options.wait_timeout)
    if not options.sync:
        return 0
    from dkdbg.verbs.sync import after_up

    return after_up(root, as_json=options.json)


def _up(root: Path, *, as_json: bool, wait_timeout: int) -> None:
    check_root(root, "up")
    service = debug_service(root, starts=True)
    target = startable(registry.home(root, service.name))
    before = local_port(root, service.port)
    wanted = Start(
        service=service, port=before, wait=wait_timeout,
        token=lambda: choose_token(service, report=console.warn if as_json else console.say),
    )  # fmt: skip
    with StartReport() as shown:
        report: Callable[[str], None] = (lambda _: None) if as_json else shown
        started = target.up(
            wanted,
            report=report,
            moved=lambda port: keep_port(root, port, why=f"port {before} is taken", report=report),
        )
    attaches_to = launch_port(root)
    if started.port is not None and attaches_to not in {
        None,
        started.port,
    }:  # the user may have set DKDBG_PORT in .env
        keep_port(root, started.port, why=f"{LAUNCH} says port {attaches_to}", report=report)
    if as_json:
        state = {
            "service": service.name,
            "host": PUBLISHED_ON if started.port is not None else None,
            "port": started.port,
            "gpu": started.gpu,
            "token": started.token,
        }
        ports = {str(inside): outside for inside, outside in started.ports}
        console.emit({**state, "container": started.name, "engine": started.engine or None, "ports": ports})
    elif started.idle:
        console.say(
            f"{service.name} is up, and no program runs in it: dkdbg run -- COMMAND starts one there and says where to attach; "
            "dkdbg init --command COMMAND makes COMMAND the program of F5; Reopen in Container opens the container"
        )
    elif started.port is None:
        port = attaches_to or before
        where = (
            f"at {printable(started.engine)}"
            if started.engine
            else f"in {started.name}, which has no port on this machine"
        )
        console.say(f"ready {where}. Your editor can attach, and F5 works, while this runs:")
        console.say(hints.REMOTE_ATTACH(port=port))
        if started.engine:
            console.say(hints.REMOTE_SYNC())
    else:
        console.say(f'ready: attach to {PUBLISHED_ON}:{started.port} (F5, configuration "dkdbg: attach")')
        for inside, outside in started.ports:
            console.say(f"  http://{outside} is port {inside} of your program")
        console.say(hints.UP_DONE())


def startable(target: Target) -> Target:
    """Return the target if this machine can start and stop it. Raises DkdbgError: it cannot."""
    if Capability.START not in target.capabilities:
        raise DkdbgError(
            f"{target.address} cannot be started or ended from here",
            hint=f"start it with the command that you normally use, then dkdbg attach {target.address}",
            exit_code=EXIT_USAGE,
        )
    return target
