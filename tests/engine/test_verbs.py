"""The verbs that people reach for first, in one repository with a server: `dkdbg`, `up`, `logs`, `run -- pytest ...`."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request

import pytest

from tests.agent.dap_probe import wait_for
from tests.engine.attach_proxies import docker
from tests.engine.projects import command, dkdbg, must, project, started, stop_in, unique
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
    files = {"server.py": SERVER, "test_sums.py": TESTS, "waits.py": WAITS, "compose.yaml": compose}
    files[".env"] = f"DKDBG_APP_PORT_8000={free_port()}\nDKDBG_PORT={free_port()}\n"
    files[".gitignore"] = "__pycache__/\n"
    with project(tmp_path_factory.mktemp("verbs") / unique("shop"), files, "init", "--yes") as root:
        command(["git", "add", "--all"], root)
        yield root


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
    assert "set up  web-debug in .dkdbg/service.compose" in alone
    assert "press F5 to attach to web-debug" in alone


def test_logs_shows_what_was_printed_and_follows_what_comes(shop, running):
    link = re.search(r"http://127\.0\.0\.1:\d+", running)[0]
    answer(link)
    wait_for(lambda: must(dkdbg(shop, "logs")).stdout, lambda said: "serving on 8000\n" in said)
    assert must(dkdbg(shop, "logs", "--tail", "0")).stdout == ""
    with started(shop, "logs", "-f", "--tail", "0", text=False) as following:
        end, line = time.monotonic() + LIMIT, b""
        os.set_blocking(following.stdout.fileno(), False)
        while b"asked for /later" not in line:  # asked again: the engine may not be following yet
            assert time.monotonic() < end, line
            urllib.request.urlopen(f"{link}/later", timeout=LIMIT).close()
            time.sleep(0.1)
            line += following.stdout.read() or b""


@pytest.fixture
def another(tmp_path, monkeypatch):
    """A session of this machine, which no repository knows."""
    monkeypatch.setenv("DKDBG_RUNTIME_DIR", str(tmp_path / "run"))
    words = ["launch", "--port", "0", "--name", "another", "--", sys.executable, "-c", "input()"]
    argv = [sys.executable, "-m", "dkdbg.agent", *words]
    program = subprocess.Popen(argv, cwd=tmp_path, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
    wait_for(lambda: must(dkdbg(tmp_path, "ps")).stdout, lambda said: "another" in said)
    yield
    program.communicate(b"\n", timeout=LIMIT)


@pytest.mark.usefixtures("running", "another")
def test_ranks_and_pdb_ask_the_debug_service_of_this_repository_whatever_else_runs(shop, tmp_path):
    done = must(dkdbg(shop, "ranks", "eval", "6 * 7"))
    assert "42" in done.stdout
    elsewhere = dkdbg(tmp_path, "ranks", "stack")
    assert elsewhere.returncode == 2, elsewhere.stderr
    assert re.search(r"hint: name one: dkdbg ranks --on \S+ stack\n$", elsewhere.stderr), elsewhere.stderr
    assert "42" in must(dkdbg(shop, "pdb", text="p 6 * 7\nq\n")).stdout


def test_another_command_runs_in_the_service_while_it_runs(shop):
    ran = dkdbg(shop, "run", "--", "-m", "unittest", "test_sums")
    assert (ran.returncode, "FAILED (failures=1)" in ran.stderr) == (1, True), ran.stderr
    assert "in the service web-debug" in ran.stderr
    assert "attach with: dkdbg attach 127.0.0.1:" in ran.stderr  # the service has the usual port
    status = command(["git", "status", "--porcelain"], shop)
    assert {line[:2] for line in status.stdout.splitlines()} == {"A "}, status.stdout  # all as it was added
    assert "web-debug" in must(dkdbg(shop, "ps")).stdout


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 9), (signal.SIGTERM, 143)])
def test_a_signal_is_for_the_command_in_the_service_and_no_container_stays(shop, number, code):
    """Of a script that runs it: compose would leave the container with its debug port."""
    with started(shop, "run", "--wait", "0", "--", "waits.py") as ran:
        assert ran.stdout.readline() == "up\n"
        ran.send_signal(number)
        _, said = ran.communicate(timeout=LIMIT)
        assert ran.returncode == code, said
    assert docker("ps", "--all", "--quiet", "--filter", f"name={shop.name}-web-debug-run-") == ""


def test_f5_stops_in_the_test_that_run_has_started(shop):
    must(dkdbg(shop, "down"))
    nothing = dkdbg(shop, "logs")
    assert (nothing.returncode, "web-debug is not running" in nothing.stderr) == (1, True)
    words = ("run", "--wait", str(LIMIT), "--", "-m", "unittest", "test_sums.Sums.test_one")
    with started(shop, *words, stdout=subprocess.DEVNULL) as running:
        said = ""
        for line in running.stderr:
            said += line
            if "a debugger" in line:
                break
        assert "press F5 to attach to it" in said
        assert "what dkdbg run has started" in command(["sh", ".dkdbg/up.sh"], shop).stdout
        stopped = stop_in(shop, "test_sums.py")
        assert (stopped.function, stopped.values["total"]) == ("test_one", "2")
        rest = running.communicate(timeout=LIMIT)[1]
        assert (running.returncode, "OK" in rest) == (0, True), said + rest


def test_a_start_with_a_port_of_the_program_taken_says_which_variable_moves_it(shop):
    must(dkdbg(shop, "down"))
    taken, free = int(re.search(r"8000=(\d+)", (shop / ".env").read_text())[1]), free_port()
    said = r"to publish port 8000 of the program, write a free port into \.env, such as (DKDBG_APP_PORT_8000)=\d+"
    for argv in (["sh", ".dkdbg/up.sh"], [sys.executable, "-m", "dkdbg", "up"]):
        with socket.create_server(("127.0.0.1", taken)):
            done = command(argv, shop, check=False)
        assert done.returncode != 0
        hint = re.search(said, done.stdout + done.stderr)
        assert hint, done.stdout + done.stderr
    with (shop / ".env").open("a") as env:
        env.write(f"{hint[1]}={free}\n")
    command(argv, shop)
    assert answer(f"http://127.0.0.1:{free}/") == b"hello"
