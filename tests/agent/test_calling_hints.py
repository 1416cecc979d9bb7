"""A job that calls a waiting `dkdbg attach --listen` is refused, or connected and asked: all on this machine."""

import os
import secrets
import select
import socket
import sys
import time
from pathlib import Path

import pytest

from dkdbg.dap.debugger import Debugger
from dkdbg.dap.values import AttachOptions
from dkdbg.targets.reverse import certificate
from tests.agent.conftest import Launch
from tests.agent.dap_probe import Editor, wait_for
from tests.engine.attach_proxies import typed_proxy
from tests.engine.projects import dkdbg, must
from tests.hints import in_shell
from tests.ports import free_port
from tests.typed import typed

#: It is in the function at each moment that somebody looks.
TRAIN = "import time\n\ndef step():\n    while True:\n        time.sleep(0.02)\n\nstep()\n"


def token_of(root: Path) -> Path:
    return root / "con fig" / "dkdbg" / "token"


def fingerprint(root: Path) -> str:
    return certificate.load(token_of(root).with_name("listen.pem")).fingerprint


@pytest.fixture
def root(tmp_path, runtime, monkeypatch):
    """A repository; the user has a token, and nothing else of this user's runs."""
    monkeypatch.setenv("DKDBG_RUNTIME_DIR", str(runtime))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "con fig"))
    token_of(tmp_path).parent.mkdir(parents=True)
    token_of(tmp_path).write_text(secrets.token_hex(32))
    token_of(tmp_path).chmod(0o600)
    (tmp_path / "train.py").write_text(TRAIN)
    return tmp_path


@pytest.fixture
def job(launch, root):
    def start(port, **env):
        told = {
            "DKDBG_CONNECT": f"127.0.0.1:{port}#sha256:{fingerprint(root)}",
            "DKDBG_TOKEN_FILE": str(token_of(root)),
        }
        started: Launch = launch(sys.executable, "train.py", env=told | env)
        return started

    return start


def log_until(running: Launch, mark: str) -> str:
    said, end = b"", time.monotonic() + 300
    arrived = select.poll()  # not select.select: the tests of one process may have more than 1,024 files open
    arrived.register(running.process.stderr, select.POLLIN)
    while mark.encode() not in said:
        assert arrived.poll(1000 * max(0, end - time.monotonic())), said
        data = os.read(running.process.stderr.fileno(), 1 << 16)
        assert data, said
        said += data
    return said.decode()


# --- in the job


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"DKDBG_CONNECT": each}, "HOST:PORT#sha256:... of a dkdbg attach --listen")
        for each in ("nowhere", "host:port", ":5670")
    ]
    + [({"DKDBG_CONNECT": "host:5670"}, "DKDBG_CONNECT=host:5670#sha256:...")]
    + [({"DKDBG_TOKEN_FILE": "", "DKDBG_TOKEN": short}, "DKDBG_TOKEN") for short in ("", "hunter2")],
)
def test_a_job_that_names_no_port_or_certificate_or_has_no_token_of_an_attach_is_refused(job, wrong, said):
    code, _, err = job(free_port(), **wrong).finish()
    assert (bool(code), said in err) == (True, True), err


def test_a_port_that_others_reach_is_opened_with_a_secret_or_on_loopback(root, launch):
    """As in a pod, whose address the whole cluster reaches. Who comes by `kubectl port-forward` comes to loopback."""
    pod = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "DKDBG_TOKEN_FILE": ""}
    code, _, said = launch(sys.executable, "train.py", env=pod | {"DKDBG_HOST": "0.0.0.0"}).finish()
    assert code
    assert "DKDBG_TOKEN" in said
    lines = {str(root / "train.py"): [5]}
    for env, token in (
        ({"DKDBG_HOST": "0.0.0.0", "DKDBG_TOKEN": "x" * 32}, "x" * 32),
        ({"DKDBG_HOST": "127.0.0.1"}, ""),
    ):
        running = launch(sys.executable, "train.py", wait="300", env=pod | env)
        with Editor(running.wait_state("waiting")["port"], lines, token=token) as editor:
            assert editor.wait_stops(1)[0]["line"] == 5


