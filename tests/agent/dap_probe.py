"""A small editor: attaches, follows `debugpyAttach` into every child session, collects stops and output."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from dkdbg.agent.dap import frames
from dkdbg.dap import client
from dkdbg.errors import DkdbgError

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator
    from pathlib import Path


class Session:
    """The product's own connection, asked as a test asks: by keywords; what is refused or late is a failed assertion."""

    def __init__(self, port: int, on_event: Any, host: str = "127.0.0.1") -> None:
        self.seen: list[str] = []
        self.on_event = on_event
        self.inner = client.Session(client.dial(host, port, timeout=300), name="probe", on_event=self._event)

    @property
    def closed(self) -> bool:
        return self.inner.is_closed

    @property
    def answers(self) -> dict[int, dict[str, Any]]:
        """Whole responses by the number of their request."""
        with self.inner.changed:  # another thread may be sending a request
            return {number: answer for number, answer in self.inner._responses.items() if answer is not None}

    def _event(self, _: client.Session, name: str, body: dict[str, Any]) -> None:
        self.seen.append(name)
        self.on_event(self, name, body)

    def send(self, command: str, **arguments: Any) -> int:
        try:
            return self.inner.send(command, arguments)
        except DkdbgError as error:
            raise OSError(error.message) from error

    def wait(self, number: int, timeout: float = 300) -> dict[str, Any]:
        self.wait_for(lambda: number in self.answers or self.closed, timeout)
        answer = self.answers.get(number)
        assert answer is not None, "closed" if self.closed else "no answer"
        assert answer["success"], answer.get("message")
        return answer.get("body") or {}

    def wait_for(self, is_done: Any, timeout: float = 300) -> None:
        with self.inner.changed:
            self.inner.changed.wait_for(is_done, timeout)

    def request(self, command: str, **arguments: Any) -> dict[str, Any]:
        return self.wait(self.send(command, **arguments))

    def variables(self, *, frame: int = 0, reference: int = 0) -> dict[str, dict[str, Any]]:
        """Those of a frame, or below another one, by their names."""
        reference = reference or self.request("scopes", frameId=frame)["scopes"][0]["variablesReference"]
        found = self.request("variables", variablesReference=reference)["variables"]
        return {each["name"]: each for each in found}

    def start(
        self, breakpoints: dict[str, list[int]], arguments: dict[str, Any], filters: tuple[str, ...] = ()
    ) -> None:
        self.request("initialize", clientID="vscode", adapterID="debugpy", pathFormat="path")
        attach = self.send("attach", **arguments)
        self.wait_for(lambda: attach in self.answers or "initialized" in self.seen or self.closed)
        if attach in self.answers or self.closed:
            self.wait(attach)
            return
        for path, lines in breakpoints.items():
            wanted = [{"line": line} for line in lines]
            self.request("setBreakpoints", source={"path": path}, breakpoints=wanted)
        self.request("setExceptionBreakpoints", filters=list(filters))
        self.request("configurationDone")
        self.wait(attach)

    def close(self) -> None:
        self.inner.close()


class Stop(dict[str, Any]):
    """Where a thread stands: `line`, `path`, `frame`, `thread`, and the `session` of its process."""

    def go_on(self, without: str | Path = "") -> None:
        """Continue; if a file is given, without the breakpoints in it."""
        if without:
            self["session"].request("setBreakpoints", source={"path": str(without)}, breakpoints=[])
        self["session"].request("continue", threadId=self["thread"])

    def value(self, expression: str, **more: Any) -> str:
        """What an expression is there."""
        asked = {"expression": expression, "frameId": self["frame"], **more}
        return str(self["session"].request("evaluate", **asked)["result"])


