"""`dkdbg why FILE:LINE`: report why a breakpoint on a line of a running program does not stop."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

from dkdbg import console, hints, process
from dkdbg.agent.dap import sources
from dkdbg.core import sessions
from dkdbg.core.address import LOCAL, is_loopback
from dkdbg.core.target import Capability
from dkdbg.errors import EXIT_ENGINE, EXIT_ERROR, EXIT_USAGE, DkdbgError
from dkdbg.launchers.words import whole_number
from dkdbg.printable import printable
from dkdbg.proof import line_answer, line_causes, program_end
from dkdbg.proof.asked import Asked, Entry, absolute, of_launch, of_repository
from dkdbg.proof.finding import BrokenError, Finding, silent
from dkdbg.repository.dotenv import local_port
from dkdbg.targets import registry
from dkdbg.verbs.parts import proof_repair
from dkdbg.verbs.parts.repository import check_root, debug_service

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from dkdbg.core.sessions import SeenSession
    from dkdbg.core.target import Target
    from dkdbg.proof.line_answer import LineAnswer
    from dkdbg.verbs.parser import Parser

#: Number of lines of the program's output to read; maximum bytes of them; timeout in seconds.
_LINES, _MAX_OUTPUT_BYTES, _TIMEOUT_S = 60, 1 << 20, 60.0
#: Maximum remote paths to ask a target about: each is a round trip, and a repository may have many launch entries.
_MAX_PATHS = 8


def add_options(parser: Parser) -> None:
    """Add the arguments of `dkdbg why`."""
    parser.add_argument("where", metavar="FILE:LINE", help="a file of this repository, or of its packages")
    parser.add_argument(
        "--on",
        metavar="TARGET",
        help="where it runs; by default this repository's debug service, else the only session",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object instead of text")


def call(options: argparse.Namespace, root: Path) -> int:
    """Print the causes, the first broken link first; return 0 if no cause is found.

    Raises:
        DkdbgError: there is no such file, or the target is unknown.
    """
    path, line = _parsed(root, options.where)
    facts: list[str] = []
    found: list[Finding] = []
    try:
        with contextlib.ExitStack() as opened:
            target, seen = _session(root, options.on, opened)
            found = _causes(root, target, seen, (path, line), facts, is_home=options.on is None)
    except BrokenError as error:
        found = [error.finding]
    if options.json:
        console.emit(
            {"file": str(path), "line": line, "facts": facts, "findings": [each.as_json() for each in found]}
        )
        return EXIT_ERROR if found else 0
    for each in facts:
        console.say(f"  {printable(each)}")
    if not found:
        console.say("no broken link found: a breakpoint there stops the next time that the line runs")
        return 0
    for number, finding in enumerate(found):
        if number == 1:
            console.say("also:")
        for text in finding.lines():
            console.say(text)
    return EXIT_ERROR


def _parsed(root: Path, where: str) -> tuple[Path, int]:
    name, _, digits = where.rpartition(":")
    line = whole_number(digits)
    if not name or not line:
        raise DkdbgError(f"{where} is not FILE:LINE", hint="dkdbg why train.py:12", exit_code=EXIT_USAGE)
    for path in (Path(name).absolute(), root / name):
        if path.is_file():
            return Path(os.path.normpath(path)), line
    if Path(name).is_absolute():  # a file that may exist only on the target
        return Path(os.path.normpath(name)), line
    raise DkdbgError(
        f"there is no file {name} in {root}", hint="dkdbg why PATH/FILE.py:LINE", exit_code=EXIT_USAGE
    )


# -- the session ----------------------------------------------------------------------------------------------------


def _session(root: Path, on: str | None, opened: contextlib.ExitStack) -> tuple[Target, SeenSession]:
    """Return the target and its session; `opened` will close the target.

    Raises:
        BrokenError: no program runs there, or it runs without dkdbg.
        DkdbgError: the target is unknown, or has several sessions.
    """
    target = registry.target_of(on, root) if on is not None else _home(root)
    if target is None:
        seen = sessions.choose(registry.sessions()[0], naming=_naming)
        only = registry.target_at(registry.address_of(seen.address), root)
        return opened.enter_context(contextlib.closing(only)), seen
    opened.callback(target.close)
    try:
        found = target.sessions()
    except DkdbgError as error:
        if error.exit_code == EXIT_USAGE:
            raise
        raise BrokenError(_not_running(error)) from error
    if not found and target.address.scheme == LOCAL:
        others = [each for each in registry.sessions()[0] if not each.is_ended and each.target == LOCAL]
        sessions.choose(
            [], on, others=others, naming=_naming, begin=registry.how_to_begin(str(target.address))
        )
    if not found:
        raise BrokenError(_without_agent(root, target))
    if all(each.is_ended for each in found):
        raise BrokenError(_ended(root, target, found[-1]))
    unreadable = next((each for each in found if each.state == sessions.UNREADABLE), None)
    if unreadable is not None:
        raise BrokenError(silent(unreadable.detail, "dkdbg restart, or dkdbg up"))
    if found[-1].state == sessions.PAUSED:
        says, _, remedy = found[-1].detail.partition(": ")
        raise BrokenError(Finding(link="start", cause="paused", says=says, remedy=remedy))
    if all(each.started is None for each in found):
        raise BrokenError(_no_session(target))
    chosen = sessions.choose(found, on, naming=_naming)
    return target, chosen


def _naming(target: str) -> str:
    return f"dkdbg why FILE:LINE --on {target}"


def _home(root: Path) -> Target | None:
    """Return the target of this repository's debug service; None if `init` has not written one."""
    with contextlib.suppress(DkdbgError):
        check_root(root, "why")
        return registry.home(root, debug_service(root).name)
    return None


