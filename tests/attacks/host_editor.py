"""An editor at the port of `dkdbg attach` that does nothing of its own accord, and keeps all that it is told."""

from __future__ import annotations

import contextlib
import itertools
import json
import socket
import sys
import threading
from typing import TYPE_CHECKING, Any

from dkdbg.agent.dap.frames import FrameError, FrameParser, encode
from tests.engine.attach_proxies import proxy_of
from tests.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.engine.attach_proxies import AttachProxy


#: `dkdbg attach` that waits 5 s instead of 25 for a target that never takes the attach.
_HURRIED = "import sys; from dkdbg.attach import router; router.ARRIVAL_LIMIT = 5.0; from dkdbg.main import main; sys.exit(main())"


@contextlib.contextmanager
def hurried_proxy(root: Path, *targets: str) -> Iterator[AttachProxy]:
    """`dkdbg attach TARGET ... --json` in `root`, listening."""
    words = [sys.executable, "-c", _HURRIED, "attach", *targets, "--port", str(free_port()), "--json"]
    with proxy_of(words, root) as proxy:
        proxy.wait("listening")
        yield proxy


class HostEditor:
    def __init__(self, port: int) -> None:
        self.told: list[dict[str, Any]] = []
        self.raw = b""
        self.is_closed = False
        self._changed = threading.Condition()
        self._numbers = itertools.count(1)
        self._sock = socket.create_connection(("127.0.0.1", port), 20)
        self._sock.settimeout(None)
        threading.Thread(target=self._read, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)  # its reader would keep the connection open
        self._sock.close()

    def ask(self, command: str, **arguments: object) -> int:
        number = next(self._numbers)
        self._sock.sendall(
            encode({"seq": number, "type": "request", "command": command, "arguments": arguments})
        )
        return number

    def answer(self, number: int, timeout: float = 300) -> dict[str, Any]:
        return self.wait(
            lambda each: each.get("type") == "response" and each["request_seq"] == number, timeout
        )

    def event(self, name: str, timeout: float = 300) -> dict[str, Any]:
        return self.wait(lambda each: each.get("event") == name, timeout)

    def wait(self, fits: Callable[[dict[str, Any]], object], timeout: float = 300) -> dict[str, Any]:
        def found() -> dict[str, Any] | None:
            return next((each for each in self.told if fits(each)), None)

        with self._changed:
            assert self._changed.wait_for(lambda: found() or self.is_closed, timeout), str(self.told)[-1500:]
            assert found(), f"closed: {str(self.told)[-1500:]}"
            return found() or {}

    def begin(self, **attach: object) -> int:
        """Introduce itself as VS Code does, and attach; returns the number of the attach."""
        self.answer(
            self.ask(
                "initialize", clientID="vscode", adapterID="debugpy", supportsStartDebuggingRequest=True,
                supportsRunInTerminalRequest=True,
            )
        )  # fmt: skip
        return self.ask("attach", **attach)

    def attach(self, **arguments: object) -> HostEditor:
        attach = self.begin(**arguments)
        self.event("initialized")
        self.ask("configurationDone")
        assert self.answer(attach)["success"], self.told
        return self

    def _read(self) -> None:
        parser = FrameParser()
        with contextlib.suppress(OSError, FrameError):
            while data := self._sock.recv(65536):
                self.raw += data
                parser.feed(data)
                while (body := parser.take()) is not None:
                    with self._changed:
                        self.told.append(json.loads(body))
                        self._changed.notify_all()
        with self._changed:
            self.is_closed = True
            self._changed.notify_all()
