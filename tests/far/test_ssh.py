"""Hosts behind ssh, by real sshd: commands, their ends, what hinders a connection, and that one connection serves all."""

import os
import signal
import subprocess

import pytest

from dkdbg.errors import DkdbgError
from dkdbg.targets import registry
from tests.agent.dap_probe import wait_for
from tests.engine.projects import dkdbg, must, start, write
from tests.kubernetes.runs import ENDS, WAITS

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("far")]

NODE = "ssh://login,node1"
#: What shells read, and what a command line may hold.
ODD = [
    "", " ", "a b", "'", '"', "\\", "\\\\n", "\\'", "!x", "$HOME", "`id`", "%s%%", "a\nb", "~", "*", "é\u202e", "-n", "x" * 5000,
]  # fmt: skip
SHOWS = "import os, sys; sys.stdout.buffer.write(b'\\0'.join(os.fsencode(a) for a in sys.argv[1:]))"


def test_output_and_exit_code_are_the_programs_and_nothing_is_left(laptop, tmp_path):
    laptop.put("node1", "/home/me/code/ends.py", ENDS)
    done = dkdbg(tmp_path, "run", "--on", f"{NODE}/~/code", "--", "python3", "ends.py")
    assert (done.returncode, done.stdout) == (7, "out /home/me/code\n"), done.stderr
    said = done.stderr.splitlines()
    assert "err" in said
    assert f"dkdbg: attach with: dkdbg attach {NODE}/~/code" in said


@pytest.mark.usefixtures("laptop")
@pytest.mark.parametrize("user", ["me", "fish", "csh"])
@pytest.mark.core
def test_words_arrive_as_they_are_whatever_the_login_shell(tmp_path, user):
    place = registry.target_of(f"ssh://login,{user}@node1/tmp", tmp_path)
    try:
        argv = place.wrap(["python3", "-c", SHOWS, *ODD])
        done = subprocess.run(argv, capture_output=True, check=False, timeout=300)
        assert done.stdout.split(b"\0") == [os.fsencode(each) for each in ODD], done.stderr
    finally:
        place.close()


@pytest.mark.usefixtures("laptop")
def test_input_and_output_are_byte_for_byte_and_exit_codes_the_programs(tmp_path):
    place = registry.target_of(NODE, tmp_path)
    try:
        data = bytes(range(256)) * 2000 + b"\n~.\n\x04\x1a"
        done = subprocess.run(place.wrap(["cat"]), input=data, capture_output=True, check=False, timeout=300)
        assert (done.stdout, done.returncode) == (data, 0)
        for code in (0, 3, 126, 127, 255):
            done = subprocess.run(place.wrap(["sh", "-c", f"exit {code}"]), check=False, timeout=300)
            assert done.returncode == code
            assert not place.lost()  # 255 too is the program's own
        assert subprocess.run(place.wrap(["no-such"]), capture_output=True, check=False).returncode == 127
        assert subprocess.run(place.wrap(["/etc/passwd"]), capture_output=True, check=False).returncode == 126
    finally:
        place.close()


def test_all_commands_share_one_connection_which_ends_with_the_place(laptop, tmp_path):
    place, second = (registry.target_of(NODE, tmp_path) for _ in range(2))
    place.find()
    one = laptop.local_ssh()
    second.find()
    for _ in range(3):
        subprocess.run(place.wrap(["true"]), check=True, timeout=300)
    assert laptop.local_ssh() == one
    place.close()
    second.close()
    wait_for(laptop.local_ssh, lambda left: not left)


def test_commands_that_start_together_share_one_connection_and_leave_none(laptop, tmp_path):
    """The second one found the socket taken, and was a connection without one, which nobody ended."""
    words = ("run", "--on", NODE, "--", "sh", "-c", "echo there")
    started = [start(tmp_path, *words) for _ in range(4)]
    assert [each.communicate(timeout=300)[0] for each in started] == ["there\n"] * 4
    laptop.wait_until_nothing_is_left()


def test_a_connection_of_the_users_own_is_used_and_left_alone(laptop, tmp_path):
    own = str(tmp_path / "own")
    config = laptop.folder / "config"
    before = config.read_text()
    try:
        config.write_text(f"ControlPath {own}\n" + before)
        master = [str(laptop.bin / "ssh"), "-M", "-N", "-f", "-J", "login", "node1"]
        subprocess.run(master, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True, timeout=300)
        mine = laptop.local_ssh()
        done = dkdbg(tmp_path, "run", "--on", NODE, "--", "echo", "hello")
        assert (done.returncode, done.stdout) == (0, "hello\n"), done.stderr
        assert laptop.local_ssh() == mine
        assert not list(laptop.run.rglob("*"))
    finally:
        laptop.ssh("-O", "exit", "-J", "login", "node1")
        config.write_text(before)


