"""The listener of pdb over TCP, given whatever bytes: the program lives, does not grow, and is debugged afterwards."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.agent.dap_probe import wait_for
from tests.attacks.fuzz import Size, fuzz_settings, speak
from tests.attacks.test_web_page import start, use
from tests.ports import free_port

#: What a browser, a TLS client, a debugger, a telnet and pdb's own users begin with.
KNOWN = [
    b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", b"POST / HTTP/1.1\r\n\r\n!print(1)\n", b"\x16\x03\x01\x02\x00\x01",
    b"Content-Length: 5\r\n\r\n{}", b"\xff\xfb\x01\xff\xfd\x03", b"c\n", b"!import os; os._exit(9)\n", b"\n", b"\0" * 300,
    b"x" * 5000, b"\xf0\x9f\x90\x9b\n", b"q\n" * 50,
]  # fmt: skip
CHUNKS = st.lists(st.one_of(st.sampled_from(KNOWN), st.binary(max_size=200)), max_size=4)
#: One client: what he sends bit by bit, and how he leaves: `stays` keeps the connection open.
CLIENTS = st.tuples(CHUNKS, st.sampled_from(["closes", "half", "resets", "stays"]))
#: More than these the listener keeps none.
STAYING = 60


@pytest.fixture
def staying():
    socks: list[Any] = []
    yield socks
    for sock in socks:
        sock.close()


@pytest.mark.attack(3)
def test_no_bytes_of_strangers_reach_pdb_or_harm_the_program(launch, tmp_path, staying):
    """Sends pdb's port whatever comes to mind, whole, in bits, in silence: none of it is run, and the user gets in."""
    port, way = free_port(), "launch --pdb with DKDBG_TOKEN"
    running = start(launch, tmp_path, way, port)
    pid = wait_for(lambda: running.record().get("child"), bool)
    # No more descriptors than clients that may wait at the same time.
    size = Size(pid, threads=0, descriptors=40, memory=20 << 10)

    @fuzz_settings(40)
    @given(st.lists(CLIENTS, min_size=1, max_size=3))
    def attack(clients):
        for chunks, leaving in clients:
            said, sock = speak(port, chunks, leaving)
            if leaving == "stays":
                staying.append(sock)
                if len(staying) > STAYING:
                    staying.pop(0).close()
            assert b"(dkdbg)" not in said
        assert running.process.poll() is None

    attack()
    size.is_kept()
    use(running, way, port)
