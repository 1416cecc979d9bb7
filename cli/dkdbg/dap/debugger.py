"""Debug without an editor: attach as VS Code does, follow every process that joins, inspect and resume stopped threads."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING

from dkdbg.dap.client import TIMEOUT, Session, dial
from dkdbg.dap.values import AttachOptions, Breakpoint, BreakpointSet, Frame, Output, Scope, Stop, Variable
from dkdbg.errors import EXIT_TIMEOUT, DkdbgError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType

    from typing_extensions import Self

    from dkdbg.dap.client import Body

#: Client capabilities of VS Code that change debugpy's behaviour.
_CLIENT: Body = {
    "clientID": "dkdbg",
    "clientName": "dkdbg",
    "adapterID": "debugpy",
    "locale": "en",
    "linesStartAt1": True,
    "columnsStartAt1": True,
    "pathFormat": "path",
    "supportsVariableType": True,
    "supportsRunInTerminalRequest": False,
}


class Arrivals:
    """Base of `Debugger`: stores the sessions, stops and output that arrive, and waits for them."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self._sessions: list[Session] = []
        self._stops: list[Stop] = []
        self._output: list[Output] = []
        self._failures: list[DkdbgError] = []
        #: Configured session -> lock, because an older set of breakpoints must never be sent after a newer one.
        self._ready: dict[Session, threading.Lock] = {}
        #: Threads that open a session now; each removes itself.
        self._openers: list[threading.Thread] = []

    @property
    def sessions(self) -> tuple[Session, ...]:
        """Return all sessions so far, the root first, including ended ones."""
        with self.changed:
            return tuple(self._sessions)

    @property
    def output(self) -> tuple[Output, ...]:
        """Return the output of the processes so far."""
        with self.changed:
            return tuple(self._output)

    def wait_stopped(self, timeout: float = TIMEOUT) -> Stop:
        """Return the oldest stop of any session that was not returned yet.

        Raises:
            DkdbgError: no stop in time (EXIT_TIMEOUT), or all programs ended first.
        """
        with self.changed:
            self.wait(lambda: bool(self._stops), "a stop", timeout=timeout)
            return self._stops.pop(0)

    def wait_session(self, is_wanted: Callable[[Session], bool], awaited: str) -> Session:
        """Wait for a configured session for which `is_wanted` is true and return it.

        `awaited` describes the session in errors.

        Raises:
            DkdbgError: as `wait_stopped`.
        """

        def found() -> list[Session]:
            return [session for session in self._ready if is_wanted(session)]

        with self.changed:
            self.wait(lambda: bool(found()), awaited)
            return found()[0]

    def wait_output(self, text: str, *, timeout: float = TIMEOUT) -> None:
        """Wait until `text` is in the joined output of one session. Raises DkdbgError: as `wait_stopped`."""

        def printed() -> bool:
            joined: dict[Session, str] = {}
            for each in self._output:
                joined[each.session] = joined.get(each.session, "") + each.text
            return any(text in each for each in joined.values())

        self.wait(printed, f"{text!r} in the output", timeout=timeout)

    def wait_ended(self, timeout: float = TIMEOUT, *, session: Session | None = None) -> None:
        """Wait until the given session, or every session, has ended. Raises DkdbgError: not in time (EXIT_TIMEOUT)."""
        awaited = f"the end of {session.name if session else 'all programs'}"
        self.wait(lambda: session.is_ended if session else self._all_ended(), awaited, timeout=timeout)

    def wait(self, is_done: Callable[[], bool], awaited: str, *, timeout: float = TIMEOUT) -> None:
        """Wait until `is_done()` is true; it is called after each message, with `changed` held.

        Raises:
            DkdbgError: timeout (EXIT_TIMEOUT), or all programs have ended; the message names `awaited`.
        """
        with self.changed:
            self.changed.wait_for(lambda: is_done() or self._all_ended(), timeout)
            if is_done():
                return
            live = [session.name for session in self._sessions if not session.is_ended]
            gone = [f"{session.name}: {session.why_ended}" for session in self._sessions if session.is_ended]
            reasons = "; ".join(gone + [str(failure) for failure in self._failures]) or "nothing was attached"
        if not live:
            raise DkdbgError(f"all programs ended while waiting for {awaited} ({reasons})")
        message = f"waited {timeout:g} s for {awaited}; attached: {', '.join(live)}"
        raise DkdbgError(
            f"{message} ({reasons})" if gone or self._failures else message, exit_code=EXIT_TIMEOUT
        )

    def _all_ended(self) -> bool:
        return all(session.is_ended for session in self._sessions) and not self._openers


