"""The verbs that people reach for first, in one repository with a server: `dkdbg`, `up`, `logs`, `run -- pytest ...`."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request

import pytest

from dkdbg.dap.debugger import Debugger
from tests.engine.projects import dkdbg, launch_options, must, repo, take_away, unique
from tests.ports import free_port

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("verbs")]

SERVER = """\
    import http.server
    import sys

    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            print("asked for", self.path, flush=True)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"hello")

        def log_message(self, *_):
            pass

    print("serving on", sys.argv[1], flush=True)
    http.server.ThreadingHTTPServer(("0.0.0.0", int(sys.argv[1])), Page).serve_forever()
    """
TESTS = """\
    import unittest

    class Sums(unittest.TestCase):
        def test_one(self):
            total = 1 + 1
            self.assertEqual(total, 2)  # breakpoint

        def test_other(self):
            self.fail("nobody has asked for this one")
    """
LIMIT = 300
WAITS = """\
    import time

    try:
        print("up", flush=True)
        time.sleep(600)
    except KeyboardInterrupt:
        raise SystemExit(9)
    """


@pytest.fixture(scope="module")
def shop(base_image, tmp_path_factory):
    """A repository with a service of its own that publishes its port, set up by `init`."""
    compose = (
        f"services:\n  web:\n    image: {base_image}\n    working_dir: /workspace\n    volumes: ['.:/workspace']\n"
        "    entrypoint: [python3]\n    command: [server.py, '8000']\n    ports: ['8000:8000']\n"
    )
    root = repo(
        tmp_path_factory.mktemp("verbs") / unique("shop"),
        {
            "server.py": SERVER,
            "test_sums.py": TESTS,
            "waits.py": WAITS,
            "compose.yaml": compose,
            ".gitignore": "__pycache__/\n",
        },
    )
    (root / ".env").write_text(f"DKDBG_APP_PORT_8000={free_port()}\nDKDBG_PORT={free_port()}\n")
    must(dkdbg(root, "init", "--yes"))
    subprocess.run(["git", "add", "--all"], cwd=root, check=True)
    yield root
    take_away(root, dict(os.environ))


@pytest.fixture(scope="module")
def running(shop):
    """What `dkdbg up --sync` says."""
    return must(dkdbg(shop, "up", "--sync")).stdout


def answer(link):
    """What the server says, once it listens: the service is ready before its program is."""
    end = time.monotonic() + LIMIT
    while True:
        try:
            with urllib.request.urlopen(link, timeout=LIMIT) as said:
                return said.read()
        except OSError:  # noqa: PERF203
            if time.monotonic() > end:
                raise
            time.sleep(0.1)


def test_up_shows_the_programs_own_port_as_a_link_that_answers(shop, running):
    link = re.search(r"(http://127\.0\.0\.1:\d+) is port 8000 of your program", running)[1]
    assert answer(f"{link}/shown") == b"hello"
    assert "dkdbg logs -f" in running
    assert "nothing to sync: the workspace is mounted" in running
    alone = must(dkdbg(shop)).stdout
    assert "set up  web-debug in compose.override.yaml" in alone
    assert "press F5 to attach to web-debug" in alone


def test_logs_shows_what_was_printed_and_follows_what_comes(shop, running):
    link = re.search(r"http://127\.0\.0\.1:\d+", running)[0]
    answer(link)
    end = time.monotonic() + LIMIT
    while "serving on 8000\n" not in (logs := must(dkdbg(shop, "logs")).stdout):
        assert time.monotonic() < end, logs
    assert must(dkdbg(shop, "logs", "--tail", "0")).stdout == ""
    following = subprocess.Popen(
        [sys.executable, "-m", "dkdbg", "logs", "-f", "--tail", "0"], cwd=shop, stdout=subprocess.PIPE
    )
    try:
        end, line = time.monotonic() + LIMIT, b""
        os.set_blocking(following.stdout.fileno(), False)
        while b"asked for /later" not in line:  # asked again: the engine may not be following yet
            assert time.monotonic() < end, line
            urllib.request.urlopen(f"{link}/later", timeout=LIMIT).close()
            time.sleep(0.1)
            line += following.stdout.read() or b""
    finally:
        following.kill()
        following.wait()


@pytest.fixture
def another(tmp_path, monkeypatch):
    """A session of this machine, which no repository knows."""
    monkeypatch.setenv("DKDBG_RUNTIME_DIR", str(tmp_path / "run"))
    words = ["launch", "--port", "0", "--name", "another", "--", sys.executable, "-c", "input()"]
    program = subprocess.Popen(
        [sys.executable, "-m", "dkdbg.agent", *words],
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    end = time.monotonic() + LIMIT
    while "another" not in must(dkdbg(tmp_path, "ps")).stdout:
        assert time.monotonic() < end, "the session is not there"
        time.sleep(0.1)
    yield
    program.communicate(b"\n", timeout=LIMIT)


@pytest.mark.usefixtures("running", "another")
def test_ranks_asks_the_debug_service_of_this_repository_whatever_else_runs(shop, tmp_path):
    done = must(dkdbg(shop, "ranks", "eval", "6 * 7"))
    assert "42" in done.stdout
    elsewhere = dkdbg(tmp_path, "ranks", "stack")
    assert elsewhere.returncode == 2, elsewhere.stderr
    assert re.search(r"hint: name one: dkdbg ranks --on \S+ stack\n$", elsewhere.stderr), elsewhere.stderr


@pytest.mark.usefixtures("running", "another")
def test_pdb_enters_the_debug_service_of_this_repository_whatever_else_runs(shop):
    done = subprocess.run(
        [sys.executable, "-m", "dkdbg", "pdb"], cwd=shop, input="p 6 * 7\nq\n", capture_output=True, text=True, check=False,
        timeout=300,
    )  # fmt: skip
    assert (done.returncode, "42" in done.stdout) == (0, True), done.stderr


def test_another_command_runs_in_the_service_while_it_runs(shop):
    ran = dkdbg(shop, "run", "--", "-m", "unittest", "test_sums")
    assert (ran.returncode, "FAILED (failures=1)" in ran.stderr) == (1, True), ran.stderr
    assert "in the service web-debug" in ran.stderr
    assert "attach with: dkdbg attach 127.0.0.1:" in ran.stderr  # the service has the usual port
    status = subprocess.run(
        ["git", "status", "--porcelain"], cwd=shop, check=True, capture_output=True, text=True
    )
    assert {line[:2] for line in status.stdout.splitlines()} == {"A "}, status.stdout  # all as it was added
    assert "web-debug" in must(dkdbg(shop, "ps")).stdout


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 9), (signal.SIGTERM, 143)])
def test_a_signal_is_for_the_command_in_the_service_and_no_container_stays(shop, number, code):
    """Of a script that runs it: compose would leave the container with its debug port."""
    ran = subprocess.Popen(
        [sys.executable, "-m", "dkdbg", "run", "--wait", "0", "--", "waits.py"],
        cwd=shop, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert ran.stdout.readline() == "up\n"
        ran.send_signal(number)
        _, said = ran.communicate(timeout=LIMIT)
        assert ran.returncode == code, said
    finally:
        ran.kill()
        ran.wait()
    left = must_run(
        ["docker", "ps", "--all", "--format", "{{.Names}}", "--filter", f"name={shop.name}-web-debug-run-"]
    )
    assert left == ""


def must_run(words):
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def test_f5_stops_in_the_test_that_run_has_started(shop):
    must(dkdbg(shop, "down"))
    nothing = dkdbg(shop, "logs")
    assert (nothing.returncode, "web-debug does not run" in nothing.stderr) == (1, True)
    running = subprocess.Popen(
        [sys.executable, "-m", "dkdbg", "run", "--wait", str(LIMIT), "--", "-m", "unittest", "test_sums.Sums.test_one"],
        cwd=shop, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        said = ""
        for line in running.stderr:
            said += line
            if "a debugger" in line:
                break
        assert "press F5 to attach to it" in said
        f5 = subprocess.run(
            ["sh", ".dkdbg/up.sh"], cwd=shop, capture_output=True, text=True, timeout=LIMIT, check=False
        )
        assert (f5.returncode, "what dkdbg run has started" in f5.stdout) == (0, True), f5.stdout + f5.stderr
        lines = (shop / "test_sums.py").read_text().splitlines()
        at = next(number for number, line in enumerate(lines, 1) if "# breakpoint" in line)
        with Debugger(launch_options(shop)) as debugger:
            debugger.set_breakpoints(str(shop / "test_sums.py"), [at])
            debugger.attach()
            top = debugger.stack(debugger.wait_stopped(LIMIT))[0]
            assert (top.name, debugger.local_values(top)["total"]) == ("test_one", "2")
        rest = running.communicate(timeout=LIMIT)[1]
        assert (running.returncode, "OK" in rest) == (0, True), said + rest
    finally:
        running.kill()
        running.wait()


def test_a_start_with_a_port_of_the_program_taken_says_which_variable_moves_it(base_image, tmp_path):
    compose = (
        f"services:\n  web:\n    image: {base_image}\n    working_dir: /workspace\n    volumes: ['.:/workspace']\n"
        "    entrypoint: [python3]\n    command: [server.py, '8000']\n    ports: ['8000:8000']\n"
    )
    root = repo(tmp_path / unique("taken"), {"server.py": SERVER, "compose.yaml": compose})
    taken, free = free_port(), free_port()
    (root / ".env").write_text(f"DKDBG_APP_PORT_8000={taken}\nDKDBG_PORT={free_port()}\n")
    must(dkdbg(root, "init", "--yes"))
    said = r"for port 8000 of the program, write a free one into \.env, such as (DKDBG_APP_PORT_8000)=\d+"
    try:
        for argv in (["sh", ".dkdbg/up.sh"], [sys.executable, "-m", "dkdbg", "up"]):
            with socket.create_server(("127.0.0.1", taken)):
                done = subprocess.run(
                    argv, cwd=root, capture_output=True, text=True, check=False, timeout=LIMIT
                )
            assert done.returncode != 0
            hint = re.search(said, done.stdout + done.stderr)
            assert hint, done.stdout + done.stderr
        with (root / ".env").open("a") as env:
            env.write(f"{hint[1]}={free}\n")
        must(subprocess.run(argv, cwd=root, capture_output=True, text=True, check=False, timeout=LIMIT))
        assert answer(f"http://127.0.0.1:{free}/") == b"hello"
    finally:
        take_away(root, dict(os.environ))
