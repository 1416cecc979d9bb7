"""`dkdbg attach`: a client attaches once, and containers come, go and restart behind the host's port.

DKDBG_TEST_FULL=1 does what the small sizes here stand for: 20 restarts of the container, 30 of the program and 1,000 probes.
"""

import os
import socket
import statistics
import struct
import subprocess
import sys
import time
import urllib.request
from contextlib import ExitStack, suppress

import pytest

from dkdbg.agent.dap import frames
from dkdbg.dap.client import Session, dial
from dkdbg.dap.debugger import Debugger
from dkdbg.dap.values import AttachOptions
from dkdbg.errors import DkdbgError
from tests.agent.dap_probe import wait_for
from tests.engine.attach_proxies import Containers, attach_proxy, docker, lay_out
from tests.engine.projects import (
    LOOP,
    dkdbg,
    launch_options,
    marked_line,
    must,
    repo,
    running,
    stopped_in,
    unique,
)
from tests.ports import free_port

pytestmark = pytest.mark.engine

FULL = bool(os.environ.get("DKDBG_TEST_FULL"))
RESTARTS, EDITS = (20, 30) if FULL else (1, 2)
PROGRAM = """\
import time
n = 0
while True:
    n += 1  # breakpoint
    time.sleep(0.01)
"""
#: Starts train.py with a pid that its twin in another container has too, whatever was started there before. A pid is
#: passed over where something else of one container has it already.
SAME_PID = """\
import os, socket, time
os.makedirs("same", exist_ok=True)
for wanted in range(500, 30000, 100):
    pid = last = 0
    while last < wanted:
        pid = last = os.fork()
        if not pid:
            break
        if pid != wanted:
            os.waitpid(pid, 0)
    if not pid and os.getpid() != wanted:
        os._exit(0)
    if pid:
        open("same/%d-%s-%s" % (wanted, "yes" if pid == wanted else "no", socket.gethostname()), "w").close()
    while len(found := [each for each in os.listdir("same") if each.startswith("%d-" % wanted)]) < 2:
        time.sleep(0.01)
    both = all("-yes-" in each for each in found)
    if not pid:
        both and os.execvp("python3", ["python3", "train.py"])
        os._exit(0)
    if pid == wanted:
        os.waitpid(pid, 0)
"""
INITIALIZE = frames.encode({"seq": 1, "type": "request", "command": "initialize", "arguments": {}})
GARBAGE = [
    bytes(range(256)) * 8,
    b"Content-Length: 99999999\r\n\r\n",
    INITIALIZE[:-3],
    INITIALIZE + b"\x00" * 50,
    INITIALIZE + frames.wrap(b"[1]"),
    INITIALIZE + frames.encode({"seq": 2, "type": "request", "command": "evaluate"}),
    INITIALIZE + frames.encode({"seq": 2, "type": "request", "command": "attach", "arguments": {}}),
    b"SSH-2.0-OpenSSH_9.2\r\n",
]
RANKS = """\
import os, subprocess, sys
envs = [dict(os.environ, RANK=str(r), LOCAL_RANK=str(r), WORLD_SIZE="2") for r in range(2)]
for child in [subprocess.Popen([sys.executable, "train.py"], env=env) for env in envs]:
    child.wait()
"""
TOML = "[debug]\nport = {port}\nreload = true\n"


@pytest.fixture(scope="module")
def laid_out(tmp_path_factory):
    return lay_out(tmp_path_factory.mktemp("attach"), train=PROGRAM, same_pid=SAME_PID, ranks=RANKS)


@pytest.fixture
def containers(laid_out, base_image):
    found = Containers(laid_out, base_image)
    yield found
    found.remove()


def processes(container):
    """How many processes the container has, but for what ends by itself: the engine's health check, and a warm-up."""
    brief = ("agent.pyz health", "sleep ", "runc init", "[sh]", "os.nice(19)")
    return len(
        [line for line in docker("top", container).splitlines() if not any(word in line for word in brief)]
    )


