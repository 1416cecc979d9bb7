"""A pytest plugin for debugpy's own tests: what they attach to is a program under the agent.

The body of the runner `attach_connect["cli"]` is replaced in memory. A root session of ours attaches to the agent, and
the session of the process that it announces is the one that is tested. Loaded by run.py; DKDBG_UPSTREAM_AGENT is the
path of the single file.
"""

import contextlib
import importlib
import itertools
import json
import os
import sys
import threading
import time
import unittest.mock
from pathlib import Path
from typing import Any

import psutil
import pytest

#: Seconds for a program to start on a busy machine.
LIMIT = 300.0
_numbers = itertools.count()
_agents: list[Any] = []
#: By the process that they debug, from their attach on.
_sessions: dict[int, Any] = {}


def pytest_configure() -> None:
    """Put the agent in the runner's place."""
    runners = importlib.import_module("tests.debug.runners")
    sessions = importlib.import_module("tests.debug.session")
    call = type(runners.attach_connect).__call__
    bodies = dict(zip(call.__code__.co_freevars, call.__closure__ or (), strict=True))
    bodies["f"].cell_contents = attach_connect
    sessions.Session.attach_connect = attach_connect
    sessions.Session._start_channel = _start_channel
    configs = importlib.import_module("tests.debug.config")
    configs.DebugConfig.PROPERTIES["subProcessId"] = ()  # a test may copy a session's configuration


def pytest_collection_modifyitems(items: list[Any]) -> None:
    """A child's configuration is upstream's, and says besides which editor its root session belongs to."""
    for module in {item.module for item in items if hasattr(item.module, "expected_subprocess_config")}:
        expected = module.expected_subprocess_config
        module.expected_subprocess_config = lambda parent, expected=expected: {
            **expected(parent),
            "dkdbgEditor": unittest.mock.ANY,
        }


def pytest_runtest_teardown() -> None:
    """A test that failed may leave its agent behind, with the port that the next test needs."""
    _sessions.clear()
    while _agents:
        agent = _agents.pop()
        with contextlib.suppress(psutil.Error):
            agent.kill()


def attach_connect(  # noqa: PLR0917  its signature is upstream's
    session: Any, target: Any, method: str, cwd: Any = None, wait: bool = True, log_dir: Any = None
) -> Any:
    """Run the target under the agent, and attach to the process that it announces."""
    if method != "cli":
        pytest.skip("through the agent a program says nothing of debugpy")
    runners = importlib.import_module("tests.debug.runners")
    config = runners._attach_common_config(session, target, cwd)
    host, port = runners.attach_connect.host, runners.attach_connect.port
    config["connect"] = {"host": host, "port": port}
    with contextlib.suppress(KeyError):
        del config["subProcess"]
    agent = Path(os.environ["DKDBG_UPSTREAM_AGENT"])
    runtime, name = agent.parent / "run", f"u{os.getpid()}x{next(_numbers)}"
    runtime.mkdir(mode=0o700, exist_ok=True)
    environment = {"DKDBG_RUNTIME_DIR": str(runtime), "DKDBG_NAME": name, "DKDBG_PORT": str(port)}
    environment |= {"DKDBG_WAIT": "300" if wait else "0", "DKDBG_PYTHON": sys.executable}
    args = target.cli(session.spawn_debuggee.env)
    session.spawn_debuggee.env.update(environment)
    if log_dir is not None:
        session.spawn_debuggee.env["DEBUGPY_LOG_DIR"] = str(log_dir)
    session.spawn_debuggee(["launch", "--", sys.executable, *args], cwd=cwd, exe=str(agent))
    _end_all_with(session.debuggee)
    _wait_for_agent(runtime, name)
    session.before_connect((host, port))
    session.before_connect = lambda _: None
    child = _Root(session, host, port).child()
    config._dict["subProcessId"] = child["subProcessId"]
    session.connect_to_adapter((host, port))
    return session.request_attach()


