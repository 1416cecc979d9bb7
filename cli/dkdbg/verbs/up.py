"""`dkdbg up`: the debug service started, healthy, and reachable on a free port."""

from __future__ import annotations

import os
import shlex
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from dkdbg import console, hints
from dkdbg.agent.contract import ENV_TOKEN
from dkdbg.core.plan import FROM_ENVIRONMENT, FROM_NOWHERE, FROM_PERSON
from dkdbg.core.target import Capability
from dkdbg.core.target_values import Start
from dkdbg.errors import EXIT_USAGE, DkdbgError
from dkdbg.printable import printable
from dkdbg.repository import dotenv, git
from dkdbg.repository.transaction import read
from dkdbg.setup.detect.people import others
from dkdbg.setup.render import changes, identity, token_file
from dkdbg.setup.render.changes import FileWanted
from dkdbg.setup.render.editor_files import LAUNCH, editor_files, launch_port, with_port
from dkdbg.targets import registry
from dkdbg.verbs.init import check_root, check_written, debug_service, local_port, make_plan
from dkdbg.verbs.start_report import StartReport

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from dkdbg.core.plan import DebugService, ProjectPlan
    from dkdbg.core.target import Target


def up(root: Path, *, as_json: bool, wait_timeout: int) -> int:
    """Start the debug service and return when an attach will work; the exit code.

    Raises:
        DkdbgError: not initialised, or it could not be started, with cause and next step.
    """
    check_root(root, "up")
    service = debug_service(root)
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
    }:  # DKDBG_PORT in .env is a person's
        keep_port(root, started.port, why=f"{LAUNCH} says port {attaches_to}", report=report)
    if as_json:
        state = {
            "service": service.name,
            "host": "127.0.0.1" if started.port is not None else None,
            "port": started.port,
            "gpu": started.gpu,
            "token": started.token,
        }
        ports = {str(inside): outside for inside, outside in started.ports}
        console.emit({**state, "container": started.name, "engine": started.engine or None, "ports": ports})
    elif started.idle:
        console.say(
            f"{service.name} is up, and no program runs in it: dkdbg run -- COMMAND starts one there and says where to attach; "
            "dkdbg init --command COMMAND makes it the program of F5; Reopen in Container opens it"
        )
    elif started.port is None:
        port = attaches_to or before
        where = (
            f"at {printable(started.engine)}"
            if started.engine
            else f"in {started.name}, which has no network"
        )
        console.say(f"ready {where}. Your editor gets there, and F5 works, while this runs:")
        console.say(hints.REMOTE_ATTACH(port=port))
        if started.engine:
            console.say(hints.REMOTE_SYNC())
    else:
        console.say(f'ready: attach to 127.0.0.1:{started.port} (F5, configuration "dkdbg: attach")')
        for inside, outside in started.ports:
            console.say(f"  http://{outside} is port {inside} of your program")
        console.say(hints.UP_DONE())
    return 0


def startable(target: Target) -> Target:
    """Return the same target, which can be started and ended from here.

    Raises:
        DkdbgError: it cannot.
    """
    if Capability.START not in target.capabilities:
        raise DkdbgError(
            f"{target.address} cannot be started or ended from here",
            hint="start it as you always do",
            exit_code=EXIT_USAGE,
        )
    return target


def check_initialised(root: Path, plan: ProjectPlan) -> None:
    """Raise DkdbgError unless `init` has written the debug service and the agent."""
    check_written(root, plan.service.compose_file)


def choose_token(service: DebugService, *, report: Callable[[str], None]) -> str:
    """The token that the service asks for, made where it is wanted and absent; empty for none.

    Raises:
        DkdbgError: the token's file cannot be used.
    """
    if service.token == FROM_NOWHERE:
        people = others()
        if people:
            report(
                f"note: {_named(people)} can reach this port too, which runs code as you; a token keeps them out: "
                'token = "env" under [debug] in dkdbg.toml, then dkdbg init and dkdbg up'
            )
        return ""
    token, file = token_file.read(os.environ), token_file.path(os.environ)
    if token is None:
        token = token_file.make(os.environ)
        report(f"made a token for your debug ports: {file}")
        if service.token == FROM_PERSON:
            report(hints.TOKEN_SHOW(file=shlex.quote(str(file))))
    elif not token:
        report("note: DKDBG_TOKEN is set and empty: whoever can reach the port may attach")
    if token and service.token == FROM_ENVIRONMENT and not os.environ.get(ENV_TOKEN):
        report(hints.TOKEN_EXPORT(variable=ENV_TOKEN, file=shlex.quote(str(file))))
        report("  and start the editor (or its remote server) anew; until then its attach is refused")
    return token


def _named(people: tuple[str, ...]) -> str:
    shown = ", ".join(people[:3])
    return shown + (
        f" and {len(people) - 3} more users of this machine" if people[3:] else " on this machine"
    )


def keep_port(root: Path, port: int, *, why: str, report: Callable[[str], None]) -> None:
    """Let launch.json and .env learn of another port: plain `docker compose` and F5 have to publish and meet the same."""
    # An init that left no record of the entry: the plan knows it as well.
    launch = with_port(root, port) or editor_files(root, make_plan(root)[0], port, identity.of(root))[LAUNCH]
    env = read(root, PurePosixPath(".env"))
    text = dotenv.with_value(dotenv.decode(env), "DKDBG_PORT", str(port))
    wanted = {
        ".env": FileWanted(content=dotenv.encode(text), reason="the port that is free here", owned=False),
        LAUNCH: launch,
    }
    changes.apply(root, changes.between(root, wanted), changes.Journal(root=root))
    report(f"{why}; using {port}, written to {LAUNCH} and .env")
    shared = [name for name in (LAUNCH, ".env") if git.tracks(root, name)]
    if shared:
        report(f"  {port} is for this machine: keep it out of a commit of {' and '.join(shared)}")
    for phrase in launch.yours:
        report(f"  {LAUNCH}: yours stays {phrase}")