def _not_running(error: DkdbgError) -> Finding:
    says, remedy = error.message.splitlines()[0], error.hint or hints.SERVICE_UP()
    if error.exit_code == EXIT_ENGINE:
        return Finding(link="engine", cause="engine-absent", says=says, remedy=remedy)
    if "; there are: " in says:  # lists other services of the project that run
        return Finding(
            link="start",
            cause="profile-inactive",
            says=f"{says}: its profile, debug, is not active",
            remedy=remedy,
        )
    if " service " in says:
        remedy += "; plain docker compose up leaves it out, because its profile, debug, is not active"
    return Finding(link="start", cause="not-running", says=says, remedy=remedy)


def _without_agent(root: Path, target: Target) -> Finding:
    """Return the finding for a container whose program runs without dkdbg."""
    plain = line_causes.of_debugpy(target)
    if plain is not None:
        return plain
    try:
        label = target.find().label
    except DkdbgError as error:  # the service has ended
        return _not_running(error)
    with contextlib.suppress(DkdbgError):
        service = debug_service(root)
        if target.address == registry.home(root, service.name).address:
            return Finding(
                link="start", cause="profile-inactive",
                says=f"{label} runs without dkdbg: the profile debug, with {service.name}, is not active",
                remedy=f"dkdbg up, or docker compose --profile debug up --wait {service.name}",
            )  # fmt: skip
    return Finding(
        link="agent", cause="agent-absent", says=f"{label} runs without dkdbg's agent",
        remedy=f"dkdbg attach {target.address} shows how to attach to it; dkdbg run --on {target.address} -- COMMAND starts it under dkdbg",
    )  # fmt: skip


def _no_session(target: Target) -> Finding:
    """Return the finding for a running container whose agent has no session (yet)."""
    output = _output(target)
    found = program_end.of_agent(output)
    return found or Finding(
        link="agent", cause="starting", says=f"the agent on {target.label} has no session yet", remedy="wait, then dkdbg ps; dkdbg logs shows what it does",
        detail=tuple(output.splitlines()[-8:]),
    )  # fmt: skip


def _ended(root: Path, target: Target, seen: SeenSession) -> Finding:
    output = _output(target)
    cause = program_end.cause_of(output, None, proof_repair.around(root, ""))
    is_known = cause.cause != "program-ends"
    says = cause.says if is_known else program_end.last_error(output) or seen.detail
    name = seen.name if target.address.scheme == LOCAL else seen.target
    logs = "; dkdbg logs shows all that it printed" * (Capability.LOGS in target.capabilities)
    return Finding(
        link="start", cause="container-exited", says=f"{name} has ended" + (f": {says}" if says else ""),
        remedy=cause.remedy if is_known else registry.how_to_begin(str(target.address), [seen]) + logs, detail=cause.detail,
    )  # fmt: skip


def _output(target: Target) -> str:
    if Capability.LOGS not in target.capabilities:
        return ""
    with contextlib.suppress(DkdbgError):
        done = process.read(
            target.logs(follow=False, lines=_LINES), max_bytes=_MAX_OUTPUT_BYTES, timeout=_TIMEOUT_S
        )
        return done.stdout + done.stderr
    return ""


# -- the line -------------------------------------------------------------------------------------------------------


