"""`pai://HOST/USER/JOB`: real tasks on this machine, told of by a stand-in for OpenPAI's server."""

import json
import re
import sys

import pytest

from dkdbg.dap.debugger import Debugger
from dkdbg.dap.values import AttachOptions
from dkdbg.main import main
from tests.agent.dap_probe import wait_for
from tests.agent.nc import Client
from tests.agent.test_pai import own_address
from tests.engine.attach_proxies import attach_proxy
from tests.openpai import protocol, rest
from tests.ports import free_port

LOOP = "import time\nn = 0\nwhile True:\n    n += 1\n    time.sleep(0.02)\n"


@pytest.fixture
def start(begin, tmp_path, layout):
    """Start a task of a job: on which node, at which port, and what paipdb is told."""
    (tmp_path / "train.py").write_text(LOOP)
    settings = {"PATH": "/usr/bin:/bin", "PYTHONPATH": f"{layout}/agent.pyz", "DKDBG_JOIN_DEADLINE": "60"}

    def task(node, port, *words):
        command = [sys.executable, "-m", "paipdb", *words, "train.py"]
        return begin(command, cwd=tmp_path, env=settings | protocol.environment(port, host=node))

    return task


def listed(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, tuple[str, str, str]]:
    assert main(["ps", "--json", *words]) == 0
    found = json.loads(capsys.readouterr().out)["sessions"]
    return {each["target"]: (each["state"], each["name"], each["endpoint"]) for each in found}


def test_a_job_lists_its_tasks_and_pdb_is_told_from_an_agent(pai_server, start, capsys):
    node, pdb, dap = own_address(), free_port(), free_port()
    pai_server.roles = {
        "worker": [rest.task(0, "RUNNING", node, pdb), rest.task(1, "WAITING", None, 0)],
        "ps": [rest.task(0, "RUNNING", node, dap), rest.task(1, "FAILED", node, dap)],
        "log": [rest.task(0, "RUNNING", node, 0)],
        "web": [rest.task(0, "RUNNING", "127.0.0.1", pai_server.port)],
    }
    assert listed(capsys, "--on", pai_server.address) == {
        "task worker/0": ("running", "-", ""), "task ps/0": ("running", "-", ""), "task web/0": ("unreadable", "web/0", ""),
    }  # fmt: skip
    assert main(["ps", pai_server.address]) == 0
    assert "another program listens at 127.0.0.1:" in capsys.readouterr().err
    pai_server.roles.pop("web")
    first, _ = start(node, pdb), start(node, dap, "--dap")
    client = Client(pdb, first, host=node)
    nobody = Client(pdb, first, host=node, token="")
    found = wait_for(
        lambda: listed(capsys, pai_server.address),
        lambda seen: (
            seen["task ps/0"][0] == "waiting" and seen["task worker/0"][:2] == ("attached", "pdb, by nc")
        ),
    )
    assert found["task ps/0"][2] == f"{node}:{dap}"
    client.until()
    nobody.sock.close()
    client.sock.sendall(b"q\n")
    first.communicate(timeout=300)
    start(node, pdb)
    wait_for(
        lambda: listed(capsys, pai_server.address)["task worker/0"],
        lambda seen: seen == ("waiting", "pdb, by nc", f"{node}:{pdb}"),
    )
    assert listed(capsys, "--all", pai_server.address)["task ps/1"][0] == "exited"
    assert {path for path, _ in pai_server.asked} == {rest.PATH, "/status"}, "one is the other program's"


def test_attach_waits_until_the_task_runs_and_an_editor_gets_in_with_the_token_of_its_log(
    pai_server, start, tmp_path
):
    node, port = own_address(), free_port()
    pai_server.roles = {"worker": [rest.task(0, "WAITING", None, 0)]}
    with attach_proxy(tmp_path, pai_server.address) as proxy:
        proxy.wait("target", ready=False)
        task = start(node, port, "--dap")
        token = next(found[1] for line in task.stderr if (found := re.search(r"its token is (\S+)$", line)))
        pai_server.roles = {"worker": [rest.task(0, "RUNNING", node, port)]}
        options = AttachOptions(host="127.0.0.1", port=proxy.port, extra={"dkdbgToken": token})
        with Debugger(options) as debugger:
            debugger.set_breakpoints(str(tmp_path / "train.py"), [4])
            debugger.attach()
            top = debugger.stack(debugger.wait_stopped(300))[0]
            assert (top.line, debugger.local_values(top)["n"]) == (4, "0")
        assert proxy.end() == 0


@pytest.mark.parametrize(
    ("change", "said", "hint"),
    [
        ({"env": {"DKDBG_PAI_TOKEN": ""}}, "requires a token", "application token on your profile page"),
        ({"env": {"DKDBG_PAI_TOKEN": "old"}}, "rejects the token", "application token on your profile page"),
        ({"env": {"DKDBG_PAI_TOKEN": "a b"}}, "DKDBG_PAI_TOKEN has blanks or line breaks", "copy it again"),
        ({"env": {"DKDBG_PAI_TOKEN": "", "DKDBG_PAI_TOKEN_FILE": "/nowhere"}}, "/nowhere cannot be read", "unset it"),
        ({"env": {"DKDBG_PAI_HTTP": ""}}, "cannot be reached", "DKDBG_PAI_HTTP=1"),
        ({"job": "pai://127.0.0.1:1/me/mnist"}, "OpenPAI at 127.0.0.1:1 cannot be reached: Connection refused", "dkdbg used HTTP"),
        ({"job": "{address}2"}, "OpenPAI has no job mnist2 of me: Job me~mnist2 is not found.", "jobName=JOB"),
        ({"job": "{address}/worker/7"}, "has no task worker/7, it has: worker/0", "dkdbg ps pai://"),
        ({"job": "pai://host/job"}, "pai://host/job is not the address of an OpenPAI job", "pai://HOST/USER/JOB"),
        ({"job": "pai://host/me/a b"}, "names no target", "pai://HOST/USER/JOB"),
        ({}, "the job mnist of me has no task with a port called debug", "dkdbg init --pai job.yaml"),
        ({"answer": (200, b"<html>", "")}, "about the job: it is not a job", "is that host an OpenPAI portal?"),
        ({"answer": (200, b'{"taskRoles": {"a": {"taskStatuses": [{"taskIndex": 0, "taskState": "RUNNING", "containerIp": "x"}]}}}', "")},
         "a task has an invalid IP address", "is that host an OpenPAI portal?"),
        ({"answer": (302, b"", "http://127.0.0.1:1/")}, "redirects elsewhere", "name the host that it redirects to"),
        ({"answer": (500, rest.error("UnknownError", "database"), "")}, "answered 500 when asked for job mnist of me: database", "portal?"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told(pai_server, monkeypatch, capsys, change, *, said, hint):
    pai_server.roles = {"worker": [rest.task(0, "RUNNING", "127.0.0.1", 9, label="other")]}
    pai_server.answer = change.get("answer")
    for name, value in change.get("env", {}).items():
        monkeypatch.setenv(name, value)
    assert main(["ps", "--on", change.get("job", pai_server.address).format(address=pai_server.address)]) != 0
    error = capsys.readouterr().err
    assert (said in error, hint in error) == (True, True), error
    assert rest.TOKEN not in error


def test_nothing_is_run_in_a_task(pai_server, capsys):
    assert main(["run", "--on", pai_server.address, "--", "python", "train.py"]) == 2
    assert "you can attach to it, but not run commands in it" in capsys.readouterr().err
    assert pai_server.asked == []