def stopped_anew(debugger, known, timeout=300):
    """The next stop in a session that is not in `known`, which it is added to."""
    end = time.monotonic() + timeout
    while True:
        stop = debugger.wait_stopped(max(0.1, end - time.monotonic()))
        if stop.session not in known:
            known.add(stop.session)
            return stop


def test_an_attach_outlives_restarts_of_container_or_program_or_a_new_one(base_image, tmp_path, capsys):
    files = {"train.py": LOOP, "requirements.txt": "# nothing\n", "dkdbg.toml": TOML.format(port=free_port())}
    root = repo(tmp_path / unique("stays"), files)
    must(dkdbg(root, "init", "--yes"))
    script = root / "train.py"
    text, line = script.read_text(), marked_line(script)
    with ExitStack() as stack:
        proxy = stack.enter_context(attach_proxy(root))
        options = AttachOptions(port=proxy.port, path_mappings=launch_options(root).path_mappings)
        debugger = stack.enter_context(Debugger(options))
        debugger.set_breakpoints(str(script), [line])
        root_session = debugger.attach()
        stack.enter_context(running(root, base_image))
        label = ("--filter", "label=dev.dkdbg.session=app-debug", "--filter", f"volume={root}")
        container = docker("ps", "-q", *label)
        hits, seconds, known = 0, [], set()
        stopped_anew(debugger, known)
        before = (processes(container), proxy.descriptors())
        for _ in range(RESTARTS):
            docker("restart", "-t", "5", container)
            stop = stopped_anew(debugger, known)
            hits += debugger.stack(stop)[0].line == line
            debugger.continue_(stop)
            debugger.wait_stopped(300)
        for number in range(EDITS):
            began = time.monotonic()
            script.write_text(text.replace("1.0 /", f"{number + 2}.0 /"))
            stop = stopped_anew(debugger, known)
            seconds.append(time.monotonic() - began)
            top = debugger.stack(stop)[0]
            hits += (top.line, debugger.local_values(top)["loss"]) == (line, f"{number + 2}.0")
            debugger.continue_(stop)
            debugger.wait_stopped(300)
        compose = ["docker", "compose", "--profile", "debug", "up", "--detach", "--force-recreate"]
        env = {**os.environ, "DKDBG_BASE": base_image}
        must(subprocess.run(compose, cwd=root, env=env, capture_output=True, text=True, check=False))
        hits += debugger.stack(stopped_anew(debugger, known))[0].line == line
        former, container = container, docker("ps", "-q", *label)
        assert former != container
        # This client does not close the connection of a session that has ended: the proxy does, after a while.
        after = wait_for(
            lambda: (processes(container), proxy.descriptors()),
            lambda now: now[0] == before[0] and now[1] <= before[1] + 3,
        )
        must(dkdbg(root, "down"))
        debugger.wait_output("waiting for app-debug: there is no container yet")
        assert not root_session.is_ended
        debugger.disconnect()
        assert proxy.end() == 0
    with capsys.disabled():
        figures = f"save to stopped: median {statistics.median(seconds):.2f} s, max {max(seconds):.2f} s"
        sys.stdout.write(
            f"\n{hits} of {RESTARTS + EDITS + 1} hits; {figures}; left over: {before} -> {after}\n"
        )
    assert hits == RESTARTS + EDITS + 1


