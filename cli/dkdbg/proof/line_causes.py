"""Find why a breakpoint does not stop: yield all causes that the facts show, in the order of the chain's links."""

from __future__ import annotations

import ast
import contextlib
from typing import TYPE_CHECKING

from dkdbg.core.address import is_loopback
from dkdbg.core.target import Capability
from dkdbg.errors import DkdbgError
from dkdbg.launchers.words import whole_number
from dkdbg.proof import file_causes
from dkdbg.proof.asked import INSTALLED
from dkdbg.proof.finding import Finding
from dkdbg.proof.line_answer import COMPILERS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from dkdbg.core.pythons import PythonThere
    from dkdbg.core.target import Target
    from dkdbg.proof.asked import Asked
    from dkdbg.proof.line_answer import LineSession, LoadedFile, Process

    Loaded = Sequence[tuple[Process, LoadedFile]]

#: Suffixes of Python sources. A script may have none.
_PYTHON = frozenset({"", ".py", ".pyw"})
#: Python versions in which a thread has only one trace function (before sys.monitoring).
_ONE_TRACER = ("3.8.", "3.9.", "3.10.", "3.11.")
#: Texts for these versions, which miss breakpoints in threads made by C++; missed_code.py has other such cases.
_IN_CPP = ", or in a thread that C++ makes"
_TRACE_CPP = "; to stop in a thread that C++ makes, call debugpy.debug_this_thread() in the function"
#: Uncertain causes: a process without the agent that may run the line is the likelier explanation.
_PERHAPS = frozenset({"never-reached", "ran-before", "stopped", "crlf"})


def causes(asked: Asked) -> Iterator[Finding]:
    """Yield the causes, the first broken link first. Yield nothing if every link that can be seen holds."""
    session = asked.session
    if asked.isolated and is_loopback(session.host):
        yield listens_inside(session)
    loaded = asked.loaded
    others = list(_of_file(asked, loaded))
    processes: list[Finding] = []
    has_run = any(file.ran for _, file in loaded)
    if not loaded or (session.unhooked and not has_run):
        processes.extend(_of_processes(session))
    if not has_run:
        processes.extend(_of_cluster(session))
    is_certain = any(
        each.link == "mapping" or each.cause == "not-python" or (loaded and each.cause not in _PERHAPS)
        for each in others
    )
    is_certain |= not loaded and bool(_namesakes(asked))
    yield from (*others, *processes) if is_certain else (*processes, *others)


def _of_file(asked: Asked, loaded: Loaded) -> Iterator[Finding]:
    """Yield the causes in the mapping of the file, and in the processes that have loaded it."""
    mapped = [(process, file) for process, file in loaded if asked.is_mapped(file)]
    copies = [(process, file) for process, file in loaded if not asked.is_mapped(file)]
    yield from file_causes.of_mapping(asked, mapped, copies)
    yield from _of_content(asked, mapped)
    if not loaded:
        yield from _not_loaded(asked)
        return
    yield from _of_library(asked, loaded)
    yield from _of_ranks(asked, loaded)
    yield from _of_attachment(asked, mapped)
    yield from _of_line(asked, mapped)
    yield from _of_time(asked, mapped)
    if mapped and (ends := file_causes.of_line_ends(asked, mapped[0][1].file)) is not None:
        yield ends


# -- which process --------------------------------------------------------------------------------------------------


def _of_processes(session: LineSession) -> Iterator[Finding]:
    if session.unhooked:
        name, why = session.unhooked[0]
        if why.endswith("cannot reach the session"):
            yield Finding(
                link="process", cause="other-user", says=f"{name} cannot be debugged: {why}",
                remedy="do not change the user (su, gosu) while you debug it, or debug it in a container of its own, where dkdbg admits other users",
            )  # fmt: skip
            return
        is_other = "not CPython" in why
        yield Finding(
            link="process", cause="other-interpreter" if is_other else "hook-missing",
            says=f"{name} runs in a Python that has not loaded the agent: {why}",
            remedy="start it with CPython 3.8 or newer, such as the interpreter of the image" if is_other
            else "start it with the interpreter of the image, without -S, -I and -E, and with PYTHONPATH extended, not replaced",
        )  # fmt: skip
    elif not session.processes and session.state == "waiting":
        yield Finding(
            link="process", cause="waiting", says=f"{session.name} waits for an editor before the program's first line",
            remedy="press F5, or dkdbg attach",
        )  # fmt: skip
    elif not session.processes and session.state == "idle":
        yield _ended(session.name)
    elif not session.processes:
        yield Finding(
            link="process", cause="no-process", says=f"no Python process of {session.name} has loaded the agent ({session.state})",
            remedy="is the program Python, and does it start without -S, -I and -E? dkdbg logs shows what it prints",
        )  # fmt: skip