def test_the_verbs_work_there_and_ctrl_c_is_the_programs(laptop, tmp_path):
    write(tmp_path, **{"waits.py": WAITS})
    there = f"{NODE}/~/synced"
    laptop.sh("node1", "mkdir -p /home/me/synced", user="me")
    must(dkdbg(tmp_path, "sync", there, "--once"))
    assert laptop.sh("node1", "cat /home/me/synced/waits.py", user="me") == WAITS.strip()
    must(dkdbg(tmp_path, "sync", there, "--verify"))
    assert "no session" in must(dkdbg(tmp_path, "ps", NODE)).stdout
    running = start(tmp_path, "run", "--on", there, "--", "python3", "waits.py")
    try:
        assert running.stdout.readline() == "up\n"
        shown = must(dkdbg(tmp_path, "ps", NODE)).stdout
        assert "waits.py" in shown
        assert "ssh login,node1" in shown
        assert "42" in must(dkdbg(tmp_path, "pdb", NODE, text="p 6 * 7\nq\n")).stdout
        assert "login,node1: restarted, run 2" in must(dkdbg(tmp_path, "restart", NODE)).stdout
        while (line := running.stdout.readline()) != "up\n":
            assert line == "interrupted\n"
    finally:
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=300)
    assert (running.returncode, out) == (9, "interrupted\n"), err
    laptop.sh("node1", "rm -rf /home/me/synced", user="me")


def refused(root, target: str) -> DkdbgError:
    place = registry.target_of(target, root)
    try:
        with pytest.raises(DkdbgError) as caught:
            place.find()
    finally:
        place.close()
    return caught.value


def test_what_hinders_a_connection_is_said_with_what_to_do(laptop, tmp_path):
    login = laptop.address("login", laptop.networks[0])
    cases = (
        ("ssh://no-such-host.invalid", "there is no host no-such-host.invalid", "ssh -G"),
        (f"ssh://{login}:23", f"nothing listens for ssh at {login}, port 23", "port right"),
        ("ssh://nobody@login", "nobody@", "ssh-add -l"),
        ("ssh://login,node7", "login cannot resolve the host name node7", "on login"),
        ("ssh://login,node1:23", "login cannot reach node1:23: Connection refused", "is it running"),
        ("ssh://login/no/such/folder", "there is no folder /no/such/folder on login", "your home"),
    )
    for target, problem, hint in cases:
        error = refused(tmp_path, target)
        assert problem in error.message, (target, error.message)
        assert hint in error.hint, (target, error.hint)


def test_an_unknown_host_key_is_left_to_a_person(laptop, tmp_path):
    config = laptop.folder / "config"
    before = config.read_text()
    try:
        config.write_text(f"StrictHostKeyChecking ask\nUserKnownHostsFile {tmp_path / 'none'}\n" + before)
        error = refused(tmp_path, "ssh://login")
        assert "you have not accepted the host key of login" in error.message
        assert "ssh login" in error.hint
    finally:
        config.write_text(before)


def test_a_host_that_forbids_forwarding_is_named(laptop, tmp_path):
    options = "-o AllowTcpForwarding=no -o UseDNS=no -o PidFile=/run/forbids.pid"
    # It listens after it has gone to the background, and writes its pid then.
    laptop.sh(
        "login", f"/usr/sbin/sshd -p 2022 {options}; until [ -s /run/forbids.pid ]; do sleep 0.02; done"
    )
    error = refused(tmp_path, "ssh://login:2022,node1")
    assert "login:2022 does not allow ssh connections through it" in error.message


def test_a_host_without_a_python_that_is_new_enough_is_named(laptop, tmp_path):
    """Neither a Python 3.6, which answers that it is too old, nor none."""
    words = ("run", "--on", "ssh://login", "--", "true")
    laptop.sh("login", "for f in /usr/bin/python3*; do mv $f /root/; done")
    try:
        done = dkdbg(tmp_path, *words)
        assert done.returncode == 127
        assert "has no Python 3.8 or newer" in done.stderr
        assert "--python" in done.stderr
        laptop.put("login", "/usr/bin/python3", "#!/bin/sh\nexit 1\n", user="root")
        laptop.sh("login", "chmod 755 /usr/bin/python3")
        assert "has no Python 3.8 or newer" in dkdbg(tmp_path, *words).stderr
    finally:
        laptop.sh("login", "rm -f /usr/bin/python3; mv /root/python3* /usr/bin/")


def test_an_account_that_runs_no_command_is_named_and_not_the_folder(laptop, tmp_path):
    """Making the folder is the first command of a sync; that it failed is not the folder's fault."""
    write(tmp_path, **{"a.py": "x = 1\n"})
    laptop.sh("login", "usermod -s /usr/sbin/nologin csh")
    try:
        done = dkdbg(tmp_path, "run", "--sync", "--on", "ssh://csh@login/~/code", "--", "true")
    finally:
        laptop.sh("login", "usermod -s /bin/tcsh csh")
    assert done.returncode == 1
    assert "no command can be run on csh@login: This account is currently not available" in done.stderr
