"""An editor's session with a program two hops away, in bad weather."""

import json
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from dkdbg.dap.debugger import AttachOptions, Debugger
from dkdbg.delivery import single_file
from tests.agent.dap_probe import wait_for
from tests.engine.attach_proxies import attach_proxy, docker
from tests.engine.projects import LOOP, dkdbg, marked_line, start, started, write
from tests.kubernetes.ranks import editor
from tests.ports import free_port, wait_open

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("far")]

NODE, CODE = "ssh://login,node1", "/home/me/code"


@contextmanager
def running(laptop, root) -> Iterator[subprocess.Popen[str]]:
    write(root, **{"train.py": LOOP})
    laptop.put("node1", "/home/me/code/train.py", (root / "train.py").read_text())
    words = ("run", "--on", f"{NODE}/~/code", "--wait", "300", "--", "python3", "train.py")
    try:
        with started(root, *words) as run:
            yield run
    finally:
        laptop.sh("node1", "pkill -INT -u me -f train.py", check=False)


def test_a_program_that_its_environment_brought_under_the_agent_is_listed_and_attached_to(laptop, tmp_path):
    write(tmp_path, **{"train.py": LOOP})
    laptop.put("node1", f"{CODE}/train.py", (tmp_path / "train.py").read_text())
    agent = tmp_path / "agent.pyz"
    agent.write_bytes(single_file.build((3, 11)))
    docker("cp", str(agent), f"{laptop.containers['node1']}:{CODE}/agent.pyz")
    laptop.sh("node1", f"chown me {CODE}/agent.pyz")
    line = (
        "PYTHONPATH=$PWD/agent.pyz DKDBG_LISTEN=0 DKDBG_TRANSIENT=1 setsid python3 train.py >/dev/null 2>&1 &"
    )
    try:
        laptop.sh("node1", f"cd {CODE}; {line}", user="me")
        wait_for(lambda: dkdbg(tmp_path, "ps", NODE).stdout, lambda shown: "train.py" in shown)
        with attach_proxy(tmp_path, NODE) as proxy, editor(proxy.port, tmp_path, CODE) as debugger:
            debugger.wait_stopped(300)
            assert proxy.end() == 0
    finally:  # in a container, which a test's host is, the agent stays for other programs
        laptop.sh("node1", "pkill -u me -f '[t]rain.py'; rm -rf /tmp/dkdbg-1000/agent-*", check=False)


def test_a_session_outlives_killed_and_silent_connections(laptop, tmp_path, record_property):
    """ssh killed here, sshd's session killed there, packets that vanish: the same session answers, nothing is missed."""
    with running(laptop, tmp_path), attach_proxy(tmp_path, NODE) as proxy:
        with editor(proxy.port, tmp_path, CODE) as debugger:
            stopped = debugger.wait_stopped(300)
            top = debugger.stack(stopped)[0]
            assert (top.path, top.name) == (str(tmp_path / "train.py"), "step")
            count = int(debugger.local_values(top)["n"])

            def usable():
                """Step on to the next stop: it is that of the next round."""
                nonlocal count, stopped
                debugger.continue_(stopped)
                stopped = debugger.wait_stopped(300)
                count += 1
                assert int(debugger.local_values(debugger.stack(stopped)[0])["n"]) == count

            usable()
            times: list[float] = []

            def measure():
                began = time.monotonic()
                usable()
                times.append(time.monotonic() - began)

            for _ in range(2):
                laptop.kill_local_ssh()
                measure()
            for host in ("node1", "login"):
                laptop.kill_sessions(host)
                measure()
            laptop.drop("node1")
            try:
                time.sleep(5)  # the weather, not a wait
            finally:
                laptop.undrop("node1")
            measure()
        record_property("usable after a cut", " ".join(f"{each:.1f}" for each in times))
        assert not [each for each in proxy.events if each["event"] == "over" and "ended" not in each["text"]]
        assert proxy.end() == 0


def test_programs_that_start_at_once_on_a_host_are_each_behind_their_own_port(laptop, tmp_path):
    ports, names = (free_port(), free_port()), ("a.py", "b.py")
    for name in names:
        write(tmp_path, **{name: LOOP})
        laptop.put("node1", f"{CODE}/{name}", (tmp_path / name).read_text())
    words = ("run", "--on", f"{NODE}/~/code", "--wait", "300", "--attach")
    try:
        with ExitStack() as stack:
            for port, name in zip(ports, names, strict=True):
                stack.enter_context(started(tmp_path, *words, str(port), "--", "python3", name))
            for port, name in zip(ports, names, strict=True):
                wait_open(port)
                options = AttachOptions(port=port, path_mappings=((str(tmp_path), CODE),))
                with Debugger(options) as debugger:
                    for each in names:
                        debugger.set_breakpoints(str(tmp_path / each), [marked_line(tmp_path / each)])
                    debugger.attach(timeout=300)
                    assert debugger.stack(debugger.wait_stopped(300))[0].path == str(tmp_path / name)
    finally:
        laptop.sh("node1", "pkill -KILL -u me python3", check=False)


def test_ports_over_there_are_here_and_come_back(laptop, tmp_path):
    """As TensorBoard's; the number is the same one here where it is free."""
    laptop.put("node1", "/home/me/www/index.html", "hello\n")
    there, taken = free_port(), free_port()
    serve = f"cd /home/me/www; for p in {there} {taken}; do python3 -m http.server -b 127.0.0.1 $p >/dev/null 2>&1 & done"
    laptop.sh("node1", serve, user="me")
    wait_listening(laptop, there, taken)
    words = ["forward", NODE, str(there), str(taken), f"{free_port()}:{there}", "--json"]
    with socket.create_server(("127.0.0.1", taken)):
        forwarding = start(tmp_path, *words, stderr=subprocess.DEVNULL)
        try:
            said = [json.loads(forwarding.stdout.readline()) for _ in range(4)]
            named, same, other = (each["local"] for each in said if each["event"] == "port")
            assert (same, other > taken) == (there, True)
            for each in (named, same):
                assert fetched(each) == b"hello\n"
            assert fetched(other) == b"hello\n"
            laptop.kill_local_ssh()
            states = (json.loads(line) for line in forwarding.stdout)
            assert next(each for each in states if each.get("connected") is True)
            assert fetched(same) == b"hello\n"
            forwarding.send_signal(signal.SIGINT)
            assert forwarding.wait(300) == 0
        finally:
            forwarding.kill()
            forwarding.wait()
            laptop.sh("node1", "pkill -u me python3; rm -rf /home/me/www", check=False)


def wait_listening(laptop, *ports: int) -> None:
    for each in ports:
        laptop.sh("node1", f"until bash -c '</dev/tcp/127.0.0.1/{each}' 2>/dev/null; do sleep 0.05; done")


def fetched(port: int) -> bytes:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=300) as answer:
        return answer.read()
