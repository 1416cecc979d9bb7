"""The agent's port and its private sockets, given whatever bytes: the agent lives, does not grow, and can be debugged."""

import contextlib
import json
import socket

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dkdbg.agent.dap import frames
from tests import processes
from tests.agent.dap_probe import Editor, wait_for
from tests.agent.test_broker import BODIES, Building
from tests.attacks.fuzz import Size, fuzz_settings, speak
from tests.attacks.odd import ASKED, SAID, variants
from tests.unit.attach.test_router import event, request

TOKEN = "a-token-of-the-user-0123456789abcdef"
#: Goes round line 3 until it is told to end.
ROUND = "import os, time\nn = 0\nwhile not os.path.exists('stop'):\n    n += 1\n    time.sleep(0.02)\n"

INTRODUCTION = frames.wrap(
    json.dumps(
        {"seq": 1, "type": "request", "command": "initialize", "arguments": {"clientID": "x"}}
    ).encode()
)
HTTP = st.sampled_from([
    b"GET /status HTTP/1.1\r\nHost: localhost\r\n\r\n", b"GET /healthz HTTP/1.0\r\n\r\n", b"G", b"HEAD ", b"POST / HTTP/1.1\r\n\r\n",
    b"GET /status HTTP/1.1\r\nHost: 127.0.0.1\r\nDkdbg-Nonce: " + b"a" * 64 + b"\r\n\r\n", b"\x16\x03\x01\x02\0\x01\0",
])  # fmt: skip
CHUNKS = st.tuples(
    st.sampled_from([b"", INTRODUCTION]),
    st.lists(
        BODIES.map(frames.wrap)
        | HTTP
        | st.binary(max_size=120)
        | st.just(b"Content-Length: 99999999999\r\n\r\n"),
        max_size=4,
    ),
    st.sampled_from(["closes", "half", "resets", "cut"]),
)


@pytest.mark.attack(9)
def test_no_bytes_harm_the_agents_port_or_its_private_sockets(launch, tmp_path):
    """Sends the agent's port broken and odd messages, whole, cut, in silence, and, from within the private folder, anything to
    its sockets: nothing dies, and the user debugs."""
    script = tmp_path / "train.py"
    script.write_text(ROUND)
    running = launch("python3", "train.py", verb="supervise", env={"DKDBG_TOKEN": TOKEN})
    record = running.wait_state("running")
    port, pid = record["port"], running.process.pid
    wait_for(lambda: running.record().get("adapter_up"), bool)
    adapter = wait_for(lambda: processes.children(pid, "adapter.py"), bool)

    def sockets():
        found = running.runtime.glob(f"{running.name}-*/p/*.sock")
        return {each.stem if each.stem in ("agent", "adapter") else "process": each for each in found}

    wait_for(sockets, lambda found: len(found) == 3)
    size = Size(pid, threads=4, descriptors=4, memory=60_000)  # what a pool keeps

    @fuzz_settings(60)
    @given(CHUNKS)
    def attack(client):
        introduction, chunks, leaving = client
        cut = [each[: len(each) // 2] for each in chunks] if leaving == "cut" else chunks
        speak(port, [introduction, *cut], leaving)
        assert running.process.poll() is None

    # Hypothesis takes the words of the code for its bytes too. These two end the program, as they are meant to.
    @fuzz_settings(60)
    @given(
        st.sampled_from(["agent", "adapter", "process"]),
        st.binary(max_size=80).filter(lambda data: b"restart" not in data and b"stop" not in data),
    )
    @example("process", b"sleep")
    @example("process", b"join")
    @example("process", b"who")
    @example("process", b"child 1")
    def attack_within(which, data):
        kind = socket.SOCK_DGRAM if which == "process" else socket.SOCK_STREAM
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, kind) as sock:
            sock.settimeout(2)
            sock.connect(str(sockets()[which]))
            sock.send(data)

    for each in (attack, attack_within):
        each()
        size.is_kept()
        assert running.process.poll() is None
        assert processes.children(pid, "adapter.py") == adapter, "debugpy's adapter has died"
        with Editor(port, {str(script): [4]}, token=TOKEN) as editor:
            editor.wait_stops(2)


@pytest.mark.attack(9)
@pytest.mark.parametrize("said", [SAID, ASKED], ids=["adapter", "client"])
@pytest.mark.parametrize("begun", ["initialized", "attached", "barrier", "observer", "reattaching"])
def test_a_value_of_another_type_ends_no_session(begun, said):
    """Says each value of each message as a list, an object, an endless number or deep nests: nothing is raised."""
    for body in (each for message in said for each in variants(message)):
        building = Building()
        if begun == "initialized":
            one = building.initialized()
        elif begun == "attached":
            one = building.attached(supportsStartDebuggingRequest=True)
        else:
            root, one = building.attached(), building.attached(subProcessId=7)
            if begun == "barrier":
                building.attached(subProcessId=8)
                building.sessions.barrier.close([7, 8])
                building.sessions.barrier.configured(one.connection)
            if begun == "observer":
                one = building.observer(subProcessId=7)
            if begun == "reattaching":
                one = root
                one.adapter_gone()
                one.again()
        for action in one.from_adapter(body) if said is SAID else one.from_client(body):
            if action.later:
                action.later()
        if one.ready():
            one.resume()
        one.from_client(request("configurationDone", 6))
        one.from_adapter(event("stopped", threadId=1, reason="breakpoint"))
        building.now += 100
        building.sessions.barrier.settle()
        one.from_adapter(event("terminated"))
        one.adapter_gone()
        one.again()
        one.from_adapter(event("initialized"))
        one.client_gone()
        one.ended()
