"""`dkdbg attach`: keep one local port to which an editor attaches once, while containers come and go."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import textwrap
import threading
import time
from typing import TYPE_CHECKING

from dkdbg import console
from dkdbg.agent.contract import LOOPBACK
from dkdbg.agent.proxy.listener import local_users, proof, tokens
from dkdbg.agent.state import deadlines
from dkdbg.attach.pid import enter
from dkdbg.attach.ports import AFTER_RANKS, FIRST_RANKS
from dkdbg.core.address import CALL
from dkdbg.core.mapping import described, folder_name
from dkdbg.core.target import Capability
from dkdbg.errors import EXIT_USAGE, DkdbgError
from dkdbg.setup.detect.people import others
from dkdbg.setup.plan.editor import launch_entry
from dkdbg.setup.render import token_file
from dkdbg.signals import SIGNAL_INTERVAL, handle, interrupt_once
from dkdbg.targets import registry
from dkdbg.verbs import values
from dkdbg.verbs.parts import attach_listen
from dkdbg.verbs.parts.attach_proxy import AttachProxy, plain_proxy
from dkdbg.verbs.parts.launch_options import continues_of, ranks_of
from dkdbg.verbs.parts.repository import check_root, check_written, make_plan

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from dkdbg.attach.actions import Announce
    from dkdbg.attach.upstream import Seen, Upstream
    from dkdbg.core.plan import ProjectPlan
    from dkdbg.core.target import Target
    from dkdbg.verbs.parser import Parser
    from dkdbg.verbs.parts.attach_proxy import PlainProxy

#: Name of the launch entry that is shown.
NAME = "dkdbg: attach and stay"
#: Maximum seconds for printing the remaining lines at the end.
GOODBYE = 1.5


def add_options(parser: Parser) -> None:
    """Add the arguments of `dkdbg attach`."""
    parser.add_argument(
        "targets", nargs="*", metavar="TARGET", help="where; the debug service of this repository by default"
    )
    parser.add_argument("--port", type=values.port, default=5677, metavar="PORT", help="on 127.0.0.1 (5677)")
    parser.add_argument(
        "--ports", type=values.port, metavar="BASE",
        help="also a port per process, for clients without child sessions: rank r on BASE + r",
    )  # fmt: skip
    parser.add_argument(
        "--listen", type=values.listened, metavar="[HOST:]PORT",
        help="wait here for jobs that can only connect out (DKDBG_CONNECT) and know your token",
    )  # fmt: skip
    parser.add_argument(
        "--pid", type=values.process, action="append", default=[], metavar="PID", dest="pids",
        help="attach to the running Python process with this PID on the target (repeatable)",
    )  # fmt: skip
    parser.add_argument("--ranks", dest="choice", metavar="SET", help=values.RANKS)
    parser.add_argument("--for", type=values.duration, metavar="TIME", dest="limit", help=values.FOR)
    parser.add_argument("--json", action="store_true", help="one JSON object per line for each event")


def call(options: argparse.Namespace, root: Path) -> int:
    """Run the verb with its parsed options; return the exit code."""
    return attach(
        root,
        options.targets,
        port=options.port,
        ports=options.ports,
        as_json=options.json,
        ranks=options.choice,
        listen=options.listen,
        pids=options.pids,
        is_over=values.has_passed(options.limit),
    )


def attach(
    root: Path,
    names: Sequence[str],
    *,
    port: int,
    ports: int | None,
    as_json: bool,
    ranks: str | None = None,
    listen: tuple[str, int] | None = None,
    pids: Sequence[int] = (),
    is_over: Callable[[], bool] = lambda: False,
) -> int:
    """Forward editors from one local port to the targets until Ctrl-C; return the exit code.

    Args:
        names: addresses or names of targets; empty for this repository's debug service.
        port: port on 127.0.0.1; if it is taken, the next free one.
        ports: first of the ports that each serve one process; None to open them only for an editor that does not open
            child sessions.
        as_json: print events as JSON, one object a line.
        listen: (host, port) that jobs which can only connect out may connect to; an empty host is all addresses.
        ranks: ranks to debug; None for those in dkdbg.toml, otherwise those that the targets were started with.
        pids: PIDs of running Python processes on the target to attach to; empty for the only program of a container
            without an agent.
        is_over: called repeatedly; the proxy ends when it returns True.

    Raises:
        DkdbgError: a target's address has no known form, or this repository has no debug service.
    """
    chosen = ranks_of(root, ranks)
    plan = _plan(root, needed=not names and listen is None)
    targets = [each for name in names for each in registry.targets_of(name, root)]
    if not targets and plan is not None and listen is None:
        targets = [registry.home(root, plan.service.name)]
    if pids and len(targets) != 1:
        raise DkdbgError(
            "--pid is for a single target",
            hint="dkdbg attach docker://NAME --pid 7",
            exit_code=EXIT_USAGE,
        )
    reporter = _Reporter(as_json=as_json)
    if (plain := plain_proxy(targets, reporter, port=port)) is not None:
        return _stay(plain, reporter, is_over, lambda: _welcome_plain(reporter, plan, plain))
    token = _token(reporter) if listen is None else attach_listen.token_of(reporter)
    proves = listen is not None and local_users.reports_owners()
    proxy = AttachProxy(
        targets, reporter, port=port, base=ports, ranks=chosen, continues=continues_of(root), token=token, proves=proves
    )  # fmt: skip
    shown: set[tuple[str, str]] = set()
    found: list[tuple[str, str]] = []

    def begin() -> None:
        if listen is not None:
            attach_listen.wait_for_jobs(proxy, reporter, listen, token, opened)
        if ports is not None:
            _explain_ports(reporter, ports)
        shown.update(_welcome(reporter, root, plan, proxy.upstreams, proxy.port, entered=found))
        _warn_of_others(reporter)
        proxy.follow()

    def poll() -> bool:
        if (mappings := _said_by_sessions(proxy.upstreams)) - shown:
            shown.update(mappings)
            reporter.entry(entry_for(None, proxy.port, sorted(mappings)))
        return is_over()

    with contextlib.ExitStack() as opened:
        try:
            for target in targets:
                if (inside := enter(target, pids, root, reporter.line)) is not None:
                    opened.callback(inside.close)
                    found.extend(inside.mappings)
        except BaseException:
            proxy.close()  # closes the targets and their connections, too
            raise
        return _stay(proxy, reporter, poll, begin)


def _stay(
    proxy: AttachProxy | PlainProxy,
    reporter: _Reporter,
    is_over: Callable[[], bool],
    begin: Callable[[], None],
) -> int:
    """Accept editors until Ctrl-C or until `is_over` returns True; return the exit code."""
    handle(interrupt_once)  # not reset: a second signal must not change the exit code
    try:
        proxy.start()
        begin()
        while not is_over():  # Python runs signal handlers in this thread
            time.sleep(SIGNAL_INTERVAL)
    except KeyboardInterrupt:
        pass
    finally:
        proxy.close()
    reporter.event("end", "ended")
    reporter.end()
    return 0


def _welcome_plain(reporter: _Reporter, plan: ProjectPlan | None, proxy: PlainProxy) -> None:
    """Report where to attach. The launch entry gets the plan's mappings, because a plain debugpy reports none."""
    entry = entry_for(plan, proxy.port)
    reporter.event(
        "listening",
        f"attach your editor to {LOOPBACK}:{proxy.port}",
        host=LOOPBACK,
        port=proxy.port,
        entry=entry,
    )
    reporter.entry(entry)
    reporter.line(
        f"{proxy.target} is a plain debugpy: this port keeps it alive while editors come and go. Do not connect to it directly in the meantime"
    )
    _warn_of_others(reporter)


