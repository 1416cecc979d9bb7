"""What an address of a host behind ssh means, and what OpenSSH's messages do."""

import os
import re
import subprocess
import time

import pytest

from dkdbg.core import address
from dkdbg.errors import EXIT_USAGE, DkdbgError
from dkdbg.targets.ssh import connection
from dkdbg.targets.ssh.command import SshExecutor, enter, for_any_shell, hosts_of
from dkdbg.targets.ssh.errors import explain
from dkdbg.targets.ssh.target import SshTarget
from tests.commands import executable


def hosts(text):
    return hosts_of(address.parse(text))


@pytest.mark.parametrize(
    ("text", "words", "folder"),
    [
        ("ssh://login", ["--", "login"], ""),
        ("ssh://me@login:2222", ["-p", "2222", "--", "me@login"], ""),
        ("ssh://me@a,b:23,you@c/w", ["-J", "me@a,b:23", "--", "you@c"], "/w"),
        ("ssh://[fe80::1]:22/~/x y".replace(" ", "_"), ["-p", "22", "--", "fe80::1"], "~/x_y"),
        ("ssh://login/~", ["--", "login"], "~"),
    ],
)
def test_an_address_names_hops_user_port_and_folder(text, words, folder):
    found = hosts(text)
    assert (list(found.destination()), found.folder) == (words, folder)


@pytest.mark.parametrize(
    "text",
    ["ssh://a;id", "ssh://$(id)@a", "ssh://`id`", "ssh://a|b", "ssh://a:0", "ssh://a:65536", "ssh://a@b@c", "ssh://a,'b'", "ssh://a/../b"],
)  # fmt: skip
def test_what_a_shell_could_read_and_what_is_no_host_is_refused(text):
    with pytest.raises(DkdbgError) as caught:
        hosts(text)
    assert caught.value.exit_code == EXIT_USAGE


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_a_shell_runs_the_text_that_was_meant(shell):
    text = "printf '%s|' 'a\nb' '\\n' \"it's\" '!' '$x' 'ü'; exit 3"
    done = subprocess.run([shell, "-c", for_any_shell(text)], capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("a\nb|\\n|it's|!|$x|ü|", 3)


def test_a_folder_is_entered_whatever_its_name_and_forwards_and_commands_of_the_users_are_not_ours():
    assert enter("") == ""
    assert enter("/a b/$c") == "cd '/a b/$c' || exit 1; "
    assert enter("~/a b") == "cd \"$HOME\"/'a b' || exit 1; "
    assert enter("~") == "cd \"$HOME\"/'' || exit 1; "
    argv = SshExecutor(hosts=hosts("ssh://a,b"), options=("-S", "x"), label="b").wrap(["true"], tty=True)
    assert argv[:3] == ("ssh", "-S", "x")
    assert {"ClearAllForwardings=yes", "RemoteCommand=none", "-tt"} <= set(argv)


CHANGED = "Offending ED25519 key in {}:3\r\n  remove with:\r\nHost key for {} has changed and you have requested strict checking.\r\n"


@pytest.mark.parametrize(
    "said",
    [CHANGED.format("$(reboot)", "x;reboot"), CHANGED.format("/k`reboot`", "x"), "Bad owner or permissions on /a;reboot"],
)  # fmt: skip
def test_what_the_far_side_may_have_written_is_one_word_of_what_is_to_be_typed(said):
    """A hostile machine writes ssh's own words into its output, with a command in them, for people to type."""
    hint = explain(hosts("ssh://login,node1"), said).hint
    assert "reboot" in hint
    quoted = re.sub(r"'[^']*'", "", hint)
    assert "reboot" not in quoted


def test_words_of_ssh_that_go_on_for_ever_are_looked_at_for_moments():
    begun = time.monotonic()
    many = "REMOTE HOST IDENTIFICATION HAS CHANGED\n" * 5_000 + "Offending x key in a:1\n" * 5_000
    assert "has changed" in explain(hosts("ssh://login"), many).message
    assert "cannot be reached" in explain(hosts("ssh://login"), "Offending " * 300_000).message
    assert time.monotonic() - begun < 300


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ("ssh: connect to host login port 22: Connection timed out\r\n", "login cannot be reached at port 22: Connection timed out"),
        ("ssh: connect to host login port 22: No route to host", "login cannot be reached at port 22: No route to host"),
        ("Connection timed out during banner exchange", "login,node1 does not answer"),
        ("Received disconnect from 10.0.0.1 port 22:2: Too many authentication failures", "ssh has offered too many keys"),
        ("Bad owner or permissions on /home/me/.ssh/config", "ssh rejects /home/me/.ssh/config"),
        ("/home/me/.ssh/config: line 3: Bad configuration option: foo", "ssh's configuration is wrong: /home/me/.ssh/config: line 3"),
        ("you@node1: Permission denied (publickey,password).", "you@node1 accepts none of the keys that ssh offers (methods: publickey,password)"),
        ("hello {0} {way}\x1b[2J", "cannot be reached: hello {0} {way}\\x1b[2J"),
        ("", "cannot be reached: no output"),
    ],
)  # fmt: skip
def test_what_ssh_says_is_explained_and_fit_for_a_terminal(said, problem):
    error = explain(hosts("ssh://login,node1"), said)
    assert problem in error.message
    assert error.hint
    assert "\x1b" not in error.message


def test_behind_a_login_node_its_own_key_is_not_enough_and_the_hint_says_whose_is_needed():
    said = "me@node5: Permission denied (publickey,hostbased)."
    hint = explain(hosts("ssh://login,me@node5"), said).hint or ""
    assert (
        "add your public key (~/.ssh/*.pub on this machine) to ~/.ssh/authorized_keys on me@node5, not only on login"
        in hint
    )
    for refused in ("ssh://login", "ssh://login,me@node6"):  # the login node itself refuses
        hint = explain(hosts(refused), "login: Permission denied (publickey).").hint or ""
        assert "authorized_keys on login; ssh-add" in hint


def test_only_a_dkdbg_that_connects_to_the_same_host_is_waited_for_and_that_is_said(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setattr(connection, "_REPORT_LOCK_AFTER_S", 0.0)
    said = []

    def is_over():
        said.append(capsys.readouterr().err)
        return any(said)

    held = [connection._locked_folder(each, lambda: True, tells=True)[1] for each in ("login", "other")]
    with pytest.raises(DkdbgError):
        connection._locked_folder("login", is_over, tells=True)
    assert "".join(said) == "dkdbg: waiting for another dkdbg that is connecting to ssh://login\n"
    for each in held:
        os.close(each)


@pytest.mark.parametrize("asking", [lambda host: host.find(), lambda host: host.with_workdir("x")])
def test_a_host_that_writes_for_ever_is_cut_off(tmp_path, monkeypatch, asking):
    executable(tmp_path / "ssh", "case $1 in -O) ;; *) exec yes ;; esac")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    host = SshTarget(address.parse("ssh://login/~/w"))
    with pytest.raises(DkdbgError, match="ssh wrote more than 1048576 bytes"):
        asking(host)
