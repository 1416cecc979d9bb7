"""Ask a target's agent about one line of a file. The answer is untrusted, and checked whole on arrival."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dkdbg import process
from dkdbg.agent.dap.messages import as_dict, as_list, as_text
from dkdbg.core.known_errors import last_line
from dkdbg.core.mapping import pairs_of_record
from dkdbg.core.record import BadRecord, decode
from dkdbg.core.target import Capability
from dkdbg.errors import DkdbgError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dkdbg.core.target import Target

#: Maximum bytes of an answer; its timeout in seconds; maximum entries of each list in it.
_MAX_ANSWER_BYTES, _TIMEOUT_S, _MAX_ENTRIES = 16 << 20, 60.0, 4096
#: Kind of a file that does not belong to a container.
DISK = "disk"
#: Compiler that leaves a function without lines to stop in -> remedy.
COMPILERS = {
    "torch.compile": "DKDBG_NO_COMPILE=1 dkdbg up, or TORCH_COMPILE_DISABLE=1 in the program's environment",
    "torch.jit": "PYTORCH_JIT=0 in the program's environment",
    "jax": "JAX_DISABLE_JIT=1 in the program's environment; the lines run, and stop, only while jax traces them",
    "numba": "NUMBA_DISABLE_JIT=1 in the program's environment",
    "triton": "TRITON_INTERPRET=1 in the program's environment",
    "tensorflow": "tf.config.run_functions_eagerly(True); the lines run, and stop, only while it traces them",
}
#: Maximum characters of each text in an answer.
_MAX_TEXT = 4096


@dataclass(frozen=True, kw_only=True)
class RemoteFile:
    """A file on the target.

    Attributes:
        path, real: the path as asked for, and with symlinks resolved.
        inode: device and inode; empty from an agent up to 0.1.
        kind: in a container `mount`, `image` or `unknown` (see agent/state/mapping.py); elsewhere DISK.
        digest, lines, changed, placed, line_ends: see agent/dap/sources.py; empty or 0 if the file cannot be read.
    """

    path: str
    real: str
    exists: bool
    kind: str
    digest: str
    lines: int
    changed: float
    placed: float
    line_ends: str
    inode: str = ""

    def is_same(self, other: RemoteFile) -> bool:
        """Return whether both paths lead to one file: by a link, or by two mounts of one folder."""
        same_inode = bool(self.inode) and self.inode == other.inode and self.digest == other.digest
        return self.real == other.real or same_inode


@dataclass(frozen=True, kw_only=True)
class Breakpoint:
    """A breakpoint that the editor has set.

    Attributes:
        logs: whether it is a logpoint, which prints a message and does not stop.
        stops: how often it has stopped; 0 from an agent that does not count.
        early: whether it was set before the process began to run the file.
        error: first error of its condition; empty if there was no error.
    """

    line: int
    condition: str
    logs: bool
    stops: int
    early: bool = False
    error: str = ""


@dataclass(frozen=True, kw_only=True)
class LoadedFile:
    """A file that a process has loaded, and what the process knows about the asked line.

    Attributes:
        file: the file.
        module: name of the module; empty for code that belongs to no module.
        origin: `source`, `compiled` (a .pyc or an extension), `zip` or `frozen`.
        code: whether the line has code; None if unknown.
        next: the next line with code.
        function: name of the function that contains the line.
        ran: whether that function has run; None if unknown.
        unoptimised: whether the line has code only without `python -O`.
        branch: whether the line is in a branch of the module's own code.
        gone: whether the process has no such function: its `def` has not run, or another function replaced it.
        first: whether the line is the function's first.
        again: whether the function is running, and a loop may call it again.
        kept: whether functools.lru_cache may return the function's result without a call.
        same: whether the loaded function equals the one in the file; None if unknown.
        compiled: key of COMPILERS for the compiler that has replaced the function; empty if none has.
        beats: whether the function runs in a thread that the debugger never stops (`beats` in dkdbg.toml).
        at: lines of the function at which threads are now.
        breakpoints: the editor's breakpoints in the file; None without a debugger.
    """

    file: RemoteFile
    module: str
    origin: str
    code: bool | None
    next: int | None
    function: str
    ran: bool | None
    unoptimised: bool
    compiled: str
    beats: bool
    at: tuple[int, ...]
    breakpoints: tuple[Breakpoint, ...] | None
    branch: bool = False
    gone: bool = False
    first: bool = False
    again: bool = False
    kept: bool = False
    same: bool | None = None


@dataclass(frozen=True, kw_only=True)
class Process:
    """A Python process of a session.

    Attributes:
        name: description, such as `rank 3`.
        joined: whether it is connected to debugpy's adapter.
        free: whether it is not debugged, because its rank was not chosen.
        answered: whether it has answered the query.
        ended: whether it has ended since the query.
        files: loaded files with the name of the asked file.
        stopped: position at which a debugger stops it.
        cpu: CPU time in seconds.
        frozen: whether a signal (SIGSTOP, SIGTSTP) has stopped it.
        tracer: tool that traces the process instead of the debugger; empty if there is no such tool.
        in_cluster: whether it is the driver of a Ray cluster that runs outside the session.
        has_interpreters: whether it has subinterpreters, in which no breakpoint stops.
    """

    pid: int
    ppid: int
    name: str
    rank: int | None
    joined: bool
    stopped: str
    started: float
    cpu: float
    answered: bool
    ended: bool = False
    frozen: bool = False
    free: bool = False
    python: str = ""
    optimize: int = 0
    debugger: str = ""
    tracer: str = ""
    in_cluster: bool = False
    has_interpreters: bool = False
    files: tuple[LoadedFile, ...] = ()

    @property
    def misses_calls(self) -> bool:
        """Return whether `ran` may be wrongly False: Python 3.11 rewrites a function's code from the eighth call on."""
        return self.python.startswith("3.11.")


