"""`dkdbg verify`: run the program once, and prove that a breakpoint stops in it, or name the first broken link."""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING

from dkdbg import console, signals
from dkdbg.agent.proxy.listener import tokens
from dkdbg.core.config import FILE_NAME
from dkdbg.core.target_values import Once
from dkdbg.errors import EXIT_ERROR, EXIT_USAGE, DkdbgError
from dkdbg.printable import printable
from dkdbg.proof import asked, proving
from dkdbg.proof.finding import Finding
from dkdbg.repository import dotenv
from dkdbg.targets import registry
from dkdbg.targets.docker import containers
from dkdbg.targets.docker.ports import is_free
from dkdbg.verbs import values
from dkdbg.verbs.parts import proof_repair
from dkdbg.verbs.parts.repository import check_root, debug_service, make_plan
from dkdbg.verbs.parts.service_token import choose_token
from dkdbg.verbs.parts.start_report import StartReport

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable
    from pathlib import Path

    from dkdbg.core.plan import DebugService
    from dkdbg.core.target_values import AtEnd, Trial
    from dkdbg.proof.proving import Proof, Subject
    from dkdbg.verbs.parser import Parser

#: Seconds for which the program waits for the proof's own DAP client.
_WAIT_S = 600
#: Settings of the run: a server waits, too, and the run ends when the program ends or crashes.
_SETTINGS = {"DKDBG_WAIT": str(_WAIT_S), "DKDBG_RELOAD": "0", "DKDBG_ON_CRASH": ""}