class Inspection:
    """Requests about one stop; stateless, because each value refers to its session.

    Each method raises DkdbgError if the session has ended. Methods that inspect the stop also raise it if the
    thread is running again.
    """

    def stack(self, stop: Stop, *, levels: int = 0, timeout: float = TIMEOUT) -> tuple[Frame, ...]:
        """Return the frames of a stopped thread, innermost first; `levels` 0 means all."""
        arguments = {"threadId": stop.thread_id, "startFrame": 0, "levels": levels}
        body = stop.session.request("stackTrace", arguments, timeout=timeout)
        return tuple(
            Frame(
                session=stop.session,
                id=frame["id"],
                name=frame["name"],
                path=(frame.get("source") or {}).get("path"),
                line=frame["line"],
            )
            for frame in body["stackFrames"]
        )

    def scopes(self, frame: Frame, *, timeout: float = TIMEOUT) -> tuple[Scope, ...]:
        """Return the groups of variables of a frame, `Locals` first."""
        body = frame.session.request("scopes", {"frameId": frame.id}, timeout=timeout)
        return tuple(
            Scope(session=frame.session, name=scope["name"], reference=scope["variablesReference"])
            for scope in body["scopes"]
        )

    def variables(self, parent: Scope | Variable, *, timeout: float = TIMEOUT) -> tuple[Variable, ...]:
        """Return the variables of a scope, or the children of a variable."""
        body = parent.session.request("variables", {"variablesReference": parent.reference}, timeout=timeout)
        return tuple(
            Variable(
                session=parent.session,
                name=each["name"],
                value=each["value"],
                type=each.get("type") or "",
                reference=each.get("variablesReference") or 0,
            )
            for each in body["variables"]
        )

    def local_values(self, frame: Frame, *, timeout: float = TIMEOUT) -> dict[str, str]:
        """Return the local variables of a frame as text, by name."""
        scope = self.scopes(frame, timeout=timeout)[0]
        return {variable.name: variable.value for variable in self.variables(scope, timeout=timeout)}

    def evaluate(
        self, expression: str, frame: Frame, *, context: str = "repl", timeout: float = TIMEOUT
    ) -> str:
        """Evaluate an expression in a frame and return its repr; the context `repl` also runs statements.

        Raises:
            DkdbgError: the expression raised, the thread is running again, or the session has ended.
        """
        arguments = {"expression": expression, "frameId": frame.id, "context": context}
        return str(frame.session.request("evaluate", arguments, timeout=timeout)["result"])

    def continue_(self, stop: Stop, *, timeout: float = TIMEOUT) -> None:
        """Resume all threads of the process."""
        self._resume("continue", stop, timeout)

    def next(self, stop: Stop, *, timeout: float = TIMEOUT) -> None:
        """Step over the line; `wait_stopped` returns the stop after it."""
        self._resume("next", stop, timeout)

    def _resume(self, command: str, stop: Stop, timeout: float) -> None:
        stop.session.request(command, {"threadId": stop.thread_id}, timeout=timeout)


