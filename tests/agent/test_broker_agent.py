"""The broker in front of a real debugpy: tokens, names, and two clients."""

import contextlib
import json
import os
import socket
import struct
import subprocess
import sys
import urllib.request
from typing import Any

import pytest

from dkdbg.agent.dap import frames
from tests.agent.dap_probe import Client, Editor, wait_for
from tests.ports import free_port

TOKEN = "correct horse battery staple"


def test_without_the_right_token_nothing_is_attached_or_evaluated(loop, tmp_path):
    running = loop(DKDBG_TOKEN=TOKEN)
    port = running.port
    trace = f"open({str(tmp_path / 'evaluated')!r}, 'w').close()"
    (pid,) = wait_for(lambda: [one["pid"] for one in running.record()["processes"]], bool)
    for shown in ({}, {"dkdbgToken": "wrong"}, {"dkdbgToken": 3}, {"dkdbgToken": TOKEN[:-1]}):
        with Client(port) as client:
            early = client.refusal("evaluate", expression=trace, context="repl")
            assert early["message"].startswith("dkdbg: send attach first")
            answer = client.refusal("attach", **shown)
            assert answer["body"]["error"]["showUser"] is True
            assert "dkdbgToken" in answer["message"]
            late = client.refusal("evaluate", expression=trace, context="repl")
            assert late == {}  # closed
        for key in ({}, {"subProcessId": pid}):  # all at once, without waiting for the admission
            with Client(port) as client:
                with contextlib.suppress(OSError):
                    client.session.send("attach", **shown, **key)
                    client.session.send("configurationDone")
                    client.session.send("evaluate", expression=trace, context="repl")
                wait_for(lambda client=client: client.session.closed, bool)
                commands = [answer["command"] for answer in client.session.answers.values()]
                assert "evaluate" not in commands
    assert not (tmp_path / "evaluated").exists()
    record = running.record()
    assert (record["client"], [one["joined"] for one in record["processes"]]) == (False, [False])
    with Editor(port, {running.script: [4]}, hold=True, token=TOKEN) as editor:
        stop = editor.wait_stops(1)[0]  # with the token, the same text leaves its trace
        stop.value(trace, context="repl")
    assert (tmp_path / "evaluated").exists()


def test_children_show_the_token_by_themselves_and_it_is_said_nowhere(program, tmp_path):
    (tmp_path / "token").write_text(TOKEN + "\n")
    running = program(
        "import os\nx = 1\nprint([k for k in os.environ if k.startswith('DKDBG_TOKEN')])\n",
        wait="300",
        env={"DKDBG_TOKEN_FILE": str(tmp_path / "token")},
    )
    port = running.port
    with Client(port) as wrong:
        wrong.refusal("attach", dkdbgToken="wrong")
    with Editor(port, {running.script: [2]}, hold=True, token=TOKEN) as editor:
        stop = editor.wait_stops(1)[0]
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/status") as status:
            said = status.read().decode()
        stop.go_on()
        code, out, err = running.finish()
    assert (code, out, editor.errors) == (0, "[]\n", [])
    assert TOKEN not in said + err + json.dumps(running.record())
    assert "127.0.0.1: refused: the token is wrong" in err


def vanish(port: int, *, reset: bool) -> bool:
    """Send `initialize` and leave; False while the port is closed."""
    try:
        sock = socket.create_connection(("127.0.0.1", port), timeout=300)
    except OSError:
        return False
    with sock:
        sock.sendall(frames.encode({"seq": 1, "type": "request", "command": "initialize", "arguments": {}}))
        if reset:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        else:
            sock.recv(1)
    return True