def _ended(name: str) -> Finding:
    return Finding(
        link="process", cause="program-ended", says=f"the program of {name} has ended",
        remedy="set the breakpoint, then start it again: dkdbg up or dkdbg restart; with DKDBG_WAIT=60 it first waits for the editor",
    )  # fmt: skip


def _of_cluster(session: LineSession) -> Iterator[Finding]:
    """Report workers of a Ray cluster that runs outside the session."""
    for process in session.processes:
        if process.in_cluster:
            yield Finding(
                link="process", cause="ray-outside", says=f"{process.name} has joined a Ray cluster that runs outside of this session, whose workers are not debugged",
                remedy="dkdbg run --on ray+TARGET -- COMMAND debugs them: TARGET is a node of the cluster, as in ray+docker://NAME",
            )  # fmt: skip


def _not_loaded(asked: Asked) -> Iterator[Finding]:
    session = asked.session
    if not session.processes:
        return  # reported already
    silent = [each for each in session.processes if not each.answered]
    if session.unhooked and len(silent) == len(session.processes):
        return
    if all(each.ended for each in session.processes):
        yield _ended(session.name)
        return
    if len(silent) == len(session.processes) and (frozen := [each for each in silent if each.frozen]):
        yield Finding(
            link="process", cause="silent", says=f"a signal (SIGSTOP, Ctrl-Z) has stopped {_named(frozen)}, which runs no code until it is continued",
            remedy=f"kill -CONT {frozen[0].pid}, where the program runs",
        )  # fmt: skip
        return
    if len(silent) == len(session.processes):
        from_input = silent[0].name.startswith("python")
        yield Finding(
            link="process", cause="silent",
            says=f"{_named(silent)} does not answer: a call into C holds the GIL, or the process is ending"
            + (", or it reads the program from standard input, because its command names none" if from_input else ""),
            remedy="dkdbg where shows where it is" + ("; an sh -c entrypoint needs \"$@\" in its text to run its command" if from_input else ""),
        )  # fmt: skip
        return
    if asked.path.suffix not in _PYTHON:
        yield Finding(
            link="file", cause="not-python", says=f"{asked.path.name} is not a Python source, and breakpoints stop only in Python code",
            remedy="set it in the Python code that uses the file; a template needs \"jinja\": true or \"django\": true in the launch entry",
        )  # fmt: skip
        return
    if has_interpreters := [each for each in session.processes if each.has_interpreters]:
        yield _in_interpreters(has_interpreters, f"has not loaded {asked.path.name}")
        return
    others = _namesakes(asked)
    other = f"; another file of that name is loaded: {others[0].file.path}" if others else ""
    yield Finding(
        link="process", cause="not-loaded", says=f"none of the {len(session.processes)} processes ({_named(session.processes)}) has loaded {asked.path.name}{other}",
        remedy=("set the breakpoint in that file; or " if others[0].origin == "source" else "")
        + "put the parent folder of this one first on PYTHONPATH, or install it with pip install -e"
        if others
        else "either nothing has imported it yet (in streamlit a request imports it: dkdbg up, then open the address that it prints), or exec ran its source without a file name, or another program runs: dkdbg where shows which",
    )  # fmt: skip


def _namesakes(asked: Asked) -> list[LoadedFile]:
    """Return the loaded files of the asked one's name in mapped folders."""
    return [
        file
        for each in asked.session.processes
        for file in each.files
        if any(file.file.path.startswith(f"{root}/") for _, root in asked.entry.mappings)
    ]


