"""`dkdbg run` two hops away, whose connection is cut: the program goes on, and so do its input, its output and its end."""

import contextlib
import fcntl
import os
import pty
import re
import shutil
import signal
import socket
import struct
import subprocess
import termios
import threading
import time

import pytest

from dkdbg.agent.dap.frames import encode
from tests.agent.dap_probe import wait_for
from tests.engine import projects
from tests.engine.projects import dkdbg, must
from tests.ports import free_port

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("far")]

NODE = "ssh://login,node1"
#: Says each line back with its number, and ends with their count.
ECHO = """\
import sys
print("up", flush=True)
count = 0
for line in sys.stdin:
    count += 1
    print(count, line.strip(), flush=True)
    print("error", count, file=sys.stderr, flush=True)
sys.exit(count)
"""
COUNTS = """\
import sys, time
for n in range(100000):
    print(n, flush=True)
    time.sleep(0.01)
"""
SHOWS = """\
import os, signal, sys, time
def size(*_):
    print("size", *os.get_terminal_size(0), flush=True)
signal.signal(signal.SIGWINCH, size)
try:
    print("tty", os.isatty(0), os.isatty(1), os.environ.get("TERM"), flush=True)
    size()
    while True:
        time.sleep(0.02)
except KeyboardInterrupt:
    print("interrupted", flush=True)
    sys.exit(9)
"""


def start(root, laptop, name: str, text: str, **streams: object) -> subprocess.Popen[bytes]:
    laptop.put("node1", f"/home/me/code/{name}", text)
    words = ("run", "--on", f"{NODE}/~/code", "--", "python3", name)
    return projects.start(root, *words, bufsize=0, text=False, **{"stdin": subprocess.PIPE, **streams})


@contextlib.contextmanager
def ended(laptop, running):
    """Whatever happens, nothing of it stays."""
    try:
        yield running
    finally:
        running.kill()
        running.communicate()
        laptop.sh(
            "node1", "pkill -KILL -u me python3; rm -rf /tmp/dkdbg-relay-1000 /tmp/dkdbg-1000", check=False
        )
        laptop.kill_local_ssh()
        shutil.rmtree(laptop.run / "dkdbg", ignore_errors=True)


def passes_cuts(running, cuts, kill_local_ssh):
    """Each line that ECHO is sent after a cut comes back once, and so do its errors and its exit code."""
    for number, cut in enumerate(cuts, 1):
        cut()
        running.stdin.write(b"line %d\n" % number)
        line = running.stdout.readline()
        assert line == b"%d line %d\n" % (number, number), running.communicate(timeout=300)
    kill_local_ssh()
    out, err = running.communicate(timeout=300)
    assert (running.returncode, out) == (3, b""), err
    assert re.findall(rb"^error .*", err, re.MULTILINE) == [b"error 1", b"error 2", b"error 3"]


def test_what_is_typed_and_printed_passes_cuts_once_and_in_order(laptop, tmp_path):
    with ended(laptop, start(tmp_path, laptop, "echo.py", ECHO)) as running:
        assert running.stdout.readline() == b"up\n"
        cuts = (
            laptop.kill_local_ssh,
            lambda: laptop.kill_sessions("node1"),
            lambda: laptop.kill_sessions("login"),
        )
        passes_cuts(running, cuts, laptop.kill_local_ssh)


def test_a_lot_of_output_arrives_whole_while_the_connection_is_cut_again_and_again(laptop, tmp_path):
    text = "import sys\nfor n in range(400000):\n    print(n)\nsys.exit(4)\n"
    with ended(
        laptop, start(tmp_path, laptop, "much.py", text, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    ) as running:
        parts, cuts = [], 0
        while data := running.stdout.read(1 << 14):
            parts.append(data)
            if len(parts) in (20, 60):
                laptop.kill_local_ssh()
                cuts += 1
        assert running.wait(300) == 4
        assert b"".join(parts) == b"".join(b"%d\n" % n for n in range(400000))
        assert cuts == 2


def test_ctrl_c_that_was_typed_while_nothing_was_connected_arrives_later(laptop, tmp_path):
    text = SHOWS.replace("    size()\n", "").replace("signal.signal(signal.SIGWINCH, size)\n", "")
    with ended(laptop, start(tmp_path, laptop, "shows.py", text)) as running:
        assert running.stdout.readline().startswith(b"tty False")
        laptop.kill_local_ssh()
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=300)
        assert (running.returncode, out) == (9, b"interrupted\n"), err


def test_two_ctrl_c_leave_while_nothing_is_connected_and_the_program_runs_on(laptop, tmp_path):
    with ended(laptop, start(tmp_path, laptop, "counts.py", COUNTS)) as running:
        assert running.stdout.readline() == b"0\n"
        threading.Thread(target=running.stdout.read, daemon=True).start()
        laptop.drop("node1")
        try:
            said = b""
            while b"if the program still runs" not in said:
                more = running.stderr.readline()
                assert more
                said += more
            running.send_signal(signal.SIGINT)
            for line in running.stderr:
                said += line
                # Signals that come at once are one, and one that comes late is the first again.
                if b"Press it again to detach" in line:
                    running.send_signal(signal.SIGINT)
            assert running.wait(300) == 255
            assert b"detached while" in said, said
            assert b"the program is still running" in said, said
        finally:
            laptop.undrop("node1")
        [target] = re.findall(r"dkdbg ps (\S+)", said.decode())
        assert "counts.py" in must(dkdbg(tmp_path, "ps", target)).stdout