def test_the_same_pids_in_two_containers_are_two_sessions_behind_one_port(containers, laid_out):
    command = ("python3", "-I", "same_pid.py")
    names = [containers.run(*command), containers.run(*command, publish=False)]
    addresses = [f"docker://{name}" for name in names]
    with attach_proxy(laid_out, *addresses) as proxy, Debugger(containers.options(proxy.port)) as debugger:
        debugger.set_breakpoints(str(laid_out / "train.py"), [4])
        debugger.attach()
        stops = [debugger.wait_stopped(300), debugger.wait_stopped(300)]
        assert stops[0].session is not stops[1].session
        assert sorted(stop.session.name for stop in stops) == sorted(f"{name}: train.py" for name in names)
        assert stops[0].session.pid == stops[1].session.pid
        for stop in stops:
            name = stop.session.name.partition(":")[0]
            host = docker("inspect", "-f", "{{.Config.Hostname}}", name)
            asked = "open('/etc/hostname').read().strip()"
            assert debugger.evaluate(asked, debugger.stack(stop)[0]) == f"'{host}'"
        with urllib.request.urlopen(f"http://127.0.0.1:{proxy.port}/status") as status:
            assert b'"attached": true' in status.read()
        docker("kill", names[0])
        gone = next(stop.session for stop in stops if names[0] in stop.session.name)
        debugger.wait_ended(300, session=gone)
        kept = next(stop for stop in stops if names[1] in stop.session.name)
        assert debugger.evaluate("n >= 0", debugger.stack(kept)[0]) == "True"
        assert proxy.end() == 0
        debugger.wait_ended(300)
        assert "dkdbg attach was ended" in "".join(each.text for each in debugger.output)


def test_a_wrong_token_is_refused_with_the_containers_words_now_and_later(containers, laid_out):
    token = "correct horse"
    name = containers.run("python3", "train.py", DKDBG_TOKEN=token)
    containers.wait_ready(name)
    with attach_proxy(laid_out, f"docker://{name}") as proxy:
        with (
            Debugger(containers.options(proxy.port, dkdbgToken="wrong")) as debugger,
            pytest.raises(DkdbgError, match="the token is wrong"),
        ):
            debugger.attach()
        assert "waiting" in docker("exec", name, "sh", "/opt/dkdbg/agent.pyz", "sessions")
        with stopped_in(laid_out / "train.py", containers.options(proxy.port, dkdbgToken=token)):
            pass
        docker("rm", "-f", name)
        with Debugger(containers.options(proxy.port, dkdbgToken="wrong")) as debugger:
            debugger.attach()
            containers.run("python3", "train.py", name=name, DKDBG_TOKEN=token)
            debugger.wait_ended(300)
            containers.wait_ready(name)
            important = [each.text for each in debugger.output if each.category == "important"]
            assert "the token is wrong" in "".join(important)
        assert "waiting" in docker("exec", name, "sh", "/opt/dkdbg/agent.pyz", "sessions")


class Plain:
    """A client that knows one session on one port and no child sessions."""

    def __init__(self, options, script, line):
        self.stops, self.output = [], []
        self.session = Session(dial("127.0.0.1", options.port), name="plain", on_event=self._event)
        self.session.request(
            "initialize", {"clientID": "plain", "adapterID": "debugpy", "pathFormat": "path"}
        )
        self.script, self.line = str(script), line
        self.attach = self.session.send("attach", options.arguments())

    def configure(self, timeout=300):
        self.session.wait(lambda: self.session.has_seen("initialized"), "initialized", timeout=timeout)
        points = {"source": {"path": self.script}, "breakpoints": [{"line": self.line}]}
        self.session.request("setBreakpoints", points)
        self.session.request("configurationDone")
        self.session.response(self.attach)
        return self

    def leave(self):
        self.session.request("disconnect")
        self.session.close()

    def rank_at_stop(self):
        self.session.wait(lambda: bool(self.stops), "a stop", timeout=300)
        stack = self.session.request("stackTrace", {"threadId": self.stops[0]["threadId"]})["stackFrames"]
        asked = "__import__('os').environ.get('RANK')"
        frame = {"expression": asked, "frameId": stack[0]["id"], "context": "repl"}
        return stack[0]["line"], self.session.request("evaluate", frame)["result"]

    def said(self, text):
        self.session.wait(lambda: any(text in each for each in self.output), text, timeout=300)
        return next(each for each in self.output if text in each)

    def _event(self, _, event, body):
        if event == "stopped":
            self.stops.append(body)
        elif event == "output":
            self.output.append(body["output"])


