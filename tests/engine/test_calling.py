"""A job that may only connect out reaches a waiting `dkdbg attach --listen`."""

import json
import secrets
import textwrap
import time

import pytest

from dkdbg.dap.debugger import Debugger
from tests.attacks import listening
from tests.engine.attach_proxies import Containers, attach_proxy, docker, lay_out
from tests.engine.projects import LOOP, MARK, dkdbg
from tests.engine.weather import line_to
from tests.ports import free_port

pytestmark = pytest.mark.engine

#: Seconds: a call that was cut is noticed after some, and made again.
LIMIT = 300.0


def test_a_job_that_only_connects_out_is_debugged_over_two_cuts(tmp_path, base_image, monkeypatch):
    """Its agent listens on the container's own loopback and no port is published: nobody can come to it.

    The first cut is seen by both ends at once; in the second nothing passes any more, and neither is told.
    """
    token = secrets.token_hex(32)
    monkeypatch.setenv("DKDBG_TOKEN", token)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    root = lay_out(tmp_path, train=textwrap.dedent(LOOP))
    (root / "token").write_text(token)
    (root / "token").chmod(0o600)
    jobs = Containers(root, base_image)
    port = free_port()
    try:
        with attach_proxy(root, options=("--listen", f"127.0.0.1:{port}")) as proxy, line_to(port) as line:
            fingerprint = proxy.wait("calls")["connect"].partition("#")[2]
            name = jobs.run(
                "python3", "train.py", publish=False, DKDBG_HOST="127.0.0.1", DKDBG_WAIT="600",
                DKDBG_CONNECT=f"{line.address}#{fingerprint}", DKDBG_TOKEN_FILE="/w/token",
            )  # fmt: skip
            proxy.wait("called", timeout=LIMIT, target=name)
            marked = next(n for n, text in enumerate(LOOP.splitlines(), 1) if MARK in text)
            with Debugger(jobs.options(proxy.port)) as debugger:
                debugger.set_breakpoints(str(root / "train.py"), [marked], timeout=LIMIT)
                debugger.attach(timeout=LIMIT)
                count = -1
                for weather in (None, line.cut, line.silence, None):
                    thread = debugger.wait_stopped(LIMIT)
                    frame = debugger.stack(thread, timeout=LIMIT)[0]
                    count += 1
                    assert (
                        int(debugger.local_values(frame, timeout=LIMIT)["n"]) == count
                    )  # no round was missed, none was done twice
                    if weather is not None:
                        weather()
                    if weather == line.cut:
                        _is_asked_by_other_verbs(root, name, proxy.port)
                    debugger.continue_(thread, timeout=LIMIT)
                debugger.wait_stopped(LIMIT)
                there = docker("top", name, "-eo", "pid,args").encode()
                said = [*listening.command_lines(proxy.process.pid), there]
            log = docker("logs", name)
            assert proxy.end() == 0
            for text in (*said, log.encode(), json.dumps(proxy.events).encode(), bytes(line.heard)):
                assert token.encode() not in text
            assert b"loss" not in line.heard  # what a debugger shows is nobody else's

    finally:
        jobs.remove()
    asked = dkdbg(root, "where", f"call://{name}")
    assert asked.returncode == 1
    assert f"call://{name}" in asked.stderr
    assert "hint: " in asked.stderr


def _is_asked_by_other_verbs(root, name, port):
    """What `ps`, `where` and `ranks` ask passes over the line of the `dkdbg attach`, here over one that was just cut."""
    job = f"call://{name}"
    session = _said(root, job, "ps", "--json", job)["sessions"][0]
    assert (session["address"], session["endpoint"], session["client"]) == (job, f"127.0.0.1:{port}", True)
    assert job in {each["address"] for each in _said(root, job, "ps", "--json")["sessions"]}
    assert "train.py" in json.dumps(_said(root, job, "where", "--json", job)["jobs"][0])
    row = _said(root, job, "ranks", "--on", job, "--json", "eval", "n + 1000")["rows"][0]
    assert (row["state"], row["text"]) == ("value", "1001")
    refused = dkdbg(root, "restart", job)
    assert refused.returncode == 2
    assert "cannot run commands" in refused.stderr


def _said(root, job, *words):
    """What a verb answers, once the line is there again after the cut."""
    end = time.monotonic() + LIMIT
    while (done := dkdbg(root, *words)).returncode or not _is_answered(
        words[0], json.loads(done.stdout), job
    ):
        assert time.monotonic() < end, (words, done.stdout, done.stderr)
        time.sleep(0.1)
    return json.loads(done.stdout)


def _is_answered(verb, said, job):
    if verb == "ps":
        return any(each["address"] == job and each["state"] != "unreadable" for each in said["sessions"])
    return verb != "where" or "train.py" in json.dumps(said["jobs"][:1])  # it may answer late
