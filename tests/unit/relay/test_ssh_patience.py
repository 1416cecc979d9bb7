"""How long ssh may take to connect: `ConnectTimeout` is the user's, and no login at a hop is cut short (found/far.md 1)."""

import shutil
import threading

import pytest

from dkdbg.core import address
from dkdbg.errors import DkdbgError
from dkdbg.targets.ssh.command import hosts_of
from dkdbg.targets.ssh.connection import SharedConnection
from dkdbg.targets.ssh.target import SshTarget
from tests.agent.dap_probe import wait_for
from tests.commands import executable


@pytest.mark.parametrize(
    ("settings", "hosts", "limited"),
    [
        ("", "node", True),
        ("ConnectTimeout 60", "node", False),
        ("ProxyJump login", "node", False),
        ("ProxyCommand nc %h %p", "node", False),
        ("", "login,node", False),
    ],
)
def test_ssh_is_limited_to_10_seconds_unless_configured(tmp_path, monkeypatch, *, settings, hosts, limited):
    """The real ssh reads the configuration; the connection itself is refused, and its words are kept."""
    (tmp_path / "config").write_text(f"Host node\n{settings}\n")
    words = tmp_path / "words"
    executable(
        tmp_path / "ssh",
        f'case " $* " in *" -G "*) exec {shutil.which("ssh")} -F {tmp_path}/config "$@" ;; esac\n'
        f'echo "$@" >>{words}\nexit 255',
    )
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    connection = SharedConnection(hosts_of(address.parse(f"ssh://{hosts}")))
    with pytest.raises(DkdbgError):
        connection.executor(asks=False)
    connection.close()
    (start,) = [line for line in words.read_text().splitlines() if "ControlMaster=yes" in line]
    assert ("ConnectTimeout=10" in start) == limited


def test_a_target_that_is_closed_waits_for_no_connection_that_is_being_made(tmp_path, monkeypatch):
    begun = tmp_path / "begun"
    executable(
        tmp_path / "ssh",
        f'case " $* " in *ControlMaster=yes*) touch {begun}; exec sleep 600 ;; *) exit 255 ;; esac',
    )
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    target = SshTarget(address.parse("ssh://node"))
    threads = [threading.Thread(target=call) for call in (target.endpoint, target.close)]
    threads[0].start()
    wait_for(begun.exists, bool)
    threads[1].start()
    threads[1].join(15)
    assert not threads[1].is_alive()
    threads[0].join()
