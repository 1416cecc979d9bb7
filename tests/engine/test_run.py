"""`dkdbg run`: a plain container that nobody has prepared, and this machine."""

import json
import signal
import subprocess
import sys

import pytest

from dkdbg.targets.docker import containers
from tests.engine.attach_proxies import attach_proxy, docker
from tests.engine.projects import LOOP, at, dkdbg, must, start, started, stop_in, unique, write
from tests.kubernetes.runs import WAITS, ends_by_ctrl_c
from tests.ports import free_port

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("run")]

ENDS = "import os, sys\nprint('out', os.getcwd())\nprint('err', file=sys.stderr)\nsys.exit(7)\n"


@pytest.fixture(scope="module")
def shared(base_image):
    """Any container: no label, no mount, no port, as `docker run -d IMAGE sleep inf` makes it."""
    name = unique("dkdbg-run")
    docker("run", "-d", "--init", "--name", name, "-w", "/srv", base_image, "sleep", "infinity")
    yield name
    docker("rm", "-f", name)


@pytest.fixture
def container(shared):
    """The container, in which each test leaves nothing of the agent."""
    yield shared
    assert left(shared) == []


def put(container, root, name, text):
    write(root, **{name: text})
    docker("cp", str(root / name), f"{container}:/srv/{name}")


def left(container):
    """What is left of the agent in the container."""
    found = docker("exec", container, "sh", "-c", "ls -A /tmp/dkdbg-0 2>/dev/null || :").split()
    return [name for name in found if name.startswith((".", "agent-", "hook-", "debugpy-"))]


def finish(running):
    out, err = running.communicate(timeout=300)
    return running.returncode, out, err


@pytest.mark.core
def test_output_and_exit_code_are_the_programs_and_a_command_that_is_not_there_is_named(container, tmp_path):
    put(container, tmp_path, "ends.py", ENDS)
    done = dkdbg(tmp_path, "run", "--on", f"docker://{container}", "--", "python3", "ends.py")
    assert (done.returncode, done.stdout) == (7, "out /srv\n"), done.stderr
    said = done.stderr.splitlines()
    assert "err" in said
    assert all(line == "err" or line.startswith("dkdbg: ") for line in said)
    assert f"dkdbg: attach with: dkdbg attach docker://{container}" in said
    done = dkdbg(tmp_path, "run", "--on", f"docker://{container}", "--", "no-such-program")
    assert done.returncode == 127
    assert "no-such-program" in done.stderr


@pytest.mark.core
def test_a_breakpoint_is_hit_through_dkdbg_attach(container, tmp_path):
    put(container, tmp_path, "train.py", LOOP)
    with started(tmp_path, "run", "--on", f"docker://{container}", "--", "python3", "train.py") as running:
        with attach_proxy(tmp_path, f"docker://{container}") as proxy:
            stopped = stop_in(tmp_path, "train.py", at(proxy.port, tmp_path, "/srv"))
            assert (stopped.path, stopped.function) == (str(tmp_path / "train.py"), "step")
            assert "loss" in stopped.values
            assert container in must(dkdbg(tmp_path, "ps")).stdout
        running.send_signal(signal.SIGTERM)
        assert finish(running)[0] == 143


@pytest.mark.core
def test_ctrl_c_in_a_terminal_is_the_programs(container, tmp_path):
    put(container, tmp_path, "waits.py", WAITS)
    ends_by_ctrl_c(tmp_path, f"docker://{container}", "python3", "waits.py")


def test_two_runs_share_the_agent_with_a_port_each_the_last_takes_it_away(container, base_image, tmp_path):
    """The port is the container's alone: one beside it on the network does not reach it."""
    put(container, tmp_path, "waits.py", WAITS)
    place = f"docker://{container}"
    first = start(tmp_path, "run", "--on", place, "--", "python3", "waits.py")
    assert first.stdout.readline() == "up\n"
    second = dkdbg(tmp_path, "run", "--on", place, "--", "true")
    assert second.returncode == 125
    assert "cannot listen on 0.0.0.0:5678" in second.stderr
    assert "--port" in second.stderr
    address = docker("inspect", "-f", "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}", container)
    ask = (
        f"import socket\ns = socket.create_connection(({address!r}, 5678), 5)\ns.settimeout(5)\n"
        "s.sendall(b'GET /healthz HTTP/1.0\\r\\n\\r\\n')\nprint(repr(s.recv(100)))\n"
    )
    words = ["docker", "run", "--rm", base_image, "python3", "-c", ask]
    asked = subprocess.run(words, capture_output=True, text=True, check=False)
    assert "200" not in asked.stdout
    second = dkdbg(tmp_path, "run", "--on", place, "--port", "5680", "--", "python3", "-c", "print('two')")
    assert (second.returncode, second.stdout) == (0, "two\n"), second.stderr
    assert "copied the agent" not in second.stderr
    assert len([each for each in left(container) if each.endswith(".pyz")]) == 1
    first.send_signal(signal.SIGINT)
    assert finish(first)[:2] == (9, "interrupted\n")


def test_a_container_without_python_of_another_user_or_not_running_is_refused_with_why(
    start_container, tmp_path
):
    """Anybody in the container may make a folder in /tmp: root's agent does not run from it."""
    name = start_container()

    def refused(*said):
        done = dkdbg(tmp_path, "run", "--on", f"docker://{name}", "--", "true")
        assert [each for each in said if each not in done.stderr] == [], done.stderr
        return done.returncode

    docker("exec", "-u", "1234", name, "mkdir", "-m", "777", "/tmp/dkdbg-0")
    assert refused("belongs to uid 1234", "DKDBG_RUNTIME_DIR") == 1
    pythons = "/usr/bin/python* /usr/local/bin/python* /opt/*/bin/python*"
    docker("exec", name, "sh", "-c", f"rm -rf /tmp/dkdbg-0 {pythons}")
    assert refused(f"docker://{name} has no Python 3.8 or newer", "--python") == 127
    docker("stop", "-t", "0", name)
    assert refused(name, "hint: docker ps")


def test_it_runs_on_this_machine_too(tmp_path, monkeypatch):
    monkeypatch.setenv("DKDBG_RUNTIME_DIR", str(tmp_path / "run"))
    write(tmp_path, **{"waits.py": WAITS})
    running = start(tmp_path, "run", "--port", str(free_port()), "--", sys.executable, "waits.py")
    assert running.stdout.readline() == "up\n"
    running.send_signal(signal.SIGINT)
    assert finish(running)[:2] == (9, "interrupted\n")
    assert list((tmp_path / "run").glob("agent-*")) == []


def test_a_command_that_has_ended_meanwhile_hides_no_session(container):
    """The engine names what runs in a container in any order, and forgets what has ended while it is asked for each."""
    docker("exec", "-d", container, "sleep", "600")
    (running,) = json.loads(docker("inspect", "-f", "{{json .ExecIDs}}", container))
    found = containers._execs(["0" * 64, running, "1" * 64])
    assert [each["ID"] for each in found] == [running]