def add_options(parser: Parser) -> None:
    """Add the arguments of `dkdbg verify`."""
    parser.add_argument(
        "--on",
        metavar="TARGET",
        help="verify a run on TARGET instead: of the command after --, or the one in dkdbg.toml",
    )
    parser.add_argument("--sync", action="store_true", help="with --on: copy your files to the target first")
    parser.add_argument(
        "--fix", action="store_true", help="repair what can be repaired; shows each change and asks first"
    )
    parser.add_argument("--yes", action="store_true", help="with --fix: do not ask")
    parser.add_argument(
        "--timeout",
        type=values.seconds,
        default=300,
        metavar="SECONDS",
        help="how long to wait for a start, the first stop and the imports after it (300)",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object instead of text")
    parser.add_argument("command", nargs="*", metavar="-- CMD", help="with --on: the command, word by word")


def call(options: argparse.Namespace, root: Path) -> int:
    """Prove the debug service, or a run on another target; return 0 only if a breakpoint stopped.

    Leaves all running programs alone, and changes no file without --fix.

    Raises:
        DkdbgError: this is not a repository, or an option needs --on.
    """
    if options.on is None and (options.command or options.sync):
        raise DkdbgError(
            "a command and --sync need --on TARGET; without --on, dkdbg verifies the debug service",
            hint=f"dkdbg verify --on local: -- {shlex.join(options.command or ['CMD'])}",
            exit_code=EXIT_USAGE,
        )
    signals.handle(signals.interrupt_once)  # not reset: a second signal must not stop the removal
    as_json = options.json
    check_root(root, "verify")
    with StartReport() as shown:
        report: Callable[[str], None] = (lambda _: None) if as_json else shown
        on_link: Callable[[str, str], None] = (
            (lambda _link, _seen: None)
            if as_json
            else lambda link, seen: shown(f"  ok  {link:<12} {printable(seen)}")
        )
        mended: list[str] = []
        while True:
            proof = _once(root, options, report=report, on_link=on_link)
            if proof.finding is None or not options.fix:
                break
            done = proof_repair.mend(root, proof.finding, yes=options.yes, as_json=as_json, report=report)
            if not done or done in mended:
                break
            mended.append(done)
    return _tell(root, proof, mended, as_json=as_json)


def _once(
    root: Path,
    options: argparse.Namespace,
    *,
    report: Callable[[str], None],
    on_link: Callable[[str, str], None],
) -> Proof:
    try:
        if options.on is not None:
            from dkdbg.verbs.parts import proof_on

            subject = proof_on.subject(
                root, options.on, options.command, sync=options.sync, timeout=options.timeout
            )
        else:
            service = debug_service(root, starts=True)
            taken = _taken_port(root, service)
            if taken is not None:
                return proving.Proof(finding=taken)
            subject = _of_service(root, service, options.timeout)
    except DkdbgError as error:
        finding = Finding(
            link="setup",
            cause="not-set-up",
            says=error.message.splitlines()[0],
            remedy=error.hint or "dkdbg init",
        )
        return proving.Proof(finding=finding)
    return proving.prove(subject, report=report, on_link=on_link)


def _of_service(root: Path, service: DebugService, timeout: float) -> Subject:
    plan, config = make_plan(root)
    token = choose_token(service, report=lambda _: None)
    entry = asked.of_repository(root, [(each.local, str(each.remote)) for each in plan.mappings])
    os.environ.update(_SETTINGS)  # compose reads settings from the environment

    def start(report: Callable[[str], None], at_end: AtEnd) -> Trial:
        wanted = Once(
            service=service, token=lambda: token, command=(), port=entry.port or dotenv.local_port(root, service.port),
            wait=_WAIT_S, ranks="", tty=False,
        )  # fmt: skip
        return registry.home(root, service.name).trial(wanted, report=report, at_end=at_end)

    extends = plan.service.extends
    asks = (
        f"the service {extends.name}"
        if extends is not None and extends.gpu
        else FILE_NAME
        if config.gpu == "required"
        else ""
    )
    wish = asks if dotenv.read(root, "DKDBG_GPU") != "none" else ""
    return proving.Subject(
        root=root, entry=entry, start=start, target_at=lambda address: registry.target_at(registry.address_of(address), root),
        around=proof_repair.of_plan(root, plan, config), gpu=wish, isolated=not service.host_network,
        extra={tokens.PROPERTY: token} if token else {}, timeout=timeout,
    )  # fmt: skip


def _taken_port(root: Path, service: DebugService) -> Finding | None:
    """Return the finding for F5's port if another program than the debug service listens on it."""
    entry = asked.of_repository(root)
    port = entry.port or dotenv.local_port(root, service.port)
    if is_free(port):
        return None
    try:
        project = containers.of_project(root)
        running = [each for each in project if each.label and each.running]
        shares = any(
            each.outside_port is None for each in running
        )  # it shares the network of a service that publishes the port
        if any(each.outside_port == port for each in running) or (
            shares and any(str(port) in each.outside_ports for each in project)
        ):
            return None
    except DkdbgError:  # the start of the trial reports that no engine answers
        return None
    return Finding(
        link="port", cause="port-taken", says=f"another program listens on 127.0.0.1:{port}, where F5 attaches",
        remedy="dkdbg up takes the next free port, and writes it to launch.json and .env; dkdbg ps or ss -ltnp shows which program uses this one",
        subject=str(port),
    )  # fmt: skip


def _tell(root: Path, proof: Proof, mended: list[str], *, as_json: bool) -> int:
    finding, stopped = proof.finding, proof.stopped
    if as_json:
        stop = None
        if stopped is not None:
            stop = {
                "path": stopped.path, "line": stopped.line, "function": stopped.function, "locals": stopped.values,
                "interpreter": stopped.executable, "python": stopped.python, "uid": stopped.uid, "process": stopped.process,
            }  # fmt: skip
        console.emit(
            {
                "proven": finding is None, "seconds": proof.seconds, "stop": stop,
                "links": [{"link": link, "seen": seen} for link, seen in proof.links],
                "finding": finding.as_json() if finding else None, "mended": mended,
                "left": proof.left,
            }
        )  # fmt: skip
        return 0 if finding is None else EXIT_ERROR
    if finding is None:
        assert stopped is not None  # noqa: S101 - if nothing stopped, there is a finding
        where = f"{os.path.relpath(stopped.path, root)}:{stopped.line}"
        left = "" if proof.left else "; its container and processes are gone"
        console.say(f"proven in {proof.seconds:.1f} s: a breakpoint in {where} stops{left}")
        return 0
    console.say("not proven. The first broken link:")
    for line in finding.lines():
        console.say(f"  {line}")
    return EXIT_ERROR
