"""All that dkdbg listens on, verb by verb, with a token and without: nothing but loopback and private folders.

The lists are whole: a listener that somebody adds fails here until SECURITY.md says who may use it.
"""

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.agent.dap_probe import Editor, wait_for
from tests.attacks import listening
from tests.engine.attach_proxies import attach_proxy
from tests.engine.projects import LOOP, dkdbg, must, repo, running, unique
from tests.engine.synced import Box, docker, following
from tests.ports import free_port

TOKEN = "a-token-of-the-user-0123456789abcdef"
ROUND = "import os, time\nwhile not os.path.exists('stop'):\n    time.sleep(0.02)\n"
PAUSED = "import dkdbg\ndkdbg.settrace(port={port}, timeout=300)\nprint('end')\n"

#: What an agent has that an editor is attached to: its port, the adapter, and where a process takes questions.
AGENT = {"tcp agent": 1, "unix agent": 1, "unix adapter": 1, "unix program": 1}


def roles(found: list[listening.Listening]) -> dict[str, int]:
    """How many sockets of each kind each of our processes listens on."""

    def role(program):
        for word, name in (("adapter.py", "adapter"), (".pyz ", "agent"), ("dkdbg attach", "attach")):
            if word in program:
                return name
        return "program"

    return dict(Counter(f"{one.kind} {role(one.program)}" for one in found))


def are_shut(found: list[listening.Listening]) -> None:
    open_ = [f"{one.kind} {one.address} {one.program}" for one in found if not one.is_shut]
    assert open_ == []


@pytest.mark.parametrize(("verb", "token"), [("launch", ""), ("supervise", TOKEN)])
def test_an_agent_on_this_machine(launch, tmp_path, verb, token):
    (tmp_path / "train.py").write_text(ROUND)
    agent = launch(sys.executable, "train.py", verb=verb, env={"DKDBG_TOKEN": token} if token else {})
    port = agent.wait_state("running")["port"]
    with Editor(port, {}, token=token) as editor:
        editor.wait_attached(2)
        found = listening.of(agent.process.pid)
    are_shut(found)
    assert roles(found) == AGENT
    assert f"127.0.0.1:{port}" in {one.address for one in found}


@pytest.mark.parametrize("way", ["launch --pdb, with a token", "settrace"])
def test_a_program_that_waits_for_pdb(launch, tmp_path, way):
    port = free_port()
    if way == "settrace":
        (tmp_path / "train.py").write_text(PAUSED.format(port=port))
        agent = launch(sys.executable, "train.py")
    else:
        (tmp_path / "train.py").write_text(ROUND)
        options = ("--pdb", str(port))
        agent = launch(sys.executable, "train.py", wait="300", options=options, env={"DKDBG_TOKEN": TOKEN})
    found = wait_for(
        lambda: listening.of(agent.process.pid), lambda all_: roles(all_) == {**AGENT, "tcp program": 1}
    )
    are_shut(found)
    assert f"127.0.0.1:{port}" in {one.address for one in found}


def test_run_and_attach_on_this_machine(tmp_path, monkeypatch):
    (tmp_path / "train.py").write_text(ROUND)
    monkeypatch.setenv("DKDBG_TOKEN", TOKEN)
    monkeypatch.setenv("DKDBG_RUNTIME_DIR", str(tmp_path / "run"))
    words = ["run", "--port", str(free_port()), "--", sys.executable, "train.py"]
    command = [sys.executable, "-m", "dkdbg", *words]
    with subprocess.Popen(command, cwd=tmp_path, stdin=subprocess.DEVNULL) as program:
        try:
            with attach_proxy(tmp_path, "local:") as proxy, Editor(proxy.port, {}, token=TOKEN) as editor:
                editor.wait_attached(2)
                ran, attached = listening.of(program.pid), listening.of(proxy.process.pid)
        finally:
            (tmp_path / "stop").touch()
    are_shut(ran + attached)
    assert (roles(ran), roles(attached)) == (AGENT, {"tcp attach": 1})


@pytest.mark.engine
def test_up_and_attach_of_a_container(tmp_path, base_image, monkeypatch):
    port = free_port()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    files = {
        "train.py": LOOP, "dkdbg.toml": f'[debug]\nport = {port}\ntoken = "env"\n',
        "Dockerfile": f'FROM {base_image}\nWORKDIR /app\nCOPY . .\nCMD ["python3", "train.py"]\n',
    }  # fmt: skip
    root = repo(tmp_path / unique("listening"), files)
    must(dkdbg(root, "init", "--yes", env={"DKDBG_BASE": base_image}))
    with running(root, base_image):
        token = (tmp_path / "config/dkdbg/token").read_text().strip()
        monkeypatch.setenv("DKDBG_TOKEN", token)
        name = docker("ps", "-q", "--filter", f"label=com.docker.compose.project={root.name}").split()[0]
        main = int(docker("inspect", "-f", "{{.State.Pid}}", name))
        with attach_proxy(root) as proxy, Editor(proxy.port, {}, token=token) as editor:
            editor.wait_attached(2)
            inside, attached = listening.of(main), listening.of(proxy.process.pid)
        published = [line.rpartition(" ")[2] for line in docker("port", name).splitlines()]
    # Docker publishes to the container's own address, so the agent listens on all of those; see peers.py.
    front = [one for one in inside if not one.is_shut]
    assert [(one.kind, one.address) for one in front] == [("tcp", f"0.0.0.0:{port}")]
    assert all(address.startswith("127.0.0.1:") for address in published)
    assert len(published) == 1
    are_shut(attached)
    assert roles(inside) == AGENT
    assert roles(attached) == {"tcp attach": 1}


@pytest.mark.engine
def test_sync_and_its_receiver(tmp_path, start_container):
    root, name = repo(tmp_path / "repo", {"train.py": ROUND}), start_container()
    main = int(docker("inspect", "-f", "{{.State.Pid}}", name))
    with following(root, f"docker://{name}", "--to", "/ws") as followed:
        # `docker exec` starts the receiver beside the container's first process, in its namespaces.
        network = Path(f"/proc/{main}/ns/net").readlink()
        beside = [int(entry.name) for entry in Path("/proc").glob("[0-9]*") if _network(entry) == network]
        inside, host = listening.of(*beside), listening.of(followed.process.pid)
    assert Box(name).read("/ws/train.py") == ROUND
    assert (inside, host) == ([], [])


def _network(entry: Path) -> Path | None:
    try:
        return (entry / "ns/net").readlink()
    except OSError:
        return None