@dataclass(frozen=True, kw_only=True)
class LineSession:
    """A session, as its agent describes it.

    Attributes:
        host, port: address of its listener.
        client: whether an editor is attached.
        mappings: (folder relative to the repository's root, remote path).
        unhooked: (name, reason) of each Python below the program that runs without the agent's hook.
    """

    id: str
    name: str
    state: str
    host: str
    port: int
    client: bool
    mappings: tuple[tuple[str, str], ...]
    processes: tuple[Process, ...]
    unhooked: tuple[tuple[str, str], ...]


@dataclass(frozen=True, kw_only=True)
class LineAnswer:
    """The answer of one agent: the asked files on the target, and the agent's sessions."""

    files: tuple[RemoteFile, ...]
    sessions: tuple[LineSession, ...]


def ask(target: Target, path: str, line: int, *, name: str = "", also: Sequence[str] = ()) -> LineAnswer:
    """Ask the agent of `target` about a line of the file at the remote path `path`.

    Args:
        name: id of a session; empty for all sessions.
        also: further remote paths to describe.

    Raises:
        DkdbgError: no agent runs there, or its answer is malformed or is about other files.
    """
    agent = target.running_agent()
    named = ("--name", name) if name else ()
    more = [word for each in also for word in ("--also", each)]
    done = process.read(
        target.wrap([*agent, "line", *named, *more, path, str(line)]),
        max_bytes=_MAX_ANSWER_BYTES,
        timeout=_TIMEOUT_S,
    )
    if done.code:
        reason = last_line(done.stderr).removeprefix("dkdbg: ")
        if "usage" in done.stderr:
            reason = "its agent is older than dkdbg why: restart the program under this dkdbg"
        elif not reason or "Traceback" in done.stderr:
            reason = f"its agent ended with exit code {done.code}"
        raise DkdbgError(f"{target.label}: {reason}", hint=f"dkdbg ps {target.address} shows what runs there")
    try:
        answer = parse(done.stdout, is_container=Capability.CONTAINER in target.capabilities)
        if [each.path for each in answer.files] != [path, *also]:
            raise BadRecord("it is about other files")
        return answer
    except BadRecord as error:
        raise DkdbgError(
            f"{target.label}: its agent's answer cannot be understood: {error}",
            hint="restart the program under this dkdbg",
        ) from error


def parse(text: str, *, is_container: bool) -> LineAnswer:
    """Parse an agent's answer.

    Args:
        is_container: whether files may come from an image; otherwise their kind is DISK.

    Raises:
        BadRecord: the text is not such an answer.
    """
    data = decode(text)
    if not isinstance(data, dict) or data.get("version") != 1:
        raise BadRecord("it has another format")
    if not is_container:
        for each in _files_in(data):
            each["kind"] = DISK
    return LineAnswer(
        files=tuple(_file(each) for each in _entries(data.get("files"))),
        sessions=tuple(_session(each) for each in _entries(data.get("sessions"))),
    )