def test_a_program_whose_laptop_is_gone_runs_on_and_its_keeper_leaves_nothing_when_it_ends(laptop, tmp_path):
    """kill -9 of `dkdbg run` is what a laptop that is switched off looks like from there."""
    with ended(laptop, start(tmp_path, laptop, "counts.py", COUNTS)) as running:
        assert running.stdout.readline() == b"0\n"
        running.kill()
        running.wait()
        laptop.kill_local_ssh()
        assert "counts.py" in dkdbg(tmp_path, "ps", NODE).stdout
        assert any("counts.py" in each for each in laptop.processes("node1"))


def test_a_terminal_is_the_programs_with_its_size_and_keys_through_cuts(laptop, tmp_path):
    ours, theirs = pty.openpty()

    def resize(rows, columns):
        fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    resize(33, 111)
    said = bytearray()

    def read():
        with contextlib.suppress(OSError):
            while data := os.read(ours, 4096):
                said.extend(data)

    def shown(pattern):
        return re.search(pattern, bytes(said)) is not None

    before = termios.tcgetattr(theirs)
    streams = {"stdin": theirs, "stdout": theirs, "stderr": theirs}
    more = {"env": {**os.environ, "TERM": "vt220"}, "start_new_session": True}
    with ended(laptop, start(tmp_path, laptop, "shows.py", SHOWS, **streams, **more)) as running:
        threading.Thread(target=read, daemon=True).start()
        wait_for(lambda: shown(rb"tty True True vt220\r\nsize 111 33\r\n"), bool)
        resize(20, 70)
        os.kill(running.pid, signal.SIGWINCH)  # the terminal sends it to its own session only
        wait_for(lambda: shown(rb"size 70 20\r\n"), bool)
        laptop.kill_local_ssh()
        os.write(ours, b"\x03")
        assert running.wait(300) == 9
        wait_for(lambda: shown(rb"interrupted\r\n"), bool)
        assert termios.tcgetattr(theirs) == before
    os.close(theirs)
    os.close(ours)


#: Says `initialize` to a port from every address from which this machine can be reached, and prints what is answered.
KNOCKS = """\
import json, socket, sys
port = int(sys.argv[1])
body = json.dumps({"seq": 1, "type": "request", "command": "initialize", "arguments": {"adapterID": "x"}}).encode()
ways = [(socket.AF_INET, "127.0.0.1", "127.0.0.1"), (socket.AF_INET, "127.0.0.9", "127.0.0.1"),
        (socket.AF_INET, "0.0.0.0", "0.0.0.0"), (socket.AF_INET6, "::", "::ffff:127.0.0.1")]
for family, source, target in ways:
    with socket.socket(family) as sock:
        sock.settimeout(300)
        sock.bind((source, 0))
        sock.connect((target, port))
        sock.sendall(b"Content-Length: %d\\r\\n\\r\\n%b" % (len(body), body))
        print(sock.recv(1000))
"""


def test_another_user_of_the_node_reaches_neither_the_agent_nor_the_keeper(laptop, tmp_path):
    """Without a token the kernel says who connects; also for what comes by the other user's own ssh."""
    with ended(laptop, start(tmp_path, laptop, "counts.py", COUNTS, stdout=subprocess.DEVNULL)) as running:
        port = 0
        while not port:
            line = running.stderr.readline()
            assert line
            found = re.search(rb"can attach on 127\.0\.0\.1:(\d+)", line)
            port = int(found[1]) if found else 0
        laptop.put("node1", "/home/other/knocks.py", KNOCKS, user="other")
        answers = laptop.sh("node1", f"cd /; python3 /home/other/knocks.py {port}", user="other").splitlines()
        assert len(answers) == 4
        for each in (*answers, initialized(laptop, "other", port)):
            assert "it comes from another user of this machine" in each
        welcome = initialized(laptop, "me", port)
        assert '"ptvsd"' in welcome or '"success":true' in welcome
        for folder in ("/tmp/dkdbg-1000", "/tmp/dkdbg-relay-1000"):
            assert laptop.sh("node1", f"ls -d {folder}") == folder
            look = f"ls {folder} 2>/dev/null; cat {folder}/* 2>/dev/null"
            assert laptop.sh("node1", look, user="other", check=False) == ""


def initialized(laptop, user: str, port: int) -> str:
    """What is answered to `initialize` by a forward of this user's ssh."""
    here = free_port()
    initialize = {"seq": 1, "type": "request", "command": "initialize", "arguments": {"adapterID": "x"}}
    forward = f"127.0.0.1:{here}:127.0.0.1:{port}"
    words = [str(laptop.bin / "ssh"), "-N", "-L", forward, "-J", "login", f"{user}@node1"]
    forwarding = subprocess.Popen(words, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        end = time.monotonic() + 300
        while True:
            with (
                contextlib.suppress(ConnectionRefusedError),
                socket.create_connection(("127.0.0.1", here), 30) as client,
            ):
                client.sendall(encode(initialize))
                return client.recv(1000).decode()
            assert time.monotonic() < end
            time.sleep(0.1)
    finally:
        forwarding.kill()
        forwarding.wait()
