"""Whatever comes to the port of `dkdbg attach`, or from a target: it lives, it does not grow, and it still debugs."""

import contextlib
import json
import socket
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dkdbg.agent.dap import frames
from dkdbg.agent.proxy.broker import comparing
from dkdbg.attach import from_targets
from dkdbg.core import ranks
from dkdbg.dap.values import AttachOptions
from dkdbg.errors import DkdbgError
from tests.attacks.fuzz import Size, fuzz_settings
from tests.attacks.host_editor import HostEditor, hurried_proxy
from tests.attacks.odd import ASKED, SAID, variants
from tests.engine.attach_proxies import AttachProxy, attach_proxy, ready_proxy
from tests.engine.projects import stopped_in
from tests.unit.attach.test_router import BODIES, MESSAGES, Bench, event, request

RECORD = {"id": "job-1", "pid": 1, "state": "waiting", "started": 1.0, "adapter_up": True}
HEADERS = st.sampled_from(
    [
        b"GET /status HTTP/1.1\r\nHost: localhost\r\n\r\n", b"HEAD / HTTP/1.1\r\n\r\n", b"GET ", b"POST / HTTP/1.1\r\n\r\n",
        b"Content-Length: 99999999999\r\n\r\n", b"Content-Length: -1\r\n\r\n", b"Content-Length: 3\r\n\r\n[[[", b"\r\n\r\n",
    ]
)  # fmt: skip
PIECES = st.lists(st.binary(max_size=200) | BODIES.map(frames.wrap) | HEADERS, max_size=6).map(b"".join)
#: The same after an attach.
ATTACHED = PIECES.map(
    lambda rest: frames.wrap(request("initialize")) + frames.wrap(request("attach", 2)) + rest
)
#: Each of them with one value of another type, or as it should be.
ODD = st.sampled_from(SAID).flatmap(lambda message: st.sampled_from([message, *variants(message)]))
SAYS = st.lists(
    MESSAGES.map(lambda message: frames.wrap(json.dumps(message).encode())) | PIECES | ODD.map(frames.wrap),
    max_size=8,
).map(b"".join)


class Target:
    """A fake hostile container, which sends each client the messages of a test."""

    def __init__(self) -> None:
        self.said = b""
        self.served = 0
        self.changed = threading.Condition()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=100)
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                sock, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock: socket.socket) -> None:
        with sock, contextlib.suppress(OSError):
            sock.settimeout(300)
            if sock.recv(65536).startswith(b"GET "):
                body = json.dumps(RECORD).encode()
                sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
                return
            sock.sendall(self.said)
            sock.shutdown(socket.SHUT_WR)
            with self.changed:
                self.served += 1
                self.changed.notify_all()
            sock.settimeout(5)
            while sock.recv(65536):
                pass


def size_of(proxy: AttachProxy) -> Size:
    return Size(proxy.process.pid, threads=8, descriptors=8, memory=150 << 10)


@pytest.fixture
def target():
    one = Target()
    yield one
    one.close()


def still_debugs(proxy: AttachProxy, script: Path) -> None:
    with stopped_in(script, AttachOptions(port=proxy.port), 4) as (debugger, stop):
        assert debugger.evaluate("1 + 1", debugger.stack(stop)[0]) == "2"


@pytest.mark.attack(11)
def test_any_bytes_at_the_port_of_dkdbg_attach(good, tmp_path, capfd):
    """Sends arbitrary bytes, requests and halves of them to the port of `dkdbg attach`: it lives, does not grow, and debugs."""
    with attach_proxy(tmp_path, good) as proxy:
        still_debugs(proxy, tmp_path / "train.py")
        size, port = size_of(proxy), proxy.port

        @fuzz_settings(20, full=150)
        @given(PIECES | ATTACHED)
        def throw(data):
            with (
                socket.create_connection(("127.0.0.1", port), 300) as sock,
                contextlib.suppress(ConnectionError),
            ):
                sock.sendall(data)
                sock.shutdown(socket.SHUT_WR)
                while sock.recv(65536):
                    pass

        throw()
        size.is_kept()
        still_debugs(proxy, tmp_path / "train.py")
    assert "Traceback" not in capfd.readouterr().err