class _Reporter:
    """Reports events to a user or a program, from any thread, without waiting for a slow reader."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._print, name="dkdbg report", daemon=True)
        self._thread.start()

    def announce(self, announcement: Announce) -> None:
        """Report a message of the attach proxy's router."""
        more = {"target": announcement.upstream} if announcement.upstream else {}
        self.event(announcement.kind, announcement.text, prefix=announcement.upstream, **more)

    def line(self, text: str) -> None:
        """Report a line of text for the user."""
        self.event("note", text)

    def event(self, kind: str, text: str, *, prefix: str = "", **more: object) -> None:
        """Report an event; `more` are values for programs only."""
        if self._as_json:
            self._lines.put(console.event_line(kind, text, **more))
        else:
            self._lines.put(f"{time.strftime('%H:%M:%S')}  {prefix}{': ' if prefix else ''}{text}")

    def entry(self, entry: dict[str, object]) -> None:
        """Show a launch entry."""
        if self._as_json:
            self.event("entry", "a launch entry for it", entry=entry)
        else:
            self._lines.put("a launch entry for it:\n" + textwrap.indent(json.dumps(entry, indent=2), "    "))

    def end(self) -> None:
        """Print the remaining lines, and stop."""
        self._lines.put(None)
        self._thread.join(GOODBYE)

    def _print(self) -> None:
        while (line := self._lines.get()) is not None:
            console.say(line)


def _plan(root: Path, *, needed: bool) -> ProjectPlan | None:
    """Return the repository's plan; None if it cannot be made and is not `needed`."""
    try:
        check_root(root)
        plan, _ = make_plan(root)
        check_written(root, plan.service.compose_file)
    except DkdbgError:
        if needed:
            raise
        return None
    return plan


