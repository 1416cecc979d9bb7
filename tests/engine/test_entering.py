"""`dkdbg attach docker://NAME` enters a Python that dkdbg did not start, leaves it running, and comes back."""

import json
import os
import shlex
import socket
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from dkdbg import hints
from dkdbg.core.pythons import programs_of, pythons_in
from tests.agent.dap_probe import wait_for
from tests.engine.attach_proxies import (
    attach_proxy,
    docker,
    newest_image,
    proxy_of,
    typed_proxy,
    typed_run,
    without_ptrace,
)
from tests.engine.projects import at, dkdbg, must, stopped_in, unique
from tests.hints import hinted
from tests.pages import DOCS, Page, environment
from tests.ports import free_port

pytestmark = pytest.mark.engine

LOOP = """\
import time
def step(n):
    total = 2 * n
    begin = time.monotonic()
    time.sleep(0.05)
    assert time.monotonic() - begin >= 0.05, "a system call was cut short"
    return total
n = 0
while True:
    n += 1
    step(n)
    print(n, flush=True)
"""


@pytest.fixture
def running(start_container, tmp_path):
    """Starts containers of a program that dkdbg has nothing to do with."""

    def start(image, *words, options=()):
        (tmp_path / "train.py").write_text(LOOP)
        tmp_path.chmod(0o755)  # for the users of containers
        mount = ("--mount", f"type=bind,source={tmp_path},target=/code,readonly", "--workdir", "/code")
        name = start_container(*mount, *options, image=image, words=words)
        wait_for(lambda: steps(name) > 0, bool)
        return name

    return start


def steps(name):
    """How far the program has come."""
    said = docker("logs", "--tail", "1", name).splitlines()
    return int(said[-1]) if said and said[-1].isdigit() else 0


