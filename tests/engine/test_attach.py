"""`dkdbg attach`: a client attaches once, and containers come, go and restart behind the host's port.

DKDBG_TEST_FULL=1 does what the small sizes here stand for: 20 restarts of the container and 30 of the program.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
import urllib.request
from contextlib import ExitStack

import pytest

from dkdbg.dap.debugger import Debugger
from dkdbg.dap.values import AttachOptions
from dkdbg.errors import DkdbgError
from tests.engine.host_doors import Containers, docker, host_door, lay_out
from tests.engine.projects import (
    LOOP,
    dkdbg,
    free_port,
    launch_options,
    marked_line,
    must,
    repo,
    running,
)

pytestmark = pytest.mark.engine

FULL = bool(os.environ.get("DKDBG_TEST_FULL"))
RESTARTS, EDITS = (20, 30) if FULL else (3, 4)
PROGRAM = """\
import time
n = 0
while True:
    n += 1  # breakpoint
    time.sleep(0.01)
"""
#: Starts train.py with the pid 500, whatever was started in the container before.
SAME_PID = """\
import os
while os.getpid():
    pid = os.fork()
    if not pid and os.getpid() == 500:
        os.execvp("python3", ["python3", "train.py"])
    if not pid:
        os._exit(0)
    os.waitpid(pid, 0)