def _token(reporter: _Reporter) -> str:
    """Return the token of this environment, otherwise the one in this user's token file.

    Only the ports that serve one process need it: on the common port an editor sends its own.

    Raises:
        DkdbgError: the file that the environment names cannot be read.
    """
    try:
        token = tokens.read(os.environ)
    except ValueError as error:
        raise DkdbgError(str(error), exit_code=EXIT_USAGE) from error
    try:
        token = token or token_file.read(os.environ) or ""
    except DkdbgError as error:  # many users need no token
        reporter.line(f"{error.message}; continuing without a token")
        return ""
    if 0 < len(token) < proof.MIN_TOKEN_CHARACTERS:
        reporter.line(
            f"the token has only {len(token)} characters, which a hostile target could find by guessing; "
            f"use {proof.MIN_TOKEN_CHARACTERS} or more random ones, such as: openssl rand -hex 32"
        )
    return token


def _warn_of_others(reporter: _Reporter) -> None:
    """Warn that this machine's other users can use these ports, if the system does not report a connection's owner."""
    if not local_users.reports_owners() and (people := others()):
        reporter.line(
            f"this system does not report the owner of a connection: {', '.join(people[:3])} can use these ports too, "
            "and attach with your token through those of --ports"
        )


def _welcome(
    reporter: _Reporter,
    root: Path,
    plan: ProjectPlan | None,
    upstreams: Sequence[Upstream],
    port: int,
    *,
    entered: Sequence[tuple[str, str]],
) -> set[tuple[str, str]]:
    """Report where to attach, the launch entry, and each target's state; return the mappings in that entry."""
    entry = entry_for(plan, port)
    reporter.event(
        "listening",
        f"attach your editor to {LOOPBACK}:{port}; it stays attached while programs come and go",
        host=LOOPBACK,
        port=port,
        entry=entry,
    )
    polled = [(each, each.poll()) for each in upstreams]
    found = [
        *entered,
        *(pair for each, seen in polled for pair in _code_of(root, each.target, seen, guess=not entered)),
    ]
    if not found and any(Capability.REMOTE in each.target.capabilities for each in upstreams):
        plan = None  # its mappings are for a local container
    reporter.entry(entry_for(plan, port, found))
    for upstream, seen in polled:
        text = "ready" if seen.agent else f"waiting: {seen.why}"
        reporter.event(
            "target", text, prefix=upstream.name, target=upstream.name, address=str(upstream.target.address), ready=bool(seen.agent)
        )  # fmt: skip
        if seen.hint:
            reporter.line(f"hint: {seen.hint}")
        for line in () if seen.agent else upstream.target.advice():
            reporter.line(line)
        if going := deadlines.line(upstream.target.deadlines(), time.time()):
            reporter.event("deadlines", going, prefix=upstream.name, target=upstream.name)
    return set(found)


def _said_by_sessions(upstreams: Sequence[Upstream]) -> set[tuple[str, str]]:
    """Return the mappings that the running sessions of remote targets report."""
    seen = [
        each.last
        for each in upstreams
        if Capability.REMOTE in each.target.capabilities or each.target.address.scheme == CALL
    ]
    return {pair for each in seen if each is not None and each.record for pair in each.record.mappings}


def _code_of(root: Path, target: Target, seen: Seen, *, guess: bool) -> Sequence[tuple[str, str]]:
    """Return a remote target's mappings: those of its session, otherwise (with `guess`) of the folder that sync fills.

    Without `guess`, a session that is slow to answer gets no mapping.
    """
    if Capability.REMOTE not in target.capabilities:
        return ()
    if seen.record is not None and seen.record.mappings:
        return seen.record.mappings
    if not guess:
        return ()
    with contextlib.suppress(DkdbgError):  # where the code is, is unknown
        lies = target.planned_workdir(folder_name(root)) if seen.record is None else target.workspace()
        return ((lies.local, lies.remote),)
    return ()


def _explain_ports(reporter: _Reporter, base: int) -> None:
    others = base + AFTER_RANKS
    text = f"rank r: attach to {LOOPBACK}:{base} + r, other processes from {others} up; you can attach before they start"
    reporter.event("ports", text, first=base, ranks=FIRST_RANKS, others=others)
    reporter.line(
        "a process with a connected client waits for its breakpoints before it starts; the others start at once"
    )


def entry_for(
    plan: ProjectPlan | None, port: int, found: Sequence[tuple[str, str]] = ()
) -> dict[str, object]:
    """Return the launch entry that `init` writes, but with this port and without the task that starts the container.

    Args:
        plan: None if the repository has no plan.
        found: mappings to use instead of the plan's, if any are known.
    """
    if plan is None:
        connect = {"host": LOOPBACK, "port": port}
        entry: dict[str, object] = {
            "type": "debugpy",
            "request": "attach",
            "connect": connect,
            "justMyCode": True,
        }
    else:
        entry = launch_entry(plan, port)
        entry.pop("preLaunchTask", None)
    if found:
        entry["pathMappings"] = described(dict.fromkeys(found))
    return {**entry, "name": NAME}
