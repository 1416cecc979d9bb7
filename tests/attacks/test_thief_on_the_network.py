"""A thief on the network: he hears what `dkdbg attach` says to an agent, and says it again."""

import http.client
import re
import time
from typing import Any

import pytest

from dkdbg.agent.proxy.listener import proof, tokens
from dkdbg.attach.upstream import status_of
from tests.agent.dap_probe import Session, wait_for

TOKEN = "right-token"
MINE = "12" * 32


class Talk:
    def __init__(self, port: int) -> None:
        self.session = Session(port, lambda *_: None)
        said = self.session.request("initialize", adapterID="debugpy", dkdbgNonce=MINE)
        self.exchange = proof.Exchange(proof.ATTACH, MINE, said["dkdbgNonce"])

    def prove(self, shown: object) -> dict[str, Any]:
        number = self.session.send("dkdbgProve", dkdbgProof=shown)
        self.session.wait_for(lambda: number in self.session.answers or self.session.closed)
        return self.session.answers.get(number, {})

    def attach(self) -> str:
        """Why it is refused; empty when it is let in."""
        number = self.session.send("attach", connect={"host": "127.0.0.1", "port": 1})
        seen = self.session.seen
        self.session.wait_for(
            lambda: number in self.session.answers or "initialized" in seen or self.session.closed
        )
        return "" if "initialized" in seen else str(self.session.answers.get(number, {}).get("message"))


@pytest.fixture
def port(launch):
    return launch("sleep", "600", env={"DKDBG_TOKEN": TOKEN}).wait_state("running")["port"]


@pytest.mark.attack(4)
def test_a_proof_lets_in_once_and_on_its_own_connection(port):
    """Repeats a proof that he has heard on a connection of his own, or once more on the same one: refused, without an attach."""
    mine, his = Talk(port), Talk(port)
    heard = mine.exchange.of_client(TOKEN)
    assert his.exchange.agent != mine.exchange.agent
    refused = his.prove(heard)
    assert refused["success"] is False
    assert "the token is wrong" in refused["message"]
    assert proof.PROOF not in str(refused)
    assert mine.prove(heard)["body"] == {proof.PROOF: mine.exchange.of_agent(TOKEN)}
    assert mine.prove(heard)["success"] is False
    assert mine.attach() == ""
    mine.session.close()


@pytest.mark.attack(4)
def test_an_agent_proves_nothing_to_who_has_not_proven_first(port):
    """Asks an agent for something to try guesses on, with no, odd and reflected proofs: gets nothing that is made with the token."""
    for shown in (None, "", 7, [], "00" * 32, "x" * 64, "\ud800", proof.nonce()):
        his = Talk(port)
        answer = his.prove(shown)
        assert answer["success"] is False
        assert his.exchange.of_agent(TOKEN) not in str(answer)
        his.session.close()
    his = Talk(port)
    assert "token" in his.attach()  # nothing is proven
    for nonce in ("", "zz" * 32, 7, None):
        session = Session(port, lambda *_: None)
        assert proof.NONCE not in session.request("initialize", adapterID="debugpy", dkdbgNonce=nonce)
        session.close()


@pytest.mark.attack(4)
def test_wrong_proofs_are_counted_like_wrong_tokens(port):
    """Guesses by proofs instead of tokens: after some wrong ones each answer is late, and a right one is not."""
    took = 0.0
    for _ in range(100):  # one more is free each second, and a busy machine is slow
        his = Talk(port)
        began = time.monotonic()
        assert "the token is wrong" in his.prove("00" * 32)["message"]
        took = time.monotonic() - began
        his.session.close()
        if took > 0.9 * tokens.DELAY_S:
            break
    assert took > 0.9 * tokens.DELAY_S
    mine = Talk(port)
    assert mine.prove(mine.exchange.of_client(TOKEN))["success"] is True
    mine.session.close()


@pytest.mark.attack(4)
def test_a_proof_for_the_status_is_none_for_an_attach(port):
    """Uses what was proven for GET /status for an attach, and on a connection of his own: refused."""
    his = Talk(port)
    for_status = proof.Exchange(proof.STATUS, MINE, his.exchange.agent).of_client(TOKEN)
    assert his.prove(for_status)["success"] is False
    first, second = (http.client.HTTPConnection("127.0.0.1", port) for _ in range(2))
    numbers = []
    for each in (first, second):
        each.request("GET", "/status", headers={"Dkdbg-Nonce": MINE})
        answer = each.getresponse()
        answer.read()
        numbers.append(answer.headers["Dkdbg-Nonce"])
        assert re.fullmatch("[0-9a-f]{64}", numbers[-1])
    heard = proof.Exchange(proof.STATUS, MINE, numbers[0]).of_client(TOKEN)
    second.request("GET", "/status", headers={"Authorization": f"Dkdbg {heard}"})
    assert b'"processes"' not in second.getresponse().read()
    first.request("GET", "/status", headers={"Authorization": f"Dkdbg {heard}"})
    assert b'"processes"' in first.getresponse().read()
    found = wait_for(lambda: status_of(("127.0.0.1", port), TOKEN), bool)  # it waits 2 s for an answer
    assert found.processes is not None