"""
TOML = "[debug]\nport = {port}\nreload = true\n"


@pytest.fixture(scope="module")
def laid_out(tmp_path_factory):
    return lay_out(tmp_path_factory.mktemp("attach"), train=PROGRAM, same_pid=SAME_PID)


@pytest.fixture
def containers(laid_out, base_image):
    found = Containers(laid_out, base_image)
    yield found
    found.remove()


def stopped_anew(debugger, known, timeout=30):
    """The next stop in a session that is not in `known`, which it is added to."""
    end = time.monotonic() + timeout
    while True:
        stop = debugger.wait_stopped(max(0.1, end - time.monotonic()))
        if stop.session not in known:
            known.add(stop.session)
            return stop


def test_one_attach_outlives_restarts_of_the_container_and_of_the_program(base_image, tmp_path, capsys):
    files = {"train.py": LOOP, "requirements.txt": "# nothing\n", "dkdbg.toml": TOML.format(port=free_port())}
    root = repo(tmp_path / "stays", files)
    must(dkdbg(root, "init", "--yes"))
    script = root / "train.py"
    text, line = script.read_text(), marked_line(script)
    with running(root, base_image), host_door(root) as door:
        options = AttachOptions(port=door.port, path_mappings=launch_options(root).path_mappings)
        container = docker(
            "ps", "-q", "--filter", "label=dev.dkdbg.session=app-debug", "--filter", f"volume={root}"
        )
        hits, seconds, known = 0, [], set()
        with Debugger(options) as debugger:
            debugger.set_breakpoints(str(script), [line])
            root_session = debugger.attach()
            stopped_anew(debugger, known)
            before = (len(docker("top", container).splitlines()), door.descriptors())
            for _ in range(RESTARTS):
                docker("restart", "-t", "5", container)
                stop = stopped_anew(debugger, known)
                hits += debugger.stack(stop)[0].line == line
                debugger.continue_(stop)
                debugger.wait_stopped(10)
            for number in range(EDITS):
                began = time.monotonic()
                script.write_text(text.replace("1.0 /", f"{number + 2}.0 /"))
                stop = stopped_anew(debugger, known)
                seconds.append(time.monotonic() - began)
                top = debugger.stack(stop)[0]
                hits += (top.line, debugger.local_values(top)["loss"]) == (line, f"{number + 2}.0")
                debugger.continue_(stop)
                debugger.wait_stopped(10)
            time.sleep(
                2.5
            )  # an ended session's connection, which this client does not close, is cut after 2 s
            after = (len(docker("top", container).splitlines()), door.descriptors())
            assert not root_session.is_ended
        with capsys.disabled():
            figures = f"save to stopped: median {statistics.median(seconds):.2f} s, max {max(seconds):.2f} s"
            sys.stdout.write(
                f"\n{hits} of {RESTARTS + EDITS} hits; {figures}; left over: {before} -> {after}\n"
            )
        assert hits == RESTARTS + EDITS
        assert after[0] == before[0]
        assert after[1] <= before[1] + 3
        assert door.end() == 0


def test_a_client_that_attaches_before_up_stops_at_the_first_line(containers, laid_out):
    name = containers.name()
    with host_door(laid_out, f"docker://{name}") as door, Debugger(containers.options(door.port)) as debugger:
        debugger.set_breakpoints(str(laid_out / "train.py"), [1])
        debugger.attach()
        debugger.wait_output(f"waiting for {name}: there is no container yet")
        time.sleep(5)  # the client is there first, by this much
        containers.run("python3", "train.py", name=name)
        assert debugger.stack(debugger.wait_stopped(30))[0].line == 1


def test_the_same_pids_in_two_containers_are_two_sessions_behind_one_port(containers, laid_out):
    command = ("python3", "-I", "same_pid.py")
    names = [containers.run(*command), containers.run(*command, publish=False)]
    addresses = [f"docker://{name}" for name in names]
    with (
        host_door(laid_out, *addresses) as door,
        Debugger(containers.options(door.port)) as debugger,
    ):
        debugger.set_breakpoints(str(laid_out / "train.py"), [4])
        debugger.attach()
        stops = [debugger.wait_stopped(30), debugger.wait_stopped(30)]
        assert stops[0].session is not stops[1].session
        assert sorted(stop.session.name for stop in stops) == sorted(f"{name}: train.py" for name in names)
        assert [stop.session.pid for stop in stops] == [500, 500]
        for stop in stops:
            name = stop.session.name.partition(":")[0]
            host = docker("inspect", "-f", "{{.Config.Hostname}}", name)
            assert (
                debugger.evaluate("open('/etc/hostname').read().strip()", debugger.stack(stop)[0])
                == f"'{host}'"
            )
        with urllib.request.urlopen(f"http://127.0.0.1:{door.port}/status") as status:
            assert b'"attached": true' in status.read()
        docker("kill", names[0])
        gone = next(stop.session for stop in stops if names[0] in stop.session.name)
        debugger.wait_ended(10, session=gone)
        kept = next(stop for stop in stops if names[1] in stop.session.name)
        assert debugger.evaluate("n >= 0", debugger.stack(kept)[0]) == "True"


def test_a_second_client_looks_on_also_after_a_restart(containers, laid_out):
    name = containers.run("python3", "train.py")
    with ExitStack() as stack:
        door = stack.enter_context(host_door(laid_out, f"docker://{name}"))
        first = stack.enter_context(Debugger(containers.options(door.port)))
        second = stack.enter_context(Debugger(containers.options(door.port)))
        for debugger in (first, second):
            debugger.set_breakpoints(str(laid_out / "train.py"), [4])
            debugger.attach()
            known = {debugger.wait_stopped(30).session}
        second.wait_output("you look on: another editor")
        docker("restart", "-t", "2", name)
        mine, seen = stopped_anew(first, {*first.sessions}), stopped_anew(second, known)
        with pytest.raises(DkdbgError, match="take-over"):
            second.evaluate("1 + 1", second.stack(seen)[0])
        assert first.evaluate("1 + 1", first.stack(mine)[0]) == "2"


def test_a_wrong_token_is_refused_with_the_containers_words_now_and_later(containers, laid_out):
    token = "correct horse"
    name = containers.run("python3", "train.py", DKDBG_TOKEN=token)
    with host_door(laid_out, f"docker://{name}") as door:
        with (
            Debugger(containers.options(door.port, dkdbgToken="wrong")) as debugger,
            pytest.raises(DkdbgError, match="the token is wrong"),
        ):
            debugger.attach()
        assert "waiting" in docker("exec", name, "sh", "/opt/dkdbg/agent.sh", "sessions")
        with Debugger(containers.options(door.port, dkdbgToken=token)) as debugger:
            debugger.set_breakpoints(str(laid_out / "train.py"), [4])
            debugger.attach()
            debugger.wait_stopped(30)
        docker("rm", "-f", name)
        with Debugger(containers.options(door.port, dkdbgToken="wrong")) as debugger:
            debugger.attach()
            containers.run("python3", "train.py", name=name, DKDBG_TOKEN=token)
            debugger.wait_ended(30)
            important = [each.text for each in debugger.output if each.category == "important"]
            assert "the token is wrong" in "".join(important)
        assert "waiting" in docker("exec", name, "sh", "/opt/dkdbg/agent.sh", "sessions")
