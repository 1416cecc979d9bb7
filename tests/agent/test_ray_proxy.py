"""Errors for a Ray cluster that cannot be queried, or a worker that is gone: with a fake dashboard."""

import contextlib
import json
import os
import signal
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import pytest

from dkdbg.agent.dap import frames
from dkdbg.agent.ray.dashboard import Worker
from dkdbg.agent.ray.editor import Editor
from dkdbg.agent.ray.worker_registry import WorkerEntry
from dkdbg.dap.debugger import Debugger
from dkdbg.dap.values import AttachOptions
from tests.engine.attach_proxies import attach_proxy
from tests.engine.projects import command, dkdbg
from tests.ports import free_port

LIMIT = 300.0
NODE = {"node_id": "n1", "node_ip": "127.0.0.1", "node_name": "gpu-1"}


class StandIn:
    """A fake of Ray's dashboard: answers by path, each a status and a body; `asked` are the headers."""

    def __init__(self, answers):
        self.asked = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                path = self.path.partition("?")[0]
                outer.asked.append((path, self.headers.get("Authorization")))
                said = answers(path, self.headers) if callable(answers) else answers.get(path, (404, {}))
                body = said[1] if isinstance(said[1], bytes) else json.dumps(said[1]).encode()
                self.send_response(said[0])
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_port
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


def rows(*found):
    return 200, {"result": True, "data": {"result": {"result": list(found)}}}


VERSION = (200, {"ray_version": "2.60.0"})


@pytest.fixture
def stand_in(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("DKDBG_RUNTIME_DIR", str(tmp_path / "run"))
    for name in ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)
    made = []

    def make(answers):
        made.append(StandIn(answers))
        return made[-1]

    yield make
    for each in made:
        each.server.shutdown()
        each.server.server_close()
    end_proxies(tmp_path / "run")


def end_proxies(runtime):
    for path in runtime.glob("ray/*/session.json"):
        record = json.loads(path.read_text())
        if record["state"] != "exited":
            with contextlib.suppress(ProcessLookupError):  # it has just ended
                os.kill(record["pid"], signal.SIGTERM)


def ps(port, **environment):
    return dkdbg(Path.cwd(), "ps", f"ray://127.0.0.1:{port}", env=environment)


@pytest.mark.parametrize(
    ("answers", "cause", "step"),
    [
        (None, "no dashboard answers at 127.0.0.1:", "ray status"),
        ({}, "answers /api/version with code 404", "another program uses this port"),
        ({"/api/version": (200, b"<html>")}, "answers /api/version with code 200", "another program uses this port"),
        ({"/api/version": (200, {"ray_version": "2.3.1"})}, "runs Ray 2.3.1", "RAY_DEBUG=legacy"),
        ({"/api/version": VERSION}, "has no state API", "pip install 'ray[default]'"),
        ({"/api/version": VERSION, "/api/v0/workers": (200, {"data": 7})}, "returned no list of workers", "pip install"),
        ({"/api/version": (401, {})}, "asks for Ray's token", "set RAY_AUTH_TOKEN"),
    ],
    ids=["nobody", "no Ray", "a web page", "an old Ray", "no state API", "another answer", "a token"],
)  # fmt: skip
def test_a_dashboard_that_does_not_tell_is_said_with_the_next_step(stand_in, answers, cause, step):
    done = ps(free_port() if answers is None else stand_in(answers).port)
    assert done.returncode != 0
    assert cause in done.stderr
    assert step in done.stderr
    assert "Traceback" not in done.stderr


def test_a_dashboard_that_fails_where_nobody_says_who_asks_is_asked_all_the_same(stand_in):
    """As that of Ray 2.9.3: `KeyError: 'User-Agent'` in its `browsers_no_post_put_middleware`, and an answer of code 500."""

    def answers(path, headers):
        if not headers.get("User-Agent"):
            return 500, b"500 Internal Server Error\n\nServer got itself in trouble"
        return (200, {"ray_version": "2.9.3"}) if path == "/api/version" else rows()

    done = ps(stand_in(answers).port)
    assert (done.returncode, done.stderr) == (0, "")
    assert "no session is running" in done.stdout


