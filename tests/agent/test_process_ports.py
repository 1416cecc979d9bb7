"""`dkdbg attach --ports` with an agent that requires a token."""

import pytest

from tests.agent.dap_probe import Client, wait_for
from tests.checkout import checkout, run_dkdbg
from tests.engine.attach_proxies import attach_proxy, typed_proxy
from tests.ports import free_port

LIMIT = 240


@pytest.fixture
def config(tmp_path, monkeypatch):
    """The user's folder of dkdbg."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    folder = tmp_path / "config" / "dkdbg"
    folder.mkdir(parents=True)
    return folder


@pytest.mark.parametrize("source", ["environment", "file"])
def test_with_the_token_the_processes_get_their_ports(loop, tmp_path, config, monkeypatch, source):
    if source == "environment":
        monkeypatch.setenv("DKDBG_TOKEN", "right")
    else:
        (config / "token").touch(0o600)
        (config / "token").write_text("right\n")
    running = loop(DKDBG_TOKEN="right")
    port, base = running.wait_state("running")["port"], free_port(3)
    with attach_proxy(tmp_path, f"127.0.0.1:{port}", options=("--ports", str(base))) as proxy:
        text = proxy.wait("port")["text"]  # before any attach
        assert text.startswith("train.py: attach to 127.0.0.1:")
        with Client(int(text.rpartition(":")[2])).attach(dkdbgToken="right") as client:
            assert client.session.request("threads")["threads"][0]["name"] == "MainThread"


@pytest.mark.usefixtures("config")
def test_what_is_said_to_clients_of_one_session_gives_each_process_a_port(loop, tmp_path):
    """By the session to a client that opens no others, and by `init --ranks`, whose entries have those ports."""
    port, base = loop().wait_state("running")["port"], free_port(3)
    with Client(port).attach(clientID="lsp4e") as client:
        assert "`dkdbg attach --ports`" in client.event("output", text="never stops")["output"]
    made = checkout(tmp_path / "repo", {"train.py": "import time\ntime.sleep(600)\n"})
    assert run_dkdbg(made, "init", "--yes").returncode == 0
    said = run_dkdbg(made, "init", "--ranks", "2", "--port", str(base), "--yes").stdout
    others = f"dkdbg attach --ports {base}"
    assert f"`{others}`" in said
    with typed_proxy(tmp_path, f"{others} 127.0.0.1:{port}") as proxy:
        text = proxy.wait("port")["text"]
        with Client(int(text.rpartition(":")[2])).attach() as client:
            assert client.session.request("threads")["threads"][0]["name"] == "MainThread"


@pytest.mark.usefixtures("config")
@pytest.mark.parametrize("token", ["wrong", ""])
def test_without_the_token_clients_of_a_process_port_are_told_so(loop, tmp_path, monkeypatch, token):
    monkeypatch.setenv("DKDBG_TOKEN", token)
    running = loop(DKDBG_TOKEN="right")
    port, base = running.wait_state("running")["port"], free_port(3)
    with attach_proxy(tmp_path, f"127.0.0.1:{port}", options=("--ports", str(base))) as proxy:
        assert "DKDBG_TOKEN" in proxy.wait("refused")["text"]
        for rank in range(2):
            client = Client(base + rank)
            attach = client.session.send("attach", dkdbgToken=token)
            with pytest.raises(AssertionError, match="is wrong" if token else "is missing"):
                client.session.wait(attach)
            client.session.close()


RANKS = """
import os, subprocess, sys
envs = [dict(os.environ, RANK=str(r), LOCAL_RANK=str(r), WORLD_SIZE="4") for r in range(4)]
for child in [subprocess.Popen([sys.executable, "train.py"], env=env) for env in envs]:
    child.wait()
"""
STEPS = """
import os, time
rank, step = os.environ["RANK"], 0
while not os.path.exists("stop"):
    step += 1
    open("step" + rank, "w").close()
    time.sleep(0.01)
"""


@pytest.mark.usefixtures("config")
@pytest.mark.parametrize("late", [False, True])
def test_a_rank_stops_for_the_client_on_its_port_and_no_other_waits_for_one_that_is_not_there(
    program, tmp_path, late
):
    """With the wait of this test, an hour, the launcher alone would outlast it."""
    (tmp_path / "train.py").write_text(STEPS)
    wait, deadline = ("0", "60") if late else ("300", "3600")
    running = program(RANKS, name="ranks.py", wait=wait, env={"DKDBG_JOIN_DEADLINE": deadline})
    port, base = running.port, free_port(102)
    files = {rank: tmp_path / f"step{rank}" for rank in range(4)}
    if late:
        wait_for(lambda: [each.exists() for each in files.values()], all)
    with attach_proxy(tmp_path, f"127.0.0.1:{port}", options=("--ports", str(base))) as proxy:
        proxy.wait("ports")
        client = Client(base + 2)
        attach = client.session.send("attach", justMyCode=True)
        client.event("initialized", LIMIT)
        source = {"path": str(tmp_path / "train.py")}
        client.session.request("setBreakpoints", source=source, breakpoints=[{"line": 5}])
        client.session.request("configurationDone")
        client.session.wait(attach)
        thread = client.event("stopped", LIMIT)["threadId"]
        frame = client.session.request("stackTrace", threadId=thread)["stackFrames"][0]["id"]
        assert client.session.request("evaluate", expression="rank", frameId=frame)["result"] == "'2'"
        others = [file for rank, file in files.items() if rank != 2]
        for each in others:
            each.unlink(missing_ok=True)
        wait_for(lambda: [each.exists() for each in others], all)
        client.session.request("setBreakpoints", source=source, breakpoints=[])
        client.session.request("continue", threadId=thread)
        client.session.close()
        (tmp_path / "stop").touch()
    running.ends()
