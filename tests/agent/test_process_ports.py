"""`dkdbg attach --ports` before an agent that asks for a token."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.agent.dap_probe import Client
from tests.engine.host_doors import host_door
from tests.ports import free_port

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's folder of dkdbg; no token is in the environment."""
    for name in ("DKDBG_TOKEN", "DKDBG_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    folder = tmp_path / "config" / "dkdbg"
    folder.mkdir(parents=True)
    return folder


@pytest.mark.parametrize("source", ["environment", "file"])
def test_with_the_token_the_processes_get_their_ports(
    loop, tmp_path: Path, config: Path, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    if source == "environment":
        monkeypatch.setenv("DKDBG_TOKEN", "right")
    else:
        (config / "token").touch(0o600)
        (config / "token").write_text("right\n")
    running = loop(DKDBG_TOKEN="right")
    port, base = running.wait_state("running")["port"], free_port(3)
    with host_door(tmp_path, f"127.0.0.1:{port}", options=("--ports", str(base))) as door:
        text = door.wait("port")["text"]  # nobody has attached
        assert text.startswith("train.py: attach to 127.0.0.1:")
        with Client(int(text.rpartition(":")[2])).attach(dkdbgToken="right") as client:
            assert client.session.request("threads")["threads"][0]["name"] == "MainThread"


@pytest.mark.usefixtures("config")
@pytest.mark.parametrize("token", ["wrong", ""])
def test_without_the_token_clients_of_a_process_port_are_told_so(
    loop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, token: str
) -> None:
    monkeypatch.setenv("DKDBG_TOKEN", token)
    running = loop(DKDBG_TOKEN="right")
    port, base = running.wait_state("running")["port"], free_port(3)
    with host_door(tmp_path, f"127.0.0.1:{port}", options=("--ports", str(base))) as door:
        assert "DKDBG_TOKEN" in door.wait("refused")["text"]
        for rank in range(2):
            client = Client(base + rank)
            attach = client.session.send("attach", dkdbgToken=token)
            with pytest.raises(AssertionError, match="is wrong" if token else "is missing"):
                client.session.wait(attach)
            client.session.close()