def _wait_for_agent(runtime: Path, name: str) -> None:
    end = time.monotonic() + LIMIT
    while time.monotonic() < end:
        for path in runtime.glob(f"{name}-*/session.json"):
            if json.loads(path.read_text())["state"] in ("waiting", "running"):
                return
        time.sleep(0.02)
    pytest.fail("the agent does not wait")


def _end_all_with(agent: Any) -> None:
    """Upstream's clean-up kills the debuggee, and knows of no processes below it."""
    kill = agent.kill

    def kill_all() -> None:
        for each in agent.children(recursive=True):
            each.kill()
        kill()

    agent.kill = kill_all
    _agents.append(agent)


class _Root:
    """The root session, which an editor has besides those of processes."""

    def __init__(self, session: Any, host: str, port: int) -> None:
        messaging = importlib.import_module("debugpy.common.messaging")
        sockets = importlib.import_module("debugpy.common.sockets")
        self._session = session
        self._found: dict[str, Any] = {}
        self._changed = {"initialized": threading.Event(), "debugpyAttach": threading.Event()}
        sock = sockets.create_client()
        sock.connect((host, port))
        self._channel = messaging.JsonMessageChannel(
            messaging.JsonIOStream.from_socket(sock, name="root"),
            messaging.MessageHandlers(request=self._request, event=self._event, disconnect=lambda: None),
        )
        self._channel.start()
        self._channel.request("initialize", session.capabilities)
        session.config.normalize()
        attach = self._channel.send_request("attach", dict(session.config))
        assert self._changed["initialized"].wait(LIMIT)
        self._channel.request("configurationDone")
        attach.wait_for_response()

    def child(self) -> dict[str, Any]:
        """The program's process."""
        assert self._changed["debugpyAttach"].wait(LIMIT), "the program was not announced"
        return self._found

    def _request(self, request: Any) -> Any:
        assert request.command == "startDebugging"
        self._announced(request, dict(request.arguments["configuration"]))
        return {}

    def _event(self, event: Any) -> None:
        if event.event == "debugpyAttach":
            self._announced(event, dict(event.body))
        elif event.event == "terminated":
            self._channel.send_request("disconnect", {"terminateDebuggee": False})
        elif event.event == "initialized":
            self._changed["initialized"].set()

    def _announced(self, message: Any, body: dict[str, Any]) -> None:
        """Keep what is said of the program, and tell a child to its parent's session, as stock debugpy does."""
        parent = psutil.Process(body["subProcessId"]).ppid()
        if not self._found and parent == self._session.debuggee.pid:
            self._found = body
            self._changed["debugpyAttach"].set()
        else:
            threading.Thread(target=_tell, args=(parent, message), daemon=True).start()


def _tell(parent: int, message: Any) -> None:
    end = time.monotonic() + LIMIT
    while parent not in _sessions and time.monotonic() < end:
        time.sleep(0.02)
    session = _sessions.get(parent)
    if session is not None and hasattr(message, "event"):
        session._process_event(message)
    elif session is not None:
        session._process_request(message)


def _start_channel(session: Any, stream: Any) -> None:
    """As upstream's, but `initialize` comes before debugpy's greeting: the agent greets who is silent only later."""
    messaging = importlib.import_module("debugpy.common.messaging")

    def process_event(event: Any) -> None:
        if event.event != "debugpySockets":  # which a child's session must not get, and whoever is first gets
            session._process_event(event)
        if event.event == "process":
            _sessions[event("systemProcessId", int)] = session

    handlers = messaging.MessageHandlers(
        request=session._process_request, event=process_event, disconnect=session._process_disconnect
    )
    session.channel = messaging.JsonMessageChannel(stream, handlers)
    session.channel.start()
    session.request("initialize", session.capabilities)
    telemetry = {"category": "telemetry"}
    timeline = importlib.import_module("tests.timeline")
    some = importlib.import_module("tests.patterns.some")
    session.ignore_unobserved.append(timeline.Event("output", some.dict.containing(telemetry)))