def _files_in(data: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the description of each file in an answer."""
    yield from _entries(data.get("files"))
    for session in _entries(data.get("sessions")):
        for process_ in _entries(session.get("processes")):
            yield from _entries(as_dict(process_.get("answer")).get("files"))


def _session(data: dict[str, Any]) -> LineSession:
    return LineSession(
        id=_text(data, "id"), name=_text(data, "name"), state=_text(data, "state"), host=_text(data, "host"),
        port=_number(data, "port"), client=data.get("client") is True,
        mappings=pairs_of_record(data.get("mappings")),
        processes=tuple(_process(each) for each in _entries(data.get("processes"))),
        unhooked=tuple((_text(each, "name"), _text(each, "why")) for each in _entries(data.get("unhooked"))),
    )  # fmt: skip


def _process(data: dict[str, Any]) -> Process:
    answer = as_dict(data.get("answer"))
    rank = data.get("rank")
    return Process(
        pid=_number(data, "pid"), ppid=_number(data, "ppid"), name=_text(data, "name"),
        rank=rank if isinstance(rank, int) else None, joined=data.get("joined") is True, stopped=_text(data, "stopped"),
        started=_seconds(data, "started"), cpu=_seconds(data, "cpu"), answered=bool(answer), ended=data.get("ended") is True,
        frozen=data.get("frozen") is True, free=answer.get("free") is True, python=_text(answer, "python"),
        optimize=_number(answer, "optimize"),
        debugger=_text(answer, "debugger"), tracer=_text(answer, "tracer"),
        in_cluster=answer.get("cluster") is True, has_interpreters=answer.get("interpreters") is True, files=tuple(_loaded(each) for each in _entries(answer.get("files"))),
    )  # fmt: skip


def _loaded(data: dict[str, Any]) -> LoadedFile:
    found = data.get("breakpoints")
    line = data.get("next")
    return LoadedFile(
        file=_file(data), module=_text(data, "module"), origin=_text(data, "origin"),
        code=_known(data, "code"), next=line if isinstance(line, int) else None, function=_text(data, "function"),
        ran=_known(data, "ran"), unoptimised=data.get("unoptimised") is True, compiled=_compiler(data.get("compiled")),
        beats=data.get("beats") is True,
        at=tuple(each for each in as_list(data.get("at"))[:_MAX_ENTRIES] if isinstance(each, int)),
        breakpoints=None if not isinstance(found, list) else tuple(
            Breakpoint(
                line=_number(each, "line"), condition=_text(each, "condition"), logs=each.get("logs") is True,
                stops=_number(each, "stops"), early=each.get("early") is True, error=_text(each, "error"),
            )
            for each in _entries(found)
        ),
        branch=data.get("branch") is True, gone=data.get("gone") is True,
        first=data.get("first") is True, again=data.get("again") is True, kept=data.get("kept") is True, same=_known(data, "same"),
    )  # fmt: skip


def _compiler(value: object) -> str:
    if value is True:  # from an agent up to 0.1
        return "torch.compile"
    return value if isinstance(value, str) and value in COMPILERS else ""


def _file(data: dict[str, Any]) -> RemoteFile:
    return RemoteFile(
        path=_text(data, "path"), real=_text(data, "real"), exists=data.get("exists") is True, kind=_text(data, "kind"),
        digest=_text(data, "digest"), lines=_number(data, "lines"), changed=_seconds(data, "changed"),
        placed=_seconds(data, "placed"), line_ends=_text(data, "line_ends"),
        inode=_text(data, "inode"),
    )  # fmt: skip


def _entries(value: object) -> list[dict[str, Any]]:
    return [as_dict(each) for each in as_list(value)[:_MAX_ENTRIES]]


def _text(data: dict[str, Any], key: str) -> str:
    return as_text(data.get(key))[:_MAX_TEXT]


def _number(data: dict[str, Any], key: str) -> int:
    found = data.get(key)
    return found if isinstance(found, int) and not isinstance(found, bool) and abs(found) < 1 << 40 else 0


def _seconds(data: dict[str, Any], key: str) -> float:
    found = data.get(key)
    return float(found) if isinstance(found, int | float) and 0 <= found < 1e11 else 0.0


def _known(data: dict[str, Any], key: str) -> bool | None:
    found = data.get(key)
    return found if isinstance(found, bool) else None