# --- `dkdbg attach --listen`


def test_a_port_that_somebody_has_is_not_listened_at(root):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        refused = dkdbg(root, "attach", "--listen", f"127.0.0.1:{taken.getsockname()[1]}")
    assert (refused.returncode, "cannot listen on 127.0.0.1:" in refused.stderr) == (4, True), refused.stderr


def test_a_short_or_open_token_makes_way_for_one_that_is_made(root, monkeypatch):
    token_of(root).unlink()
    waits = f"dkdbg attach --listen 127.0.0.1:{free_port()}"
    for token, what in (("", "is empty"), ("hunter2", "has 7 characters")):
        monkeypatch.setenv("DKDBG_TOKEN", token)
        said = in_shell(root, waits).stderr
        assert f"the token (DKDBG_TOKEN) {what}, " in said
        assert "unset DKDBG_TOKEN, and dkdbg creates one; " in said
    monkeypatch.delenv("DKDBG_TOKEN")
    token_of(root).write_text("abc\n")
    for mode, what in ((0o644, "other users can read your token"), (0o600, "has 3 characters")):
        token_of(root).chmod(mode)
        said = in_shell(root, waits).stderr
        assert what in said
        assert f"rm '{token_of(root)}', " in said
    token_of(root).unlink()
    with typed(root, f"{waits} --port {free_port()}", root / "log") as attach:
        attach.wait("created a token: ", "created a key and its certificate: ", "#sha256:")


def test_a_token_that_could_be_guessed_makes_way_for_a_random_one(root):
    attaches = f"dkdbg attach local:job --port {free_port()}"
    with typed(root, attaches, root / "first", {"DKDBG_TOKEN": "hunter2"}) as attach:
        assert "openssl rand -hex 32" in attach.wait("attach your editor to")
    with typed(root, attaches, root / "second", {"DKDBG_TOKEN": secrets.token_hex(32)}) as attach:
        assert "characters" not in attach.wait("attach your editor to")


# --- a job that has called


def test_a_job_that_nobody_waits_for_is_connected_once_somebody_does_and_asked_and_attached_to_as_it_says(
    root, job
):
    port = free_port()
    assert "dkdbg attach --listen 5670" in dkdbg(root, "where", "call://train").stderr
    running = job(port, DKDBG_TOKEN_FILE="", DKDBG_TOKEN=token_of(root).read_text())
    name = running.name
    assert "dkdbg attach --listen" in log_until(running, "retrying")
    with typed_proxy(root, f"dkdbg attach --listen 127.0.0.1:{port}") as proxy:
        assert proxy.wait("calls")["connect"] == f"127.0.0.1:{port}#sha256:{fingerprint(root)}"
        proxy.wait("called", target=name)
        said = dkdbg(root, "run", "--on", f"call://{name}", "--", "true").stderr
        assert f"dkdbg where call://{name}" in said
        assert "train.py" in where(root, f"dkdbg where call://{name}")
        assert "step" in must(dkdbg(root, "ranks", "stack", "--on", f"call://{name}")).stdout
        with typed(root, f"dkdbg attach call://{name} --port {free_port()}", root / "attach") as attach:
            said = attach.wait("that the job is connected to")
        told = int(said.partition(", the dkdbg attach")[0].rpartition(":")[2])
        with Debugger(AttachOptions(host="127.0.0.1", port=told)) as debugger:
            debugger.set_breakpoints(str(root / "train.py"), [5])
            debugger.attach()
            assert debugger.stack(debugger.wait_stopped(300))[0].name == "step"
        assert proxy.end() == 0


def where(root: Path, line: str) -> str:
    """What a `dkdbg where` shows that is typed until it finds the program: that begins a moment after its agent."""
    return wait_for(lambda: in_shell(root, line).stdout, lambda said: "train.py" in said)