def throw_from(target: Target, proxy: AttachProxy, few: int, **process: int) -> None:
    """Attach repeatedly; each time the target answers differently."""

    @fuzz_settings(few, full=60)
    @given(SAYS)
    def throw(said):
        target.said = said
        before = target.served
        with HostEditor(proxy.port) as editor:
            editor.begin(**process)
            with target.changed:
                assert target.changed.wait_for(lambda: target.served > before, 300)
        for each in editor.told:
            assert each["type"] in {"event", "response"} or each["command"] == "startDebugging"

    throw()
    target.said = b""


@pytest.mark.attack(11)
def test_any_bytes_from_a_target_or_one_of_its_processes(target, good, tmp_path, capfd):
    """Answers an attach, also that of one process, with arbitrary messages and bytes: the others are debugged, and an editor
    gets what is well formed."""
    with hurried_proxy(tmp_path, f"127.0.0.1:{target.port}", good) as proxy:
        still_debugs(proxy, tmp_path / "train.py")
        size = size_of(proxy)
        throw_from(target, proxy, 5)  # each waits until the session before it has closed
        size.is_kept()
        still_debugs(proxy, tmp_path / "train.py")
    with ready_proxy(tmp_path, f"127.0.0.1:{target.port}") as proxy:
        size = size_of(proxy)
        throw_from(target, proxy, 10, subProcessId=7)
        size.is_kept()
        target.said = frames.wrap(b'{"type":"event","event":"initialized"}')
        with HostEditor(proxy.port) as editor:
            editor.begin(subProcessId=7)
            editor.event("initialized")
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.attack(11)
@pytest.mark.parametrize("message", SAID, ids=lambda said: json.loads(said).get("event", "answer"))
def test_a_value_of_another_type_from_a_target_ends_no_link(message):
    """Says each value of each message as a list, an object, an endless number or deep nests: its connection goes on."""
    for body in variants(message):
        from_targets.of_process(body)
        for bench in (Bench("web", "b").live("web", "b"), Bench("web").introduce().attach().take()):
            bench.do(bench.router.from_upstream("web", body))
            bench.do(bench.router.barrier_due())
            for each in bench.heard():  # an editor can read all of it
                assert each["type"] in {"event", "response"} or each["command"] == "startDebugging"


@pytest.mark.attack(0)
@pytest.mark.parametrize("message", ASKED, ids=lambda said: json.loads(said)["command"])
def test_a_value_of_another_type_from_an_editor_ends_no_session(message):
    """The same as a client of the port of `dkdbg attach`: nothing is raised, now or when a target comes."""
    for body in variants(message):
        for bench in (
            Bench("web"),
            Bench("web").introduce(),
            Bench("web").introduce().attach(),
            Bench("web").live(),
        ):
            bench.client(body)
            bench.take().client(request("configurationDone", 3))
            bench.let_run()
            bench.do(bench.router.from_upstream("web", event("debugpyAttach", subProcessId=7, name="x")))


@pytest.mark.attack(14)
def test_a_value_of_another_type_in_the_answer_of_ranks_is_refused_or_shown():
    """Answers `dkdbg ranks` with values of other types, numbers larger than any and deep nests: a table, or one error."""
    tensor = {
        "text": "t", "shape": "s", "dtype": "d", "digest": "x", "norm": 1.0, "low": 1.0, "nan": 0, "count": 2, "read": 2,
    }  # fmt: skip
    row: dict[str, Any] = {
        "pid": 1, "rank": 0, "state": "value", "name": "n", "where": "w", "text": "t", "type": "T", "tensor": tensor,
        "frames": [{"name": "f", "path": "a.py", "line": 1}],
    }  # fmt: skip
    scalar = {**row, "tensor": {**tensor, "count": 1, "read": 1}}
    for body in variants(json.dumps({"rows": [row, scalar]}).encode()):
        with contextlib.suppress(DkdbgError):
            assert comparing.table(ranks.rows_of(body.decode(), "x"))
