"""What passes a TLS channel: to the byte, in order, once; and nothing that somebody has touched."""

import os
import socket
import ssl
import sys
import threading
import time

import pytest

from dkdbg.agent.relay import secure_channel
from dkdbg.agent.supervisor import reverse
from dkdbg.errors import DkdbgError
from dkdbg.targets.reverse import certificate

TOKEN = "t" * 32


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    return certificate.load(tmp_path_factory.mktemp("own") / "listen.pem")


@pytest.fixture
def pair(own):
    """Both ends of a channel: the job's, and that of who waits."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        outer = socket.create_connection(server.getsockname())
        inner, _ = server.accept()
    made = []
    thread = threading.Thread(
        target=lambda: made.append(secure_channel.answer(inner, TOKEN, own.context, own.fingerprint))
    )
    thread.start()
    job = secure_channel.call(outer, TOKEN, own.fingerprint)
    thread.join(300)
    yield job, made[0]
    outer.close()
    inner.close()


def test_lines_and_then_much_data_pass_both_ways_at_once(pair):
    job, proxy = pair
    job.say("one")
    proxy.say("two\nthree")
    end = time.monotonic() + 300
    # The rest is the first that the pump passes on.
    assert (proxy.hear(10, end), job.hear(10, end)) == ("one", "two")
    data = os.urandom(3_000_000)
    ends, got = [], {}

    def serve(channel, name):
        ours, theirs = socket.socketpair()
        ends.append(ours)
        threading.Thread(target=channel.pump, args=(theirs,), daemon=True).start()
        threading.Thread(target=ours.sendall, args=(data,), daemon=True).start()
        wanted = len(data) + (len("three\n") if name == "job" else 0)
        heard = bytearray()
        while len(heard) < wanted:
            heard += ours.recv(1 << 16)
        got[name] = bytes(heard)

    threads = [threading.Thread(target=serve, args=each) for each in ((job, "job"), (proxy, "proxy"))]
    for each in threads:
        each.start()
    for each in threads:
        each.join(300)
    assert got["job"] == b"three\n" + data
    assert got["proxy"] == data
    for each in ends:
        each.close()


@pytest.mark.parametrize("at", [0, 1, 4, 5, 12, -1])
def test_one_bit_that_was_changed_ends_it(pair, at):
    job, proxy = pair
    wire = bytearray(job.encrypt(b"continue, please"))
    assert b"continue" not in wire
    wire[at] ^= 1
    said = []
    with pytest.raises(secure_channel.ChannelError):
        said.append(proxy.decrypt(bytes(wire) + job.encrypt(b"more")))
    assert said == []


def test_a_record_again_and_one_that_is_left_out_are_refused(pair):
    job, proxy = pair
    first, second = job.encrypt(b"first"), job.encrypt(b"second")
    assert job.decrypt(proxy.encrypt(b"x" * 100_000)) == b"x" * 100_000
    assert proxy.decrypt(first) == b"first"
    with pytest.raises(secure_channel.ChannelError):
        proxy.decrypt(first)
    with pytest.raises(secure_channel.ChannelError):
        proxy.decrypt(second)


# --- the job's environment

FINGERPRINT = "0123456789ABCDEF" * 4


def test_a_job_is_told_host_port_and_fingerprint():
    told = {"DKDBG_TOKEN": TOKEN, "DKDBG_CONNECT": f" [::1]:5670#sha256:{FINGERPRINT} "}
    assert reverse.asked(told) == ("::1", 5670, FINGERPRINT.lower())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("host:5670", "DKDBG_CONNECT=host:5670#sha256:..."),
        ("host:5670#", "no fingerprint"),
        ("host:5670#sha256:12", "64 hexadecimal digits"),
        (f"host:5670#sha1:{FINGERPRINT}", "64 hexadecimal digits"),
        (f"host#sha256:{FINGERPRINT}", "HOST:PORT"),
    ],
)
def test_an_address_without_a_fingerprint_is_refused_with_the_line_to_type(text, said):
    with pytest.raises(ValueError, match=said):
        reverse.asked({"DKDBG_TOKEN": TOKEN, "DKDBG_CONNECT": text})


def test_a_python_without_tls_1_3_is_refused(monkeypatch):
    told = {"DKDBG_TOKEN": TOKEN, "DKDBG_CONNECT": f"host:5670#sha256:{FINGERPRINT}"}
    monkeypatch.setattr(ssl, "HAS_TLSv1_3", False)
    with pytest.raises(ValueError, match=r"has OpenSSL .* DKDBG_PYTHON"):
        reverse.asked(told)
    monkeypatch.setitem(sys.modules, "ssl", None)
    with pytest.raises(ValueError, match="has no ssl module"):
        reverse.asked(told)


# --- the certificate


def test_a_certificate_stays_the_same_and_is_for_its_user_alone(tmp_path):
    file = tmp_path / "new folder" / "listen.pem"
    made = certificate.load(file)
    assert certificate.load(file).fingerprint == made.fingerprint
    assert file.stat().st_mode & 0o777 == 0o600
    assert certificate.load(tmp_path / "other.pem").fingerprint != made.fingerprint


@pytest.mark.parametrize(
    ("text", "mode", "said"),
    [
        (None, 0o640, "other users can read your key in"),
        ("", 0o600, "is empty"),
        ("nothing\n", 0o600, "does not contain a key and its certificate"),
        ("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", 0o600, "does not contain a key"),
    ],
)
def test_what_is_no_certificate_makes_way_for_one_that_is_made(tmp_path, text, mode, said):
    file = tmp_path / "listen.pem"
    certificate.load(file)
    if text is not None:
        file.write_text(text)
    file.chmod(mode)
    with pytest.raises(DkdbgError, match=said) as caught:
        certificate.load(file)
    assert caught.value.hint.startswith(f"rm {file}, ")