def _in_interpreters(processes: Sequence[Process], says: str) -> Finding:
    """Return the finding for a line that may run in subinterpreters; the main one has not done what it `says`."""
    return Finding(
        link="process", cause="subinterpreter", says=f"the main interpreter of {_named(processes)} {says}, and no breakpoint stops in its subinterpreters",
        remedy="ThreadPoolExecutor or ProcessPoolExecutor in place of InterpreterPoolExecutor while you debug it",
    )  # fmt: skip


def _of_library(asked: Asked, loaded: Loaded) -> Iterator[Finding]:
    path = loaded[0][1].file.path
    if asked.is_mapped(loaded[0][1]) and any(
        INSTALLED.search(f"{root}/") for _, root in asked.entry.mappings
    ):
        return  # an installed package that is mapped is the user's code
    if asked.entry.just_my_code and INSTALLED.search(path):
        yield Finding(
            link="line", cause="just-my-code", says=f"{path} is installed code, which justMyCode hides",
            remedy=f'"justMyCode": false in {asked.entry.source}',
        )  # fmt: skip


def _of_ranks(asked: Asked, loaded: Loaded) -> Iterator[Finding]:
    """Report that only ranks which are not debugged run the line."""
    free = [process for process, _ in loaded if process.free]
    ran = [process for process, file in loaded if file.ran]
    if not free or not (all(each.free for each in ran) if ran else len(free) == len(loaded)):
        return
    free_ranks = [each for each in ran if each.free] or free
    ranks = ", ".join(str(each.rank) for each in free_ranks if each.rank is not None)
    yield Finding(
        link="process", cause="rank-not-chosen", says=f"{asked.where} runs in {_named(free_ranks)}, which {'is' if len(free_ranks) == 1 else 'are'} not among the debugged ranks",
        remedy=f"DKDBG_RANKS={ranks or 'all'} dkdbg up, ranks in dkdbg.toml, or --ranks {ranks or 'all'}",
    )  # fmt: skip


def _of_attachment(asked: Asked, mapped: Loaded) -> Iterator[Finding]:
    """Report that an editor is attached, but to none of the processes that have loaded the file."""
    attached = [process for process, _ in mapped if not process.free]
    foreign = [each for each in attached if each.debugger == "other"]
    if foreign and len(foreign) == len(attached):
        yield Finding(
            link="process", cause="other-debugger", says=f"{_named(foreign)} has another debugger attached, which it started itself",
            remedy="remove debugpy.listen, pdb and breakpoint() from the program: dkdbg provides the debugger",
        )  # fmt: skip
        return
    if not attached or not asked.session.client or any(each.joined or each.debugger for each in attached):
        return  # a process that has not joined may be joining now
    child = attached[0]
    parent = next((each for each in asked.session.processes if each.pid == child.ppid), None)
    origin = (
        f", a child of {_named([parent])} (a worker, or a reloader's child)" if parent is not None else ""
    )
    yield Finding(
        link="process", cause="child-not-attached",
        says=f"{asked.path.name} is loaded in {_named([child])}{origin}, which the editor is not attached to",
        remedy="use an editor that follows child sessions; dkdbg logs shows why a process has not joined",
    )  # fmt: skip


# -- which content --------------------------------------------------------------------------------------------------


def _of_content(asked: Asked, mapped: Loaded) -> Iterator[Finding]:
    remote_file = mapped[0][1].file if mapped else asked.remote_file
    if remote_file is None:
        return
    finding = (
        file_causes.of_file(asked.path, remote_file, asked.entry, asked.session)
        if remote_file.exists
        else None
    )
    if finding is None:
        finding = file_causes.of_edit(asked, mapped)
    if finding is not None:
        yield finding


# -- which line -----------------------------------------------------------------------------------------------------


