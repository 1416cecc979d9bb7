"""Inspect and resume a stopped thread."""

from __future__ import annotations

from dkdbg.dap.client import TIMEOUT
from dkdbg.dap.values import Frame, Scope, Stop, Variable


class Inspection:
    """Base of a debugger for one stop; stateless, because the values know their session.

    Each method raises DkdbgError if the session has ended; those that inspect, also if the thread is running again.
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
        """Return the repr of an expression in a frame (in the context `repl` also of a statement).

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