class Debugger(Arrivals, Inspection):
    """A root session and the sessions of the joining processes, each with its own connection to one port.

    Use it as a context manager: leaving detaches, and the programs run on. Waits are in `Arrivals`, requests about a
    stop in `Inspection`; all timeouts are seconds. Public methods may be called from one thread at a time.
    """

    def __init__(self, options: AttachOptions) -> None:
        super().__init__()
        self.options = options
        self._breakpoints: dict[str, tuple[Breakpoint, ...]] = {}
        self._exceptions: tuple[str, ...] = ()
        self._functions: tuple[str, ...] = ()
        self._is_closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.disconnect()

    def attach(self, *, timeout: float = TIMEOUT) -> Session:
        """Connect, attach and set the breakpoints known so far; return the root session once the program may run.

        Raises:
            DkdbgError: connection refused, rejected by the adapter, or too slow (EXIT_TIMEOUT).
        """
        return self._open("debugger", self.options.arguments(), timeout)

    def set_breakpoints(
        self, path: str, breakpoints: Sequence[int | Breakpoint], *, timeout: float = TIMEOUT
    ) -> tuple[BreakpointSet, ...]:
        """Replace the breakpoints of a file in all sessions, present and future.

        Args:
            path: absolute, local side.
            breakpoints: lines, or lines with conditions; empty to remove all.
            timeout: for each session.

        Returns:
            The breakpoints as set in each live session, sessions in order; empty before `attach`.

        Raises:
            DkdbgError: a session refused or did not answer.
        """
        wanted = tuple(Breakpoint(line=each) if isinstance(each, int) else each for each in breakpoints)
        with self.changed:
            self._breakpoints[path] = wanted
            ready = list(self._ready.items())
        results: list[BreakpointSet] = []
        for session, lock in ready:
            with lock:
                if not session.is_ended:
                    results += self._send_breakpoints(session, path, timeout)
        return tuple(results)

    def set_exception_filters(self, filters: Sequence[str]) -> None:
        """Stop at exceptions, such as `uncaught` or `raised`, in all sessions, present and future.

        Raises:
            DkdbgError: a session refused or did not answer.
        """
        with self.changed:
            self._exceptions = tuple(filters)
            ready = list(self._ready.items())
        for session, lock in ready:
            with lock:
                if not session.is_ended:
                    session.request("setExceptionBreakpoints", {"filters": list(filters)})

    def set_functions(self, names: Sequence[str]) -> None:
        """Stop at functions of these names, in any file, in all future sessions; call it before `attach`."""
        with self.changed:
            self._functions = tuple(names)

    def disconnect(self, *, terminate: bool = False, timeout: float = 30.0) -> None:
        """Detach from all sessions and close; may be called twice.

        Args:
            terminate: end the programs instead of letting them run on.
            timeout: for each session; a session that does not answer is abandoned.
        """
        with self.changed:
            self._is_closed = True
            sessions, openers = list(self._sessions), list(self._openers)
        for session in reversed(sessions):  # children first: the adapter ends with the root
            with contextlib.suppress(DkdbgError):
                if not session.is_ended:
                    session.request("disconnect", {"terminateDebuggee": terminate}, timeout=timeout)
        for session in sessions:
            session.close()
        for opener in openers:
            opener.join(timeout)

    def _open(self, name: str, arguments: Body, timeout: float) -> Session:
        """Open one session. debugpy sends `initialized` after `attach`, and answers `attach` last."""
        sock = dial(self.options.host, self.options.port, timeout=timeout)
        session = Session(
            sock, name=name, changed=self.changed, on_event=self._on_event, on_request=self._on_request
        )
        with self.changed:
            self._sessions.append(session)
            is_late = self._is_closed
        try:
            if is_late:
                raise DkdbgError(f"{name}: the debugger was closed")
            client = {**_CLIENT, "supportsStartDebuggingRequest": self.options.start_debugging}
            session.request("initialize", client, timeout=timeout)
            attached = session.send("attach", arguments)
            session.wait(
                lambda: session.has_seen("initialized") or session.has_answered(attached),
                "the adapter to accept the attach request",
                timeout=timeout,
            )
            if session.has_seen("initialized"):
                self._configure(session, timeout)
            session.response(attached, timeout=timeout)
        except BaseException:
            session.close()
            raise
        return session

    def _configure(self, session: Session, timeout: float) -> None:
        lock = threading.Lock()
        with lock:
            with self.changed:
                self._ready[session] = lock
                paths, filters, names = list(self._breakpoints), self._exceptions, self._functions
            for path in paths:
                self._send_breakpoints(session, path, timeout)
            if names:
                functions = {"breakpoints": [{"name": name} for name in names]}
                session.request("setFunctionBreakpoints", functions, timeout=timeout)
            session.request("setExceptionBreakpoints", {"filters": list(filters)}, timeout=timeout)
            session.request("configurationDone", timeout=timeout)

    def _send_breakpoints(self, session: Session, path: str, timeout: float) -> list[BreakpointSet]:
        with self.changed:
            wanted = self._breakpoints[path]
        lines = [
            {"line": each.line, **({"condition": each.condition} if each.condition else {})}
            for each in wanted
        ]
        arguments = {"source": {"path": path}, "breakpoints": lines}
        body = session.request("setBreakpoints", arguments, timeout=timeout)
        answered = body.get("breakpoints")
        if not isinstance(answered, list) or len(answered) != len(wanted):
            raise DkdbgError(f"{session.name} did not answer for the {len(wanted)} breakpoints of {path}")
        return [
            BreakpointSet(
                session=session,
                line=found.get("line") or each.line,
                is_verified=bool(found.get("verified")),
                message=found.get("message") or "",
            )
            for each, found in zip(wanted, answered, strict=True)
        ]

    def _on_event(self, session: Session, event: str, body: Body) -> None:
        match event:
            case "stopped":
                text = body.get("text") or body.get("description") or ""
                stop = Stop(session=session, thread_id=body["threadId"], reason=body["reason"], text=text)
                self._stops.append(stop)
            case "continued" | "terminated":
                self._stops = [stop for stop in self._stops if stop.session is not session]
                if event == "terminated":
                    session.close()  # as VS Code does: debugpy waits for the client to close
            case "output":
                category = body.get("category") or "console"
                if category != "telemetry":  # usage data for the editor's makers, not output
                    self._output.append(Output(session=session, category=category, text=body["output"]))
            case "debugpyAttach":
                self._follow(body)
            case _:
                pass

    def _on_request(self, _: Session, command: str, arguments: Body) -> None:
        if command == "startDebugging":
            self._follow(arguments.get("configuration") or {})

    def _follow(self, configuration: Body) -> None:
        """Attach to a process that joined, on a new thread, because the calling thread has to continue reading."""
        if self._is_closed:
            return
        name = str(configuration.get("name") or "a child process")

        def open_child() -> None:
            try:
                self._open(name, configuration, TIMEOUT)
            except DkdbgError as error:
                # A process that ends before the attach is not an error, but later errors mention it.
                with self.changed:
                    self._failures.append(error)
            finally:
                with self.changed:
                    self._openers.remove(opener)
                    self.changed.notify_all()

        opener = threading.Thread(target=open_child, name=f"dap open {name}", daemon=True)
        self._openers.append(opener)
        opener.start()