def is_open(port):
    """Whether somebody listens there; an attach proxy tolerates probes."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def python_in(name):
    """The number of the program there."""
    look = 'for each in /proc/[0-9]*; do case $(tr "\\0" " " <$each/cmdline) in python*train.py*) echo ${each#/proc/};; esac; done'
    return docker("exec", name, "sh", "-c", look).split()[0]


def entering(root, name):
    """The proxy of an attach that enters it."""
    return attach_proxy(root, f"docker://{name}", options=("--pid", python_in(name)))


def stops(root, proxy, line=3):
    """The values at a stop there."""
    with stopped_in(root / "train.py", at(proxy.port, root, "/code"), line) as (debugger, stop):
        top = debugger.stack(stop)[0]
        assert (top.path, top.line, top.name) == (str(root / "train.py"), line, "step")
        return int(debugger.evaluate("n", top)), debugger.evaluate("__import__('os').getuid()", top)


def test_python_3_14_is_entered_by_remote_exec_left_and_entered_again(running, tmp_path):
    name = running(newest_image(), "python3.14", "-I", "-S", "train.py", options=("--read-only",))
    seen = []
    with attach_proxy(tmp_path, f"docker://{name}") as proxy:
        told = proxy.wait_for(lambda each: "to attach to it" in each["text"])["text"]
        [line] = hinted(told, hints.ENTER)
        assert line == f"dkdbg attach docker://{name} --pid {python_in(name)}"
        assert proxy.end() == 0
    with typed_proxy(tmp_path, line) as proxy:
        seen.append(stops(tmp_path, proxy)[0])
        assert proxy.end() == 0
    with entering(tmp_path, name) as proxy:
        seen += [stops(tmp_path, proxy)[0] for _ in range(2)]
        entry = proxy.wait("entry")["entry"]
        assert entry["pathMappings"] == [{"localRoot": "${workspaceFolder}", "remoteRoot": "/code"}]
        assert proxy.end() == 0
    after = steps(name)
    wait_for(lambda: steps(name) > after, bool)
    assert seen == sorted(set(seen))
    wait_for(lambda: "agent" not in docker("top", name), bool)


def test_an_older_python_is_entered_by_ptrace_as_its_user_by_any_of_its_pids(running, tmp_path, base_image):
    """No system call of it is cut short."""
    words = ("setpriv", "--reuid", "1234", "--regid", "1234", "--clear-groups", "python3", "train.py")
    name = running(base_image, *words)
    with entering(tmp_path, name) as proxy:
        assert stops(tmp_path, proxy)[1] == "1234"
        assert docker("exec", name, "stat", "-c", "%u %a", "/tmp/dkdbg-1234") == "1234 700"
        assert proxy.end() == 0
    after = steps(name)
    wait_for(lambda: steps(name) > after, bool)

    def refused(*words):
        done = dkdbg(tmp_path, "attach", *words)
        assert done.returncode, done.stdout
        return done.stderr

    assert "no running container dkdbg-test-none" in refused("docker://dkdbg-test-none", "--pid", "7")
    assert "dkdbg attach docker://NAME --pid 7" in refused(
        f"docker://{name}", "local:", "--pid", python_in(name)
    )
    line = f"dkdbg attach docker://{name}"
    assert line in refused(f"docker://{name}", "--pid", "99999")
    with typed_proxy(tmp_path, line) as proxy:
        proxy.wait_for(lambda each: f"{line} --pid {python_in(name)}" in each["text"])
        assert proxy.end() == 0


def test_each_command_of_the_page_about_containers_that_run_already(running, tmp_path, base_image):
    name = running(base_image, "python3", "train.py")
    served = Path(find_spec("debugpy").origin).parent
    mount = f"type=bind,source={served},target=/site/debugpy,readonly"
    served_at = ("--mount", mount, "-e", "PYTHONPATH=/site")
    words = ("python3", "-m", "debugpy", "--listen", "0.0.0.0:5678", "train.py")
    plain = running(base_image, *words, options=(*served_at, "-p", "127.0.0.1:0:5678"))
    endpoint = docker("port", plain, "5678")
    file = DOCS / "how-to/existing-container.md"
    text = file.read_text().replace("docker://trainer", f"docker://{name}")
    text = text.replace("--pid 7", f"--pid {python_in(name)}")
    page = Page.read(file, text.replace("127.0.0.1:5678", endpoint))

    def attach():
        shell, flag, command = page.words("dkdbg attach")
        return proxy_of([shell, flag, f"{command} --json --port {free_port()}"], tmp_path, environment())

    with page.all_run():
        with attach() as proxy:
            proxy.wait_for(lambda each: page.commands[1] in each["text"])
        with attach() as proxy:
            assert stops(tmp_path, proxy)[0] > 0
        after = steps(name)
        wait_for(lambda: steps(name) > after, bool)
        assert must(page.run("dkdbg run --on", cwd=tmp_path)).stdout == "from inside\n"
        with attach() as proxy:
            for _ in range(2):  # its port survives who comes and goes
                assert stops(tmp_path, proxy)[0] > 0


@pytest.fixture
def network():
    name = unique("dkdbg-test-again")
    docker("network", "create", name)
    yield name
    docker("network", "rm", name, check=False)


def test_the_line_told_where_nobody_may_enter_makes_a_copy_that_stops(network, running, tmp_path, base_image):
    """Everything but its seccomp profile; no value of the environment is shown."""
    secret, app = "pass word$x'\"", free_port()
    options = (
        *without_ptrace(tmp_path), "-e", f"SECRET={secret}", "-e", "LINES=a\nSECRET=b", "-e", "PYTHONPATH=/x",
        "--network", network, "--network-alias", "trainer", "--publish", f"127.0.0.1:{app}:80", "--volume", "/data",
        "--tmpfs", "/scratch:size=1m", "--shm-size", "100m", "--ulimit", "nofile=1000:2000", "--hostname", "box",
        "--cap-add", "SYS_NICE", "--add-host", "elsewhere:192.0.2.1", "--user", "1234:1234",
    )  # fmt: skip
    name = running(base_image, "python3", "train.py", "two words", options=options)
    new = f"{name}-dkdbg"
    done = dkdbg(tmp_path, "attach", f"docker://{name}", "--pid", python_in(name))
    assert done.returncode == 1, done.stdout
    assert f"{name} cannot be attached to: " in done.stderr
    assert "forbids attaching to it" in done.stderr
    assert "pass word" not in done.stdout + done.stderr
    assert "without LINES, whose values have several lines" in done.stderr
    line, port = done.stderr.splitlines()[-1].strip(), free_port()
    program = f"{shlex.quote(sys.executable)} -m dkdbg"
    line = line.replace("{ dkdbg run ", f"{{ {program} run ").replace(" --attach ", f" --attach {port} ")
    log = (tmp_path / "again.log").open("w+")
    started = subprocess.Popen(
        ["sh", "-c", line], cwd=tmp_path, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
        env={**os.environ, "LINES": "not theirs"},
    )  # fmt: skip
    try:
        wait_for(lambda: is_open(port) or started.poll() is not None, bool)
        assert started.poll() is None, (tmp_path / "again.log").read_text()
        with stopped_in(tmp_path / "train.py", at(port, tmp_path, "/code"), 3) as (debugger, stop):
            top = debugger.stack(stop)[0]
            assert (top.path, top.line) == (str(tmp_path / "train.py"), 3)
            assert debugger.evaluate("n", top) == "1"  # from its start
            seen = "(os := __import__('os')) and (os.environ['SECRET'], os.environ.get('LINES'), os.getuid())"
            assert debugger.evaluate(seen, top) == repr((secret, None, 1234))
        former, now = (json.loads(docker("inspect", each))[0] for each in (name, new))
        assert not former["State"]["Running"]
        told = ("Binds", "Mounts", "VolumesFrom", "SecurityOpt")
        for key in former["HostConfig"]:
            assert key in told or now["HostConfig"][key] == former["HostConfig"][key], key
        for key in ("User", "WorkingDir", "Hostname", "Image"):
            assert now["Config"][key] == former["Config"][key]
        mounts = [{(each["Destination"], each["Source"], each["RW"]) for each in one["Mounts"]} for one in (former, now)]  # fmt: skip
        assert mounts[0] == mounts[1]
        assert line.endswith(f"docker rm --force {new}; }}")
        docker("exec", new, "sh", "-c", f"kill {python_in(new)}")
        assert started.wait(300) is not None
        assert new not in docker("ps", "--all", "--format", "{{.Names}}").split()
        assert "pass word" not in (tmp_path / "again.log").read_text()
    finally:
        started.kill()
        started.wait()
        log.close()
        docker("rm", "--force", "--volumes", new, check=False)


def test_where_the_program_says_no_the_reason_and_another_way_are_told(running, tmp_path):
    name = running(newest_image(), "python3.14", "train.py", options=("-e", "PYTHON_DISABLE_REMOTE_DEBUG=1"))
    done = dkdbg(tmp_path, "attach", f"docker://{name}", "--pid", python_in(name))
    assert done.returncode == 1, done.stdout + done.stderr
    assert f"{name} cannot be attached to: " in done.stderr
    assert "PYTHON_DISABLE_REMOTE_DEBUG" in done.stderr
    [line] = hinted(done.stderr, hints.RUN_AGAIN)
    assert line.startswith(f"dkdbg run --on docker://{name} --wait --attach -- python3")
    with typed_run(tmp_path, line) as port:
        assert stops(tmp_path, port)[0] == 1  # from its start


def test_processes_that_a_container_makes_up_are_no_pids_no_users_and_no_programs():
    made_up = [
        "7\t1\t\t/usr/bin/python3\tpython3\ttrain.py\t",
        "8\t7\t\t/usr/bin/python3\tpython3\t-c\tfrom multiprocessing.spawn import spawn_main\t",
        "9\t9\t\t/usr/bin/python3\tits own parent\t",
        "10\t11\t\t/usr/bin/python3\ta\t",
        "11\t10\t\t/usr/bin/python3\tb\t",
        "12\t1\t0:0 --privileged\t/usr/bin/python3\tpython3\t",
        "13\t1\t-u\t/usr/bin/python3\tpython3\t",
        "-1\t1\t\t/usr/bin/python3\tpython3\t",
        "14\t٣\t\t/usr/bin/python3\tpython3\t",
    ]
    found = pythons_in("\n".join(made_up))
    assert [each.pid for each in found] == [7, 8, 9, 10, 11]
    assert [[each.pid for each in program] for program in programs_of(found)] == [[7, 8]]
