"""`dkdbg run` in a pod as a user has it, and what is left of it on this machine."""

import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path

ENDS = "import os, sys; print('out', os.getcwd()); print('err', file=sys.stderr); sys.exit(7)"
WAITS = (
    "import sys, time\n"
    "try:\n"
    "    print('up', flush=True)\n"
    "    while True: time.sleep(0.02)\n"
    "except KeyboardInterrupt:\n"
    "    print('interrupted', flush=True); sys.exit(9)\n"
)


def launch(root, target: str, *command: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "dkdbg", "run", "--on", target, "--", *command], cwd=root, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def start(root, target: str, *command: str) -> subprocess.Popen[str]:
    running = launch(root, target, *command)
    assert running.stdout.readline() == "up\n", running.communicate()
    return running


def ends_by_ctrl_c(root, target: str, *command: str) -> None:
    """Run a command that behaves like WAITS in a terminal, and see that a Ctrl-C there ends it."""
    pid, terminal = os.forkpty()
    if pid == 0:
        os.chdir(root)
        os.execv(sys.executable, [sys.executable, "-m", "dkdbg", "run", "--on", target, "--", *command])
    seen, sent = b"", False
    end = time.monotonic() + 300
    while time.monotonic() < end:
        try:
            seen += os.read(terminal, 4096)
        except OSError:
            break
        if b"up\r\n" in seen and not sent:
            os.write(terminal, b"\x03")
            sent = True
    os.close(terminal)
    assert b"interrupted" in seen, seen
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 9


def wait_until_no_relay_is_left() -> None:
    """Return when the kubectls of all relays that are ours have ended; who has ended them does not wait for that."""
    end = time.monotonic() + 300
    while left := relays():
        assert time.monotonic() < end, left
        time.sleep(0.02)


def relays() -> list[int]:
    """The kubectls of relays that are ours: each test has a KUBECONFIG of its own."""
    found = []
    ours = f"KUBECONFIG={os.environ['KUBECONFIG']}".encode()
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            words = (entry / "cmdline").read_bytes().split(b"\0") if entry.name.isdigit() else []
            is_ours = words and ours in (entry / "environ").read_bytes().split(b"\0")
            if (
                is_ours and words[0].endswith(b"kubectl") and b"relay" in words
            ):  # not what the stand-in starts
                found.append(int(entry.name))
    return found