def _of_line(asked: Asked, mapped: Loaded) -> Iterator[Finding]:
    if not mapped:
        return
    process, file = mapped[0]
    if file.code is False and file.unoptimised:
        yield Finding(
            link="line", cause="optimised-away", says=f"{asked.where} is left out by python -O (optimize {process.optimize}): an assert, or if __debug__",
            remedy="run without -O, and with PYTHONOPTIMIZE unset",
        )  # fmt: skip
    elif file.code is False and _has_statement(asked.path, asked.line):
        yield Finding(
            link="line", cause="optimised-away", says=f"Python compiles nothing for {asked.where}: a constant, a declaration, or code that can never run",
            remedy=_next_line(file),
        )  # fmt: skip
    elif file.code is False:
        following = f"; the next line with code is {file.next}" if file.next else ""
        begin = _begin(asked.path, asked.line)
        remedy = (
            f"set the breakpoint in line {begin}, where its statement begins" if begin else _next_line(file)
        )
        yield Finding(
            link="line", cause="no-code", says=f"{asked.where} has no code{following}", remedy=remedy
        )
    elif compiler := next((each.compiled for _, each in mapped if each.compiled), ""):
        yield Finding(
            link="line", cause="compiled", says=f"{compiler} has compiled {file.function}, and its compiled code has no lines to stop in",
            remedy=COMPILERS[compiler],
        )  # fmt: skip
    elif any(each.beats for _, each in mapped):
        yield Finding(
            link="line", cause="beats", says=f"{file.function} runs in a heartbeat thread, in which no breakpoint stops",
            remedy="take the thread out of beats in dkdbg.toml, or out of DKDBG_BEATS, and start the program again",
        )  # fmt: skip


def _next_line(file: LoadedFile) -> str:
    return f"set the breakpoint in line {file.next}" if file.next else "set it in a line that runs"


def _has_statement(path: Path, line: int) -> bool:
    module = _parsed(path)
    return module is not None and any(
        isinstance(node, ast.stmt) and node.lineno == line for node in ast.walk(module)
    )


def _begin(path: Path, line: int) -> int:
    """Return where the simple statement begins that continues on this line; 0 if no statement does."""
    module = _parsed(path)
    found = [
        node.lineno
        for node in ast.walk(module or ast.Module([], []))
        if isinstance(node, ast.stmt)
        and not hasattr(node, "body")
        and not isinstance(node, ast.Match)
        and not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))  # a docstring
        and node.lineno < line <= (node.end_lineno or 0)
    ]
    return max(found, default=0)


# -- which time -----------------------------------------------------------------------------------------------------


