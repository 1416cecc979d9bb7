"""`dkdbg run` in a pod as a user has it, and what is left of it on this machine."""

import contextlib
import os
import subprocess
from pathlib import Path

from tests.agent.dap_probe import wait_for
from tests.engine import projects
from tests.engine.running import Running

ENDS = "import os, sys; print('out', os.getcwd()); print('err', file=sys.stderr); sys.exit(7)"
WAITS = (
    "import sys, time\n"
    "try:\n"
    "    print('up', flush=True)\n"
    "    while True: time.sleep(0.02)\n"
    "except KeyboardInterrupt:\n"
    "    print('interrupted', flush=True); sys.exit(9)\n"
)


def start(root, target: str, *command: str) -> subprocess.Popen[str]:
    """Run a command that says that it is up."""
    running = projects.start(root, "run", "--on", target, "--", *command)
    assert running.stdout.readline() == "up\n", running.communicate()
    return running


def ends_by_ctrl_c(root, target: str, *command: str) -> None:
    """Run a command that behaves like WAITS in a terminal, and see that a Ctrl-C there ends it."""
    run = Running(root, "--on", target, "--", *command, terminal=True)
    run.wait_for("up\r\n")
    run.ctrl_c()
    run.wait_for("interrupted")
    assert run.process.wait(300) == 9


def wait_until_no_relay_is_left() -> None:
    """Return when the kubectls of all relays that are ours have ended; who has ended them does not wait for that."""
    wait_for(relays, lambda left: not left)


def send(number: int, pids: list[int]) -> None:
    """Send a signal to processes; some may have ended."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


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