def _causes(
    root: Path,
    target: Target,
    seen: SeenSession,
    place: tuple[Path, int],
    facts: list[str],
    *,
    is_home: bool,
) -> list[Finding]:
    """Return the causes that keep the breakpoint from stopping; append the facts behind them to `facts`."""
    path, line = place
    lines = sources.describe(str(path)).get("lines")
    if isinstance(lines, int) and line > lines:
        return [
            Finding(
                link="line", cause="no-code", says=f"{path.name} has only {lines} lines, so no line {line}", remedy="dkdbg why FILE:LINE, with a line that exists"
            )
        ]  # fmt: skip
    try:
        entry, answer = _looked(root, target, seen, place, is_home=is_home)
    except DkdbgError as error:
        return [silent(error.message, error.hint or "dkdbg ps")]
    if not answer.sessions:
        return [silent(f"{seen.target} reports no session {seen.id}", "dkdbg ps")]
    session, remote = answer.sessions[0], entry.remote_of(str(path))
    host, _ = target.listen_address()
    asked = Asked(
        path=path, line=line, entry=entry, remote=remote, session=session, remote_file=answer.files[0] if answer.files and remote else None,
        root=root, isolated=Capability.CONTAINER in target.capabilities and not is_loopback(host),
        restart="dkdbg restart" if is_home and _home(root) is not None else f"dkdbg restart {seen.address}",
    )  # fmt: skip
    _add_facts(facts, asked, seen)
    ports = _other_port(entry, seen, local_port(root, 0)) if is_home else None
    return [*line_causes.causes(asked), *([ports] if ports else [])]


def _looked(
    root: Path, target: Target, seen: SeenSession, place: tuple[Path, int], *, is_home: bool
) -> tuple[Entry, LineAnswer]:
    """Return the mapping that an editor uses for a file, and the target's answer about the mapped path.

    Use the first mapping whose remote file exists, otherwise the first one that covers the path.

    Raises:
        DkdbgError: the target does not answer.
    """
    path, line = place

    def ask(entry: Entry) -> LineAnswer:
        return line_answer.ask(target, entry.remote_of(str(path)) or str(path), line, name=seen.id)

    if is_home and (own := of_repository(root)).mappings:
        return own, ask(own)
    if target.address.scheme == LOCAL:
        own = Entry(port=None, mappings=((str(root), str(root)),), source="this machine")
        return own, ask(own)
    nothing = Entry(port=None, mappings=(), source="nothing")
    answer = ask(nothing)
    answers = {str(path): answer}
    maps: list[tuple[Entry, LineAnswer]] = []
    others: list[tuple[Entry, LineAnswer]] = []
    for each in _possible(root, target, answer):
        remote = each.remote_of(str(path))
        if remote and remote not in answers:
            if len(answers) > _MAX_PATHS:
                break
            answers[remote] = ask(each)
        pair = each, answers.get(remote, answer)
        if remote and pair[1].files and pair[1].files[0].exists:
            return pair
        if each.mappings:
            (maps if remote else others).append(pair)
    return [*maps, *others, (nothing, answer)][0]


def _possible(root: Path, target: Target, answer: LineAnswer) -> Iterator[Entry]:
    """Yield the mappings that an editor may use for this target: its session's, those in launch.json, its address's."""
    for session in answer.sessions[:1]:
        yield Entry(port=None, mappings=absolute(root, session.mappings), source="the mapping of the session")
    yield from of_launch(root)
    with contextlib.suppress(DkdbgError):
        lies = target.workspace()
        yield Entry(
            port=None,
            mappings=absolute(root, [(lies.local, lies.remote)]),
            source=f"the target ({lies.why})",
        )


def _add_facts(facts: list[str], asked: Asked, seen: SeenSession) -> None:
    session = asked.session
    facts.append(
        f"session    {session.name} on {seen.target}, {session.state}, "
        + ("an editor is attached" if session.client else "no editor is attached")
    )
    if asked.remote:
        remote_file = asked.remote_file
        kind = (
            f" ({remote_file.kind})"
            if remote_file is not None and remote_file.exists
            else " (no such file there)"
        )
        facts.append(f"maps to    {asked.remote}{kind}, by {asked.entry.source}")
    else:
        facts.append(f"maps to    nothing, by {asked.entry.source}")
    for process_, file in asked.loaded[:8]:
        ran = {True: "has run", False: "has not run", None: "may have run"}[
            file.ran or (None if process_.misses_calls else file.ran)
        ]
        code = {True: "code", False: "no code", None: "unknown code"}[file.code]
        stops = sum(each.stops for each in file.breakpoints or () if each.line == asked.line)
        facts.append(
            f"loaded by  {process_.name or process_.pid} as {file.file.path or file.module}: {code} on line {asked.line}, "
            f"in {file.function or '<module>'}, which {ran}; Python {process_.python}, {'joined' if process_.joined else 'not joined'}"
            + f"; the breakpoint has stopped {stops} time{'s' * (stops != 1)}"
            * bool(stops)
        )


def _other_port(entry: Entry, seen: SeenSession, written: int) -> Finding | None:
    """Return the finding for a launch entry with another port than the session's."""
    port = whole_number(seen.endpoint.rpartition(":")[2])
    wanted = entry.port or written
    if not wanted or port is None or port == wanted:
        return None
    return Finding(
        link="port", cause="other-port", says=f"{entry.source} attaches to port {wanted}, but {seen.target} listens at {seen.endpoint}",
        remedy="dkdbg up writes its port to launch.json and .env",
    )  # fmt: skip