def _of_time(asked: Asked, mapped: Loaded) -> Iterator[Finding]:
    """Report that the line ran too early, has not run, or has a breakpoint that does not stop."""
    debugged = [(process, file) for process, file in mapped if not process.free]
    if not debugged or any(file.code is not True or file.compiled or file.beats for _, file in debugged):
        return
    if any(process.stopped and asked.line in file.at for process, file in debugged):
        return  # the program has stopped there
    if all(process.stopped for process, _ in debugged):
        yield Finding(
            link="line", cause="stopped", says=f"{_named([debugged[0][0]])} is stopped ({debugged[0][0].stopped}), and runs no line until it continues",
            remedy="continue it in the editor",
        )  # fmt: skip
    joined = [
        (process, file) for process, file in debugged if process.joined and file.breakpoints is not None
    ]
    at_line = [each for _, file in joined for each in file.breakpoints or () if each.line == asked.line]
    conditions = [each.condition for each in at_line if each.condition]
    error = next((f", which raises {each.error}" for each in at_line if each.error), "")
    is_early = bool(at_line) and all(each.early for each in at_line)
    _, file = debugged[0]
    name = file.function or "the module's own code"
    branch = " or its branch was not taken," if file.branch else ""
    untaken = "; a branch that is never taken, such as if TYPE_CHECKING, never stops" if file.branch else ""
    traced = next((process for process, _ in joined if process.tracer), None)
    if traced is not None and at_line:
        hint = " (pytest: --no-cov)" if traced.tracer == "coverage" else ""
        newer = ", or under Python 3.12 or newer" if traced.python.startswith(_ONE_TRACER) else ""
        yield Finding(
            link="line", cause="own-tracer", says=f"{traced.tracer} traces the program itself, and no breakpoint stops meanwhile",
            remedy=f"debug without it{hint}{newer}",
        )  # fmt: skip
    elif any(each.logs for each in at_line):
        yield Finding(
            link="line", cause="logpoint", says=f"the breakpoint in {asked.where} is a logpoint: it prints its message and does not stop",
            remedy="make it a breakpoint",
        )  # fmt: skip
    elif any(each.stops for each in at_line):
        return
    elif conditions:
        yield Finding(
            link="line", cause="condition", says=f"the breakpoint stops only if {conditions[0]}{error}",
            remedy="remove the condition, or evaluate it in the Debug Console",
        )  # fmt: skip
    elif in_main := [process for process, each in debugged if process.has_interpreters and each.ran is False]:
        yield _in_interpreters(in_main, f"has not run {name}")
    elif not is_early and all(not each.function and each.ran for _, each in debugged):
        yield _ran_before(
            asked,
            f"{asked.where} ran when the module was imported, before the breakpoint was set,{branch} and does not run again",
            or_never=untaken,
        )
    elif all(each.gone for _, each in debugged) and file_causes.of_edit(asked, mapped) is None:
        yield Finding(
            link="line", cause="never-reached", says=f"{_named([each for each, _ in debugged])} has no function {name} of {asked.where}: its def has not run, or another has replaced it",
            remedy="check whether another function of that name is defined later, or patched in",
        )  # fmt: skip
    elif any(each.kept for _, each in debugged) and (
        at_line or all(each.ran is False for _, each in debugged)
    ):
        yield Finding(
            link="line", cause="cached", says=f"functools.cache returns stored results of {name}: its lines run only for arguments that are new",
            remedy=f"{name}.cache_clear() in the Debug Console, or {asked.restart} with the breakpoint set",
        )  # fmt: skip
    elif all(
        not each.ran
        if is_early and each.first
        else each.ran is False and not (is_early and process.misses_calls)
        for process, each in debugged
    ):
        is_vague = not is_early and any(each.misses_calls for each, _ in debugged)
        rarely = (
            f", or fewer than eight times: perhaps it ran before the breakpoint was set{_IN_CPP}" * is_vague
        )
        restart = f"{asked.restart} with the breakpoint set; or " * is_vague
        yield Finding(
            link="line", cause="never-reached", says=f"{name} has not run in {_named([each for each, _ in debugged])}{rarely}",
            remedy=f"{restart}does anything call it? dkdbg where shows where the program is{_TRACE_CPP * is_vague}",
        )  # fmt: skip
    elif not is_early and any(_is_past(asked, each) for _, each in debugged):
        yield _ran_before(
            asked, f"{name} ran past {asked.where} before the breakpoint was set,{branch} and has not come back", or_never=untaken
        )  # fmt: skip
    elif standing := _standing(asked, name, joined, debugged, is_set=bool(at_line), is_early=is_early):
        yield standing
    elif is_early or (at_line and any(each.ran for _, each in joined)):
        yield _not_reached(asked, name, joined, is_early=is_early)
    elif joined and not at_line:
        lines = (
            ", ".join(str(each.line) for _, file in joined[:1] for each in file.breakpoints or ()) or "none"
        )
        is_attached = asked.session.client
        yield Finding(
            link="line", cause="not-set",
            says=f"the editor has set no breakpoint in {asked.where} of {_named([joined[0][0]])} (set: {lines})"
            if is_attached else f"no editor is attached, so {asked.where} has no breakpoint",
            remedy="set it, and check that it is enabled" if is_attached else "set it, then press F5, or dkdbg attach",
        )  # fmt: skip


def _standing(
    asked: Asked, name: str, joined: Loaded, debugged: Loaded, *, is_set: bool, is_early: bool
) -> Finding | None:
    """Return the finding for a thread that is in the line's function and has not reached the line; None if none is."""
    before = [
        (process, each)
        for process, each in (joined if is_set else debugged)
        if (is_set or not (joined or each.again)) and _is_past(asked, each, before=True)
    ]
    inside = [(process, each) for process, each in joined if each.at] if is_set and not is_early else []
    if not (before or inside):
        return None
    process, file = (before or inside)[0]
    since = " since the breakpoint was set" * is_set
    return Finding(
        link="line", cause="never-reached", says=f"{name} is in line {file.at[0]} in {_named([process])}, and has not reached {asked.where}{since}",
        remedy="dkdbg where shows what it waits for" if before else "dkdbg where shows whether it waits there; otherwise the branch of the line is not taken",
    )  # fmt: skip