def test_attach_says_once_which_dashboard_it_waits_for(tmp_path, monkeypatch):
    monkeypatch.setenv("DKDBG_RUNTIME_DIR", str(tmp_path / "run"))
    target = f"ray://127.0.0.1:{free_port()}"
    with attach_proxy(tmp_path, target) as proxy:
        said = proxy.wait("target", LIMIT, target=target)["text"]
    assert said.startswith("waiting: no dashboard answers at 127.0.0.1:"), said


def test_rays_token_is_shown_to_a_dashboard_that_asks_for_it_and_is_on_no_command_line(stand_in):
    lines, token = [], f"open-sesame-{os.getpid()}"  # other runs of this test are on the machine too

    def answers(path, headers):
        lines.extend(command(["ps", "-eo", "args"]).stdout.splitlines())
        if headers.get("Authorization") != f"Bearer {token}":
            return 401, {}
        return VERSION if path == "/api/version" else rows()

    asked = stand_in(answers)
    done = ps(asked.port, RAY_AUTH_TOKEN=token)
    assert done.returncode == 0, done.stderr
    assert asked.asked[0] == ("/api/version", None), "who asks for nothing is shown nothing"
    assert not [line for line in lines if token in line]
    assert "rejects the token" in ps(asked.port, RAY_AUTH_TOKEN="wrong").stderr


def listing(port):
    """Return the answers of a dashboard with one worker, whose debugger listens at this port."""
    worker = {
        "worker_id": "w1", "worker_type": "WORKER", "node_id": "n1", "ip": "127.0.0.1", "pid": 77, "is_alive": True,
        "debugger_port": port, "num_paused_threads": 1,
    }  # fmt: skip
    task = {"worker_id": "w1", "name": "crunch", "actor_id": None, "state": "RUNNING"}
    lists = {"workers": rows(worker), "tasks": rows(task), "actors": rows(), "nodes": rows(NODE)}
    return {"/api/version": VERSION, **{f"/api/v0/{name}": said for name, said in lists.items()}}


def test_a_worker_that_has_gone_between_the_list_and_the_attach_is_said(stand_in, tmp_path):
    target = f"ray://127.0.0.1:{stand_in(listing(free_port())).port}"
    with attach_proxy(tmp_path, target) as proxy, Debugger(AttachOptions(port=proxy.port)) as debugger:
        debugger.attach(timeout=LIMIT)
        with debugger.changed:
            assert debugger.changed.wait_for(lambda: debugger._failures, LIMIT)
        said = str(debugger._failures[0])
        assert "crunch, pid 77 on gpu-1 cannot be reached" in said
        assert "it has ended since it was listed" in said


def test_what_listens_there_and_is_no_debugger_gets_nothing_but_a_connection(stand_in, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as other:
        other.settimeout(LIMIT)
        target = f"ray://127.0.0.1:{stand_in(listing(other.getsockname()[1])).port}"
        with attach_proxy(tmp_path, target) as proxy, Debugger(AttachOptions(port=proxy.port)) as debugger:
            debugger.attach(timeout=LIMIT)
            client, _ = other.accept()
            with client:
                client.settimeout(LIMIT)
                client.sendall(b"SSH-2.0-OpenSSH_9.2\r\n")
                assert client.recv(1000) == b""


def test_the_health_checks_of_serve_are_told_once_when_a_replica_is_held():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        editor = Editor(theirs, SimpleNamespace(tell_held=lambda: None))
        editor.is_attached = True
        for called, stopped in (
            ("Policy", "a.py:1"),
            ("ServeReplica:app:M", ""),
            *[("ServeReplica:app:M", "a.py:1")] * 2,
        ):
            worker = Worker({"worker_id": "w1"})
            worker.called = called
            entry = WorkerEntry(1, worker)
            entry.stopped = stopped
            editor.update([entry])
        theirs.shutdown(socket.SHUT_WR)
        said = [
            frames.decode(each)["body"]["output"] for each in frames.received(ours.recv, frames.FrameParser())
        ]
    assert len(said) == 1
    assert "more time: health_check_timeout_s" in said[0]
