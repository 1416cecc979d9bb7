"""Whose a connection on this machine is, as the kernel tells."""

import contextlib
import os
import socket
import struct

import pytest

from dkdbg.agent.proxy.listener import containers, local_users

OURS, OTHERS = {os.getuid()}, {os.getuid() + 1}


@pytest.fixture(params=["127.0.0.1", "::1", "::ffff:127.0.0.1"])
def pair(request):
    host = request.param
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as listener:
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listener.bind(("::" if family == socket.AF_INET6 else host, 0))
        listener.listen()
        client = socket.create_connection((host.rpartition(":ffff:")[2], listener.getsockname()[1]))
        ours, _ = listener.accept()
        with client, ours:
            yield client, ours


def known(ours: socket.socket) -> bool:
    assert local_users.refusal(ours, OURS) == ""
    return f"uid {os.getuid()}" in local_users.refusal(ours, OTHERS)


def test_the_user_of_the_other_end_is_known_also_of_one_that_says_no_more_but_is_there(pair):
    assert known(pair[1])
    pair[0].shutdown(socket.SHUT_WR)
    assert known(pair[1])


def close(client: socket.socket, how: str) -> None:
    client.sendall(b"x")
    if how == "reset":
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    if how == "with a full window":  # where its FIN cannot arrive: our end stays established
        client.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                client.send(bytes(1 << 20))
    client.close()


@pytest.mark.parametrize("how", ["closed", "reset", "with a full window"])
def test_one_that_has_gone_has_no_user_and_is_refused(pair, how):
    client, ours = pair
    close(client, how)
    assert local_users.refusal(ours, OURS) == "it is closed already"
    assert containers.refusal(ours) == "it is closed already"


@pytest.mark.parametrize("how", ["closed", "reset", "with a full window"])
@pytest.mark.parametrize("kernel", ["is asked", "is not asked"])
def test_one_that_goes_while_the_kernel_is_asked_is_refused(pair, monkeypatch, how, kernel):
    client, ours = pair
    asked = local_users._asked

    def late(*addresses):
        close(client, how) if client.fileno() >= 0 else None
        return asked(*addresses) if kernel == "is asked" else no_question()

    monkeypatch.setattr(local_users, "_asked", late)
    assert local_users.refusal(ours, OURS) == "it is closed already"


def test_one_of_which_only_our_end_is_left_is_refused(pair, monkeypatch):
    """As between the two steps of a reset: the socket is taken out of the kernel's tables before ours hears of it."""
    asked, (client, ours) = local_users._asked, pair
    theirs = client.getsockname()[1]
    monkeypatch.setattr(local_users, "_asked", lambda one, two: None if one[1] == theirs else asked(one, two))
    monkeypatch.setattr(local_users, "_listed", lambda *_: iter(()))
    assert local_users.refusal(ours, OURS) == "cannot tell which user is at the other end"
    monkeypatch.setattr(local_users, "_asked", no_question)  # gVisor, where a port forward has no socket
    assert local_users.refusal(ours, OTHERS) == ""


def test_without_a_descriptor_to_ask_with_nobody_is_accepted(pair, monkeypatch):
    def none_left(*_: object, **__: object) -> None:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(local_users, "_asked", none_left)
    monkeypatch.setattr(local_users, "open", none_left, raising=False)
    assert local_users.refusal(pair[1], OURS) == "cannot tell which user is at the other end"


@pytest.mark.parametrize("host", ["127.0.0.1", "::ffff:127.0.0.1"])
def test_the_kernel_tells_of_a_dual_stack_socket_of_either_end(host):
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as listener:
        listener.bind((host, 0))
        listener.listen()
        with socket.socket(socket.AF_INET6) as client:
            client.connect(("::ffff:127.0.0.1", listener.getsockname()[1]))
            ours, _ = listener.accept()
            with ours:
                ends = (ours.getpeername(), ours.getsockname())
                try:
                    said = local_users._asked(*ends), local_users._asked(*reversed(ends))
                except OSError as error:
                    pytest.skip(f"this kernel is not asked: {error}")
                inodes = [os.fstat(each.fileno()).st_ino for each in (client, ours)]
    assert said == tuple((os.getuid(), each) for each in inodes)


def no_question(*_: object) -> None:
    raise OSError(93, "Protocol not supported")


@pytest.mark.parametrize(
    "answer", [no_question, lambda *_: None], ids=["is not answered", "knows no module for TCP"]
)
def test_where_the_kernel_is_not_asked_its_list_is_read_which_says_the_same(pair, monkeypatch, answer):
    said = [local_users.other_end(each) for each in pair]
    monkeypatch.setattr(local_users, "_asked", answer)
    assert known(pair[1])
    assert [local_users.other_end(each) for each in pair] == said
    assert said[1] == (os.getuid(), os.fstat(pair[0].fileno()).st_ino)


def test_where_nobody_tells_nobody_is_refused(pair, monkeypatch):
    monkeypatch.setattr(local_users, "_asked", no_question)
    monkeypatch.setattr(local_users, "_TABLES", ("/nowhere", "/nowhere"))
    assert local_users.refusal(pair[1], OTHERS) == ""


def test_who_listens_has_a_user_too_and_nobody_else():
    with socket.socket() as listener:
        listener.bind(("0.0.0.0", 0))
        listener.listen()
        address = ("127.0.0.1", listener.getsockname()[1])
        with socket.create_connection(address) as client:
            # It waits to be accepted: the kernel has no owner for it yet.
            assert (local_users.other_end(client) or (0, 1))[1] == 0
            assert local_users.listening(client.getpeername()) == (
                os.getuid(),
                os.fstat(listener.fileno()).st_ino,
            )
    assert local_users.listening(address) is None


def test_root_we_the_owner_of_the_folder_and_who_called_sudo_may(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    os.chown(tmp_path, os.getuid() or 4321, -1)
    found = local_users.of_this_agent({"SUDO_UID": "1234"})
    assert found == {0, os.getuid(), 1234, tmp_path.stat().st_uid}
    assert local_users.of_this_agent({"SUDO_UID": "x"}) == found - {1234}