def _not_reached(asked: Asked, name: str, joined: Loaded, *, is_early: bool) -> Finding:
    """Return the finding for a breakpoint that has not stopped, although its function has run at some time."""
    has_one = any(process.python.startswith(_ONE_TRACER) for process, _ in joined)
    hidden = "while a profiler in C such as line_profiler took the debugger's place"
    more = f"{_TRACE_CPP}; LINE_PROFILER_WRAP_TRACE=1 in its environment lets line_profiler and the debugger run together"
    if is_early:
        at = next((f"it is in line {file.at[0]}, " for _, file in joined if file.at), "")
        uncalled = "it was not called, " * any(not file.ran for _, file in joined)
        hidden = f", or it ran {_IN_CPP[5:]}, or {hidden}" * has_one
        return Finding(
            link="line", cause="never-reached", says=f"{name} has not reached {asked.where}, although the breakpoint was set before the file began to run: {uncalled}{at}its branch was not taken, or an exception came first{hidden}",
            remedy="set a breakpoint above it, and step from there" + more * has_one,
        )  # fmt: skip
    return _ran_before(
        asked,
        f"{name} has run, but {asked.where} may have run only before the breakpoint was set, or not at all (a branch, an exception)"
        + f"{_IN_CPP}, or {hidden}" * has_one,
        or_never=more * has_one,
    )


def _ran_before(asked: Asked, says: str, *, or_never: str = "") -> Finding:
    return Finding(
        link="line", cause="ran-before", says=says,
        remedy=f"{asked.restart} while the editor is attached and the breakpoint is set, so that it exists before the first line runs{or_never}",
    )  # fmt: skip


def _is_past(asked: Asked, file: LoadedFile, *, before: bool = False) -> bool:
    """Return whether all threads in the line's function are past the line (or `before` it), and no loop leads back."""
    if file.again and not before:
        return False
    behind = [each for each in file.at if (each < asked.line if before else each > asked.line)]
    if not behind or len(behind) < len(file.at):
        return False
    module = _parsed(asked.path)
    loops = [] if module is None else [
        each for each in ast.walk(module) if isinstance(each, ast.For | ast.While | ast.AsyncFor)
    ]  # fmt: skip
    return not any(
        loop.lineno <= asked.line <= (loop.end_lineno or 0) and loop.lineno <= at <= (loop.end_lineno or 0)
        for loop in loops
        for at in behind
    )


def _parsed(path: Path) -> ast.Module | None:
    try:
        return ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return None


# -- the listener ---------------------------------------------------------------------------------------------------


def listens_inside(session: LineSession) -> Finding:
    """Return the finding for an agent that listens only on its container's 127.0.0.1."""
    return Finding(
        link="listen", cause="loopback-inside",
        says=f"the agent listens on {session.host}:{session.port} inside the container, where no published port leads",
        remedy='DKDBG_HOST: "0.0.0.0" in the service\'s environment; its ports: line keeps the port on 127.0.0.1 of this machine',
    )  # fmt: skip


def of_debugpy(target: Target) -> Finding | None:
    """Return the finding for a debugpy without dkdbg that this machine cannot reach; None if there is no such one."""
    if Capability.LIST_PROCESSES not in target.capabilities:
        return None
    with contextlib.suppress(DkdbgError):
        host, _ = target.listen_address()
        if is_loopback(host):  # 127.0.0.1 of the target is this machine's
            return None
        for each in target.pythons():
            at = each.listens or _of_adapter(each)
            if at is not None and is_loopback(at[0]):
                return Finding(
                    link="listen", cause="loopback-inside",
                    says=f"debugpy (process {each.pid}) listens on {at[0]}:{at[1]} inside {target.label}, where no published port leads",
                    remedy=f'debugpy --listen 0.0.0.0:{at[1]} there, published as "127.0.0.1:{at[1]}:{at[1]}"; or start it under dkdbg, which needs neither',
                )  # fmt: skip
    return None


def _of_adapter(python: PythonThere) -> tuple[str, int] | None:
    """Return (host, port) on which debugpy's adapter listens, from the command line that `debugpy.listen()` wrote."""
    if not python.is_adapter:
        return None
    options = dict(zip(python.argv, python.argv[1:], strict=False))
    host, port = options.get("--host", "127.0.0.1"), whole_number(options.get("--port", ""), 65535)
    return None if port is None else (host, port)


def _named(processes: Sequence[Process]) -> str:
    names = list({each.pid: each.name or f"process {each.pid}" for each in processes}.values())
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if names[4:] else "")
