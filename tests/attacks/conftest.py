"""The attackers: another user of the machine, a neighbour container, a web page in a browser."""

import contextlib
import http.server
import os
import pwd
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

# What runs the agent under attack.
from tests.agent.conftest import launch, layout, runtime  # noqa: F401
from tests.commands import command
from tests.needs import browser, give_up

#: Seconds that a page has to say that it is done: a browser takes some to start beside other tests.
PAGE_LIMIT = 300
#: The origin of the attacker's page, a name that the browser resolves to this machine: no rule of a browser about
#: private networks stands before it, as none does for a page that dns rebinding has moved here.
EVIL = "attacker.test"


#: What an attacker's program has to speak with a debugger: requests, an attach, and what a port answers: up to a text, its
#: end or an error.
FRAME = """
import json, socket, struct, sys, time
def frame(**message):
    body = json.dumps(dict(message, type="request")).encode()
    return b"Content-Length: %d\\r\\n\\r\\n" % len(body) + body
def attach(**arguments):
    first = frame(seq=1, command="initialize", arguments={"adapterID": "debugpy"})
    return first + frame(seq=2, command="attach", arguments=arguments)
def ask(port, data, until=None, host="127.0.0.1", timeout=300, ends=False):
    said = b""
    try:
        with socket.create_connection((host, int(port)), timeout) as sock:
            sock.sendall(data)
            if ends:
                sock.shutdown(socket.SHUT_WR)
            while (until is None or until not in said) and (more := sock.recv(65536)):
                said += more
    except OSError as error:
        said += repr(error).encode()
    return said
"""


class OtherUser:
    """A real user of this machine, who is neither root nor the one that runs dkdbg."""

    def __init__(self, name: str) -> None:
        found = pwd.getpwnam(name)
        self.name, self.uid, self.gid, self.home = name, found.pw_uid, found.pw_gid, Path(found.pw_dir)

    def run(
        self, argv: list[str], timeout: float = 300, text: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            argv, **self.popen(), input=text, capture_output=True, timeout=timeout, text=True, check=False
        )

    def python(self, code: str, *arguments: str, timeout: float = 300) -> subprocess.CompletedProcess[str]:
        """Run a program of his, which begins with FRAME."""
        return self.run([self.interpreter(), "-c", FRAME + code, *arguments], timeout=timeout)

    @contextlib.contextmanager
    def begun(self, code: str, *arguments: str, **environment: str) -> Iterator[subprocess.Popen[str]]:
        """Such a program that runs meanwhile, with pipes for its input and output; it is killed at the end."""
        settings = self.popen()
        settings["env"] |= environment
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        with subprocess.Popen(
            [self.interpreter(), "-c", FRAME + code, *arguments], **pipes, **settings
        ) as process:
            try:
                yield process
            finally:
                process.kill()

    def popen(self) -> dict[str, Any]:
        """What makes subprocess start a process as this user."""
        environment = {"HOME": str(self.home), "PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
        return {"user": self.uid, "group": self.gid, "extra_groups": [], "cwd": "/", "env": environment}

    def interpreter(self) -> str:
        """A Python that this user may run: that of the tests may lie in a home that is closed to him."""
        for path in (os.path.realpath(sys.executable), "/usr/bin/python3", "/usr/local/bin/python3"):
            with contextlib.suppress(OSError):
                if self.run([path, "-c", ""]).returncode == 0:
                    return path
        pytest.fail("no Python that another user may run: apt-get install python3", pytrace=False)


@pytest.fixture(scope="session")
def other_user(worker_id):
    """Another user, made for these tests and removed afterwards."""
    if os.geteuid() != 0 or shutil.which("useradd") is None:
        if os.geteuid() == 0:
            give_up("no useradd on this machine")
        pytest.skip("only root makes users")
    name = f"dkdbg-other-{worker_id}-{os.getpid()}"  # tests of another checkout run beside these
    _change_users("useradd", "--create-home", "--shell", "/bin/sh", name)
    try:
        yield OtherUser(name)
    finally:
        _change_users("userdel", "--remove", name)


def _change_users(*words: str) -> None:
    """Make a user or take one away: one process of tests at a time holds the lock of the files, or the user ends."""
    end = time.monotonic() + 120
    while subprocess.run(words, check=False, capture_output=True).returncode in (1, 8, 10):
        if time.monotonic() > end:  # the first test that needs the user says so
            break
        time.sleep(0.1)


@pytest.fixture
def neighbour(base_image):
    """Run a program that begins with FRAME in a container beside others on a Docker network; for tests marked `engine`."""

    def run(network, code):
        words = ["docker", "run", "--rm", "-i", "--network", network, base_image, "python3", "-"]
        return command(words, text=FRAME + code, check=False)

    return run


@pytest.fixture
def good(launch, tmp_path):  # noqa: F811
    """The address of an honest agent, whose train.py runs a loop."""
    (tmp_path / "train.py").write_text("import time\nn = 0\nwhile True:\n    n += 1\n    time.sleep(0.02)\n")
    return f"127.0.0.1:{launch(sys.executable, 'train.py').wait_state('running')['port']}"


@pytest.fixture(scope="session")
def chromium():
    return browser()


@pytest.fixture
def browse(chromium, tmp_path):
    """Open a page of a foreign origin in a real browser.

    `browse(html, extra_args=[])` returns the page's DOM as soon as its script has called `done()`. `location.host` in the
    page is attacker.test with a port, which is this machine.
    """

    def run(html, extra_args=None):
        with _Page(html) as page:
            command = [
                chromium, "--headless=new", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--no-proxy-server",
                "--disable-background-networking", "--disable-component-update", f"--user-data-dir={tmp_path / 'browser'}",
                f"--host-resolver-rules=MAP *.test 127.0.0.1, MAP {EVIL} 127.0.0.1",
                *(["--no-sandbox"] if os.geteuid() == 0 else []), *(extra_args or []), f"http://{EVIL}:{page.port}/",
            ]  # fmt: skip
            log = tmp_path / "browser.log"
            with (
                log.open("wb") as out,
                subprocess.Popen(command, stdout=out, stderr=out, start_new_session=True) as browser,
            ):
                try:
                    assert page.done.wait(PAGE_LIMIT), (
                        f"the page never said that it is done: {log.read_text()[-800:]}"
                    )
                finally:
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(browser.pid, 9)
            return page.dom

    return run


class _Page:
    """Serves one page, and takes its DOM when it is done."""

    DONE = """<script>
    const done = () => fetch("/dom", {method: "POST", body: document.documentElement.outerHTML});
    </script>"""

    def __init__(self, html: str) -> None:
        self.done = threading.Event()
        self.dom = ""
        page = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                body = ("<!doctype html><title></title>" + page.DONE + html).encode()
                found = urlsplit(self.path).path == "/"
                self.send_response(200 if found else 404)
                self.send_header("Content-Type", "text/html; charset=utf-8")
                self.send_header("Content-Length", str(len(body) if found else 0))
                self.end_headers()
                if found:
                    self.wfile.write(body)

            def do_POST(self):
                page.dom = self.rfile.read(int(self.headers["Content-Length"])).decode()
                self.send_response(204)
                self.end_headers()
                page.done.set()

            def log_message(self, *_):
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]

    def __enter__(self):
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