def test_strangers_who_vanish_do_not_end_the_adapter_from_its_first_moment_on(program):
    port = free_port()
    running = program("x = 1\n", wait="300", env={"DKDBG_TOKEN": TOKEN, "DKDBG_PORT": str(port)})
    wait_for(lambda: vanish(port, reset=False), bool)
    for number in range(60):
        assert vanish(port, reset=number % 2 == 1)
    with Client(port) as one:
        one.attach(dkdbgToken=TOKEN)
        one.session.request("disconnect")
    code, _, err = running.finish()
    assert (code, "adapter died" in err) == (0, False)


def test_an_empty_token_file_ends_the_agent(launch, tmp_path):
    (tmp_path / "token").touch()
    code, _, err = launch("true", env={"DKDBG_TOKEN_FILE": str(tmp_path / "token")}).finish()
    assert (code, "is empty" in err) == (125, True)


def get(port: int, path: str, **headers: str) -> dict[str, Any]:
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers=headers)
    with urllib.request.urlopen(request) as answer:
        return dict(json.load(answer))


@pytest.mark.parametrize("token", ["", TOKEN])
def test_the_status_shows_no_command_line_and_without_the_token_only_states_and_counts(
    program, tmp_path, token
):
    running = program("import time\ntime.sleep(600)\n", "--key=hunter2", env={"DKDBG_TOKEN": token})
    running.wait_state("running")
    wait_for(lambda: running.record()["processes"], bool)
    shown = get(running.port, "/status", authorization=f"bearer  {TOKEN} ")
    assert "hunter2" not in json.dumps(shown)
    assert (shown["program"], shown["processes"][0]["name"]) == ("train.py", "train.py")
    assert shown["cwd"] == str(tmp_path)
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": f"Basic {TOKEN}"}):
        open_to_all = get(running.port, "/status", **headers)
        assert open_to_all["state"] == "running"
        if token:
            assert open_to_all["process_count"] == 1
            assert not {"program", "processes", "cwd", "host", "port", "mappings"} & set(open_to_all)
            assert "train" not in json.dumps(open_to_all)
        else:
            assert open_to_all["program"] == "train.py"
    assert get(running.port, "/healthz") == {"state": "running", "client": False}


def test_a_second_client_observes_and_changes_nothing(loop, tmp_path):
    running = loop()
    with (
        Client(running.port).attach() as first,
        first.child() as child,
        Client(running.port).attach() as second,
    ):
        assert (
            "you are an observer: another editor (since " in second.event("output", text="observer")["output"]
        )
        with second.child() as observer:
            child.session.request("pause", threadId=1)
            thread = child.event("stopped")["threadId"]
            assert observer.event("stopped")["threadId"] == thread
            top = observer.session.request("stackTrace", threadId=thread)["stackFrames"][0]
            assert top["source"]["path"].endswith("train.py")
            assert "n" in observer.session.variables(frame=top["id"])
            for command in ("continue", "next", "evaluate", "setVariable", "pause", "terminate"):
                answer = observer.refusal(command, threadId=thread, expression="1", frameId=top["id"])
                assert (
                    'add "dkdbgRole": "take-over" to this configuration to take it over' in answer["message"]
                ), command
            frame = child.session.request("stackTrace", threadId=thread)["stackFrames"][0]
            held = f"train.py:{frame['line']} (pause)"
            record = wait_for(lambda: first_process(running), lambda p: p.get("stopped") == held)
            assert record["name"] == "train.py"
            assert f"{record['pid']} train.py: stopped at {held}" in sessions(running)
            child.session.request("continue", threadId=thread)
            observer.event("continued")
            wait_for(lambda: first_process(running), lambda p: p.get("stopped") == "")
            (tmp_path / "stop").touch()
            observer.event("terminated")


def sessions(running: Any) -> str:
    environment = {**os.environ, "DKDBG_RUNTIME_DIR": str(running.runtime)}
    command = [sys.executable, "-m", "dkdbg.agent", "sessions"]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout


def first_process(running: Any) -> dict[str, Any]:
    """Return the record's first process, which appears a moment after its start."""
    return next(iter(running.record()["processes"]), {})