class Editor:
    """What VS Code does with one attach configuration. Stops are continued unless `hold` is set."""

    def __init__(
        self,
        port: int,
        breakpoints: dict[str, list[int]],
        *,
        hold: bool = False,
        token: str = "",
        more: dict[str, Any] | None = None,
        host: str = "127.0.0.1",
        filters: tuple[str, ...] = (),
    ) -> None:
        self.host, self.filters = host, filters
        self.more = {**({"dkdbgToken": token} if token else {}), **(more or {})}
        self.port, self.breakpoints, self.hold = port, breakpoints, hold
        self.sessions: dict[int, Session] = {}
        self.attached: dict[int, Session] = {}
        self.stops: list[Stop] = []
        self.output: list[str] = []
        self.consoles: dict[Session, list[str]] = {}
        self.exit_codes: list[int] = []
        self.errors: list[str] = []
        self.changed = threading.Condition()

    def __enter__(self):
        return self.attach()

    def __exit__(self, *_: object) -> None:
        for session in list(self.sessions.values()):
            session.close()

    def attach(self, pid: int = 0, arguments: dict[str, Any] | None = None) -> Editor:
        base = {"justMyCode": True, "connect": {"host": self.host, "port": self.port}, **self.more}
        session = Session(self.port, self._event, self.host)
        with self.changed:
            self.sessions[pid] = session
        session.start(self.breakpoints, arguments or base, self.filters)
        with self.changed:
            self.attached[pid] = session
            self.changed.notify_all()
        return self

    def said(self, text: str) -> set[int]:
        """Return how often a text stands in a console, of the sessions that show it at all."""
        return {count for lines in self.consoles.values() if (count := "".join(lines).count(text))}

    def _event(self, session: Session, name: str, body: dict[str, Any]) -> None:
        if name == "debugpyAttach":
            threading.Thread(target=self._attach_child, args=(body,), daemon=True).start()
        elif name == "stopped":
            threading.Thread(target=self._stopped, args=(session, body), daemon=True).start()
        elif name == "output":
            self.output.append(str(body.get("output")))
            self.consoles.setdefault(session, []).append(self.output[-1])
        elif name == "exited":
            self.exit_codes.append(body["exitCode"])
        elif name == "terminated":
            threading.Thread(target=self._leave, args=(session,), daemon=True).start()

    def _attach_child(self, body: dict[str, Any]) -> None:
        try:
            self.attach(body["subProcessId"], {k: v for k, v in body.items() if k != "request"})
        except (AssertionError, OSError) as error:
            self.errors.append(f"{body['subProcessId']}: {error}")

    def _stopped(self, session: Session, body: dict[str, Any]) -> None:
        # The program may be gone by now, and the thread run on, with an answer to another stop.
        with contextlib.suppress(AssertionError, OSError, IndexError):
            frame = session.request("stackTrace", threadId=body["threadId"])["stackFrames"][0]
            where = {"line": frame["line"], "path": frame["source"]["path"], "frame": frame["id"]}
            stop = Stop(where, session=session, thread=body["threadId"])
            with self.changed:
                self.stops.append(stop)
                self.changed.notify_all()
            if not self.hold:
                stop.go_on()

    def _leave(self, session: Session) -> None:
        with contextlib.suppress(OSError, AssertionError):
            session.request("disconnect", terminateDebuggee=False)
        session.close()

    def wait_attached(self, count: int, timeout: float = 300) -> None:
        """Return when the attach of each of `count` processes has been answered, the root's among them."""
        with self.changed:
            there = self.changed.wait_for(lambda: len(self.attached) == count, timeout)
            assert there, (self.sessions, self.attached, self.errors)

    def wait_output(self, text: str) -> str:
        """Return what its consoles show, once this is among it."""
        return str(wait_for(lambda: "".join(self.output), lambda said: text in said))

    def wait_stops(self, count: int, timeout: float = 300) -> list[Stop]:
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.stops) >= count, timeout), (self.stops, self.errors)
            return list(self.stops)


class Client:
    def __init__(self, port: int) -> None:
        self.port = port
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.changed = threading.Condition()
        self.session = Session(port, self._event)
        self.session.request("initialize", clientID="probe", adapterID="debugpy", pathFormat="path")

    def __enter__(self):
        return self

    def __exit__(self, *_: object) -> None:
        self.session.close()

    def _event(self, _: Session, name: str, body: dict[str, Any]) -> None:
        with self.changed:
            self.events.append((name, body))
            self.changed.notify_all()

    def event(self, name: str, timeout: float = 300, text: str = "", count: int = 1) -> dict[str, Any]:
        def found() -> dict[str, Any] | None:
            matching = [b for n, b in self.events if n == name and text in json.dumps(b)]
            return matching[count - 1] if len(matching) >= count else None

        with self.changed:
            assert self.changed.wait_for(lambda: found() is not None, timeout), (name, self.events)
            return found() or {}

    def attach(self, **arguments: Any) -> Client:
        connect = {"host": "127.0.0.1", "port": self.port}
        number = self.session.send("attach", justMyCode=True, connect=connect, **arguments)
        self.event("initialized")
        self.session.request("setBreakpoints", source={"path": "/x.py"}, breakpoints=[{"line": 1}])
        self.session.request("configurationDone")
        self.session.wait(number)
        return self

    def child_arguments(self, text: str = "") -> dict[str, Any]:
        """What the attach of a child session has besides its own."""
        body = self.event("debugpyAttach", text=text)
        return {key: value for key, value in body.items() if key not in ("request", "justMyCode", "connect")}

    def child(self, text: str = "", **arguments: Any) -> Client:
        return Client(self.port).attach(**self.child_arguments(text), **arguments)

    def refusal(self, command: str, **arguments: Any) -> dict[str, Any]:
        number = self.session.send(command, **arguments)
        with pytest.raises(AssertionError):
            self.session.wait(number)
        return self.session.answers.get(number) or {}


def messages_of(sock: socket.socket) -> Iterator[dict[str, Any]]:
    parser = frames.FrameParser()
    while data := sock.recv(1 << 16):
        parser.feed(data)
        while (body := parser.take()) is not None:
            yield frames.decode(body)


def wait_for(read: Any, fits: Any) -> Any:
    """Read again and again until the value fits, and return it; pauses as long as a read takes."""
    end = time.monotonic() + 300
    while True:
        began = time.monotonic()
        if fits(value := read()):
            return value
        assert time.monotonic() < end, value
        time.sleep(max(0.01, time.monotonic() - began))
