"""Which processes debugpy's adapter takes: those that have announced themselves, by the pid that the kernel tells."""

import os
import resource
import socket
import struct
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dkdbg.agent.dap import frames
from dkdbg.agent.inprocess import adapter
from tests.agent.dap_probe import Editor, messages_of


@pytest.fixture
def folder(launch):
    running = launch("sleep", "600")
    return running.runtime / running.wait_state("running")["id"] / "p"


def connect(folder: Path) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(300)
    sock.connect(str((folder / "adapter.sock").resolve()))
    return sock


def answer(sock: socket.socket, asked: dict[str, Any], **body: object) -> None:
    response = {"seq": 1, "type": "response", "request_seq": asked["seq"], "command": asked["command"]}
    sock.sendall(frames.encode(dict(response, success=True, body=body)))


@pytest.mark.skipif(sys.platform != "linux", reason="prlimit")
def test_a_process_that_has_not_announced_itself_gets_no_word_also_after_the_adapter_was_out_of_descriptors(
    folder,
):
    with connect(folder) as sock:
        adapter, _, _ = struct.unpack("3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        assert sock.recv(100) == b""
    allowed = resource.prlimit(adapter, resource.RLIMIT_NOFILE)
    resource.prlimit(adapter, resource.RLIMIT_NOFILE, (3, allowed[1]))
    waiting = [connect(folder) for _ in range(20)]
    resource.prlimit(adapter, resource.RLIMIT_NOFILE, allowed)
    for sock in waiting:
        with sock:
            assert sock.recv(100) == b""


@pytest.mark.parametrize("offset", [0, 1])
def test_a_process_is_taken_for_the_one_that_the_kernel_tells(folder, offset):
    (folder / f"{os.getpid()}.json").write_text("{}")
    while True:
        with connect(folder) as sock:
            said = messages_of(sock)
            asked = next(said)
            assert asked["command"] == "pydevdAuthorize"
            answer(sock, asked, clientAccessToken=None)
            answer(sock, next(said), process={"pid": os.getpid() + offset, "ppid": 1})
            if offset:
                assert list(said) == []
                return
            sock.settimeout(5)
            try:  # nobody is attached: the adapter lets it run
                assert next(said)["command"] == "initialize"
            except TimeoutError:  # it was here before the root session stub, which never runs
                continue
            return


def test_processes_join_where_the_path_of_the_session_is_too_long_for_a_socket(program, tmp_path):
    runtime = tmp_path / ("long" * 30)
    running = program("x = 1\ny = 2\n", wait="300", env={"DKDBG_RUNTIME_DIR": str(runtime)})
    with Editor(running.port, {running.script: [2]}) as editor:
        assert [stop["line"] for stop in editor.wait_stops(1)] == [2]
    running.ends()


@pytest.mark.parametrize(
    ("others", "ended"),
    [((), ["root"]), (("process",), []), (("next root",), [])],
    ids=["last", "others", "next"],
)
def test_the_last_process_that_an_editor_leaves_ends_its_root_session_and_never_the_next_editors(
    others, ended
):
    """A fake of debugpy's sessions: the next editor may attach before the last request of this one is handled."""

    class Client:
        def disconnect_request(self, _: object) -> None:
            self.session.is_finalizing = True  # type: ignore[attr-defined]

    process, finalized = SimpleNamespace(ppid=1), []

    def session(name: str, *told: object) -> Any:
        client, found = (
            Client(),
            SimpleNamespace(is_finalizing=False, server=SimpleNamespace(connection=process)),
        )
        vars(client).update(session=found, known_subprocesses=told)
        vars(found).update(client=client, finalize=lambda *_: finalized.append(name))
        return found

    root, leaving = session("root", process), session("process")
    found = [root, leaving, *map(session, others)]
    root.is_finalizing = "next root" in others
    adapter.end_with_last_child(
        SimpleNamespace(Client=Client), SimpleNamespace(_sessions=found, get=lambda _: found[-1])
    )
    leaving.client.disconnect_request(SimpleNamespace(arguments={}))
    assert finalized == ended