def test_a_plain_client_attaches_to_one_rank_by_its_own_port_or_by_the_one_it_is_told(containers, laid_out):
    name, base = containers.name(), free_port(102)
    with attach_proxy(laid_out, f"docker://{name}", options=("--ports", str(base))) as proxy:
        proxy.wait("ports")
        clients = [Plain(containers.options(base + rank), laid_out / "train.py", 4) for rank in range(2)]
        clients[1].said("waiting for rank 1")
        containers.run("python3", "ranks.py", name=name, DKDBG_JOIN_DEADLINE="3")
        for rank, client in enumerate(clients):
            assert client.configure().rank_at_stop() == (4, f"'{rank}'")
        proxy.wait("port", text=f"ranks.py: attach to 127.0.0.1:{base + 100}")
        clients[0].leave()
        again = Plain(containers.options(base), laid_out / "train.py", 4).configure()
        assert again.rank_at_stop() == (4, "'0'")
        clients[1].leave()
        again.leave()
        containers.wait_ready(name)
        last = None
        while last is None:
            with suppress(DkdbgError):  # who has just left may still be there for a moment
                last = Plain(containers.options(base + 1), laid_out / "train.py", 4).configure()
        assert last.rank_at_stop() == (4, "'1'")
        last.leave()
    name = containers.run("python3", "ranks.py", DKDBG_JOIN_DEADLINE="3")
    with attach_proxy(laid_out, f"docker://{name}") as proxy:
        root = Plain(containers.options(proxy.port), laid_out / "train.py", 4).configure()
        port = int(root.said("rank 1: attach to").rpartition(":")[2])
        client = Plain(containers.options(port), laid_out / "train.py", 4).configure()
        assert client.rank_at_stop() == (4, "'1'")
        for each in (client, root):
            each.session.close()


def test_after_probes_and_garbage_a_client_attaches_and_a_second_observes_after_restarts(
    containers, laid_out
):
    name = containers.run("python3", "train.py")
    with ExitStack() as stack:
        proxy = stack.enter_context(attach_proxy(laid_out, f"docker://{name}"))
        for number in range(1000 if FULL else 200):
            with socket.create_connection(("127.0.0.1", proxy.port)) as probe:
                if number % 4 == 1:
                    probe.sendall(b"GET / HTTP/1.0\r\n\r\n")
                elif number % 4 == 2:
                    probe.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        for _ in range(10):  # half open
            stack.enter_context(socket.create_connection(("127.0.0.1", proxy.port)))
        for number in range(100 if FULL else 2 * len(GARBAGE)):
            with socket.create_connection(("127.0.0.1", proxy.port)) as probe:
                probe.sendall(GARBAGE[number % len(GARBAGE)])
        first = stack.enter_context(Debugger(containers.options(proxy.port)))
        second = stack.enter_context(Debugger(containers.options(proxy.port)))
        for debugger in (first, second):
            debugger.set_breakpoints(str(laid_out / "train.py"), [4])
            debugger.attach()
            stop = debugger.wait_stopped(300)
            assert debugger.stack(stop)[0].line == 4
            known = {stop.session}
        second.wait_output("you are an observer: another editor")
        before = {*first.sessions}
        docker("restart", "-t", "2", name)
        mine, seen = stopped_anew(first, before), stopped_anew(second, known)
        with pytest.raises(DkdbgError, match="take-over"):
            second.evaluate("1 + 1", second.stack(seen)[0])
        assert first.evaluate("1 + 1", first.stack(mine)[0]) == "2"


def test_a_container_that_only_a_relay_reaches_and_that_was_killed_ends_the_session(laid_out, containers):
    name = containers.run("python3", "train.py", publish=False, flags=("--network", "none"))
    with (
        attach_proxy(laid_out, f"docker://{name}") as proxy,
        stopped_in(laid_out / "train.py", containers.options(proxy.port)) as (debugger, stop),
    ):
        former = stop.session
        docker("kill", name)
        debugger.wait_ended(60, session=former)
        debugger.wait_output("connection to the process lost")
        debugger.wait_output(f"container {name} is not running")
        docker("start", name)
        assert debugger.wait_stopped(300).session is not former
