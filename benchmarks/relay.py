"""The relay against `ssh -L`, and sync's first copy against rsync, over the same two ssh hops, all in one run.

usage: python benchmarks/relay.py [--smallest] [--rounds 3] [--megabytes 64] [--trips 2000] [--steps 40] [--files 2000] [--hold SECONDS]

The hosts are those of tests/far: two containers with real sshd, of which only the first is reached from here. Both sides
share one ssh connection each, take turns, and speak with the same server there: bytes down and up (MB/s), round trips of
one byte and of a message of a debugger's size (ms, median and 99th percentile), a debugger's `next` (ms). Only ratios
mean anything on a shared machine. --hold keeps the relay busy with round trips, for a profiler.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from shared.options import parse, parser, rival

from dkdbg.dap.debugger import Debugger
from dkdbg.dap.values import AttachOptions
from tests.far.hosts import IMAGE, Hosts, build_image, docker
from tests.ports import free_port

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator

NEEDS = ("docker", "ssh")
NODE = "ssh://login,node1"
#: The hosts' image with rsync in it.
WITH_RSYNC = f"{IMAGE}-rsync"
#: `e`: sends back what comes. `d` or `u`, and 8 bytes: sends so many, or takes them and says when it has them.
SERVER = """\
import socket, socketserver, sys
class Serve(socketserver.BaseRequestHandler):
    def handle(self):
        self.request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        kind = self.request.recv(1)
        if kind == b"e":
            while data := self.request.recv(1 << 16):
                self.request.sendall(data)
            return
        left = int(self.request.recv(8, socket.MSG_WAITALL))
        if kind == b"d":
            part = bytes(1 << 18)
            while left > 0:
                self.request.sendall(part[: min(left, len(part))]); left -= len(part)
        while kind == b"u" and left > 0:
            left -= len(self.request.recv(1 << 18))
        if kind == b"u":
            self.request.sendall(b"!")
class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = daemon_threads = True
Server(("127.0.0.1", int(sys.argv[1])), Serve).serve_forever()
"""
LOOP = "import time\n\n\ndef step(n):\n    value = n + 1\n    return value\n\n\nn = 0\nwhile True:\n    step(n)\n    n += 1\n    time.sleep(0.002)\n"


def connect(port: int, kind: bytes) -> socket.socket:
    client = socket.create_connection(("127.0.0.1", port), 30)
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    client.settimeout(60)
    client.sendall(kind)
    return client


def down(port: int, size: int) -> float:
    """MB/s."""
    with connect(port, b"d") as client:
        began, left = time.perf_counter(), size
        client.sendall(b"%08d" % size)
        while left:
            left -= len(client.recv(1 << 18))
        return size / 1e6 / (time.perf_counter() - began)


def up(port: int, size: int) -> float:
    """MB/s."""
    with connect(port, b"u") as client:
        data = os.urandom(1 << 18)
        began, left = time.perf_counter(), size
        client.sendall(b"%08d" % size)
        while left > 0:
            client.sendall(data[: min(left, len(data))])
            left -= len(data)
        client.recv(1)
        return size / 1e6 / (time.perf_counter() - began)


def trips(port: int, count: int, size: int) -> list[float]:
    """Milliseconds of each round trip of `size` bytes."""
    found, data = [], bytes(size)
    with connect(port, b"e") as client:
        for _ in range(count):
            began, left = time.perf_counter(), size
            client.sendall(data)
            while left:
                left -= len(client.recv(1 << 16))
            found.append((time.perf_counter() - began) * 1000)
    return found[count // 20 :]


def steps(port: int, script: Path, count: int) -> list[float]:
    """Milliseconds of a debugger's `next`, from the request to the next stop."""
    found = []
    with Debugger(
        AttachOptions(port=port, path_mappings=((str(script.parent), "/home/me/code"),))
    ) as debugger:
        debugger.set_breakpoints(str(script), [5])
        debugger.attach()
        stop = debugger.wait_stopped(60)
        debugger.set_breakpoints(str(script), [])
        for _ in range(count):
            began = time.perf_counter()
            debugger.next(stop)
            stop = debugger.wait_stopped(60)
            found.append((time.perf_counter() - began) * 1000)
    return found


@contextlib.contextmanager
def forward(hosts: Hosts, *ports: int) -> Iterator[list[int]]:
    """`ssh -L` over the same way; the ports here."""
    here = [free_port() for _ in ports]
    words = [
        word
        for local, there in zip(here, ports, strict=True)
        for word in ("-L", f"127.0.0.1:{local}:127.0.0.1:{there}")
    ]
    running = subprocess.Popen(
        [str(hosts.bin / "ssh"), "-N", "-o", "ExitOnForwardFailure=yes", *words, "-J", "login", "node1"], stdin=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        for each in here:
            _wait(lambda each=each: _listens(each))
        yield here
    finally:
        running.terminate()
        running.wait()


@contextlib.contextmanager
def relayed(root: Path, *ports: int) -> Iterator[list[int]]:
    """`dkdbg forward` over the same way: the relay, in a process of its own as ssh is; the ports here."""
    here = [free_port() for _ in ports]
    words = [f"{local}:{there}" for local, there in zip(here, ports, strict=True)]
    running = subprocess.Popen(
        [sys.executable, "-m", "dkdbg", "forward", NODE, *words, "--json"],
        cwd=root,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        for line in running.stdout or ():
            if '"connected": true' in line:
                break
        yield here
    finally:
        running.send_signal(signal.SIGINT)
        running.wait()


@contextlib.contextmanager
def program(root: Path) -> Iterator[int]:
    """A loop under the agent there; the agent's port."""
    there = free_port()
    (root / "loop.py").write_text(LOOP)
    words = [
        "run",
        "--on",
        f"{NODE}/~/code",
        "--port",
        str(there),
        "--wait",
        "600",
        "--",
        "python3",
        "loop.py",
    ]
    running = subprocess.Popen(
        [sys.executable, "-m", "dkdbg", *words], cwd=root, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        _wait(lambda: "loop.py" in _ps(root))
        yield there
    finally:
        running.send_signal(signal.SIGINT)
        running.wait()


def _ps(root: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "dkdbg", "ps", NODE], cwd=root, capture_output=True, text=True, check=False
    )
    return done.stdout


def _listens(port: int) -> bool:
    with Path("/proc/net/tcp").open() as table:
        return any(f":{port:04X} 00000000:0000 0A" in line for line in table)


def _wait(what: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not what():
        if time.monotonic() > end:
            raise SystemExit("it does not come up")
        time.sleep(0.05)


def first_copies(hosts: Hosts, root: Path, files: int, rounds: int) -> tuple[list[float], list[float]]:
    """Seconds of rsync (none without it) and of sync for the same files into a new folder, by turns."""
    tree = root / "tree"
    dice = random.Random(1)
    for number in range(files):
        path = tree / f"pkg{number // 200}" / f"mod{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(dice.randbytes(dice.randint(200, 10_000)))
    (tree / "weights.bin").write_bytes(dice.randbytes(20_000_000))
    by_rsync, by_sync = [], []
    for turn in range(rounds):
        hosts.sh("node1", f"mkdir -p /home/me/s{turn}", user="me")
        if hosts.image == WITH_RSYNC:
            began = time.perf_counter()
            subprocess.run(
                ["rsync", "-a", "-e", f"{hosts.bin}/ssh -J login", f"{tree}/", f"node1:r{turn}/"], check=True, timeout=300
            )  # fmt: skip
            by_rsync.append(time.perf_counter() - began)
        began = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-m", "dkdbg", "sync", f"{NODE}/~/s{turn}", "--once"], cwd=tree, capture_output=True, text=True,
            check=False, timeout=300,
        )  # fmt: skip
        if done.returncode:
            raise SystemExit(done.stdout + done.stderr)
        by_sync.append(time.perf_counter() - began)
    return by_rsync, by_sync


def shown(name: str, ssh: float | None, ours: float, unit: str, *, more: bool) -> None:
    if ssh is None:
        print(f"  {name:34} {'':12}   dkdbg {ours:8.2f} {unit:5}", flush=True)
        return
    ratio = ssh / ours if more else ours / ssh
    print(f"  {name:34} ssh {ssh:8.2f}   dkdbg {ours:8.2f} {unit:5}  {ratio:5.2f} times slower", flush=True)


def compare(options: argparse.Namespace, root: Path, hosts: Hosts) -> None:
    serves = free_port()
    hosts.put("node1", "/home/me/serve.py", SERVER)
    hosts.put("node1", "/home/me/code/loop.py", LOOP)
    hosts.sh("node1", f"python3 /home/me/serve.py {serves} >/dev/null 2>&1 &", user="me")
    with (
        program(root) as debugs,
        forward(hosts, serves, debugs) as (by_ssh, next_ssh),
        relayed(root, serves, debugs) as (ours, next_ours),
    ):
        down(ours, 1 << 20)
        if options.hold:
            end = time.monotonic() + options.hold
            while time.monotonic() < end:
                {"down": down, "up": up}[options.flood](ours, 32 << 20) if options.flood else trips(
                    ours, 1000, 300
                )
            return
        size = options.megabytes << 20
        for name, measure in (("down", down), ("up", up)):
            pairs = [(measure(by_ssh, size), measure(ours, size)) for _ in range(options.rounds)]
            shown(name, *(statistics.median(each) for each in zip(*pairs, strict=True)), "MB/s", more=True)
        for name, size in (("round trip, 1 byte", 1), ("round trip, 300 bytes", 300)):
            ssh_ms, our_ms = [], []
            for _ in range(options.rounds):
                ssh_ms += trips(by_ssh, options.trips, size)
                our_ms += trips(ours, options.trips, size)
            shown(f"{name}, median", statistics.median(ssh_ms), statistics.median(our_ms), "ms", more=False)
            shown(
                f"{name}, 99 %",
                *(statistics.quantiles(each, n=100)[98] for each in (ssh_ms, our_ms)),
                "ms",
                more=False,
            )
        ssh_ms, our_ms = [], []
        for _ in range(options.rounds):
            ssh_ms += steps(next_ssh, root / "loop.py", options.steps)
            our_ms += steps(next_ours, root / "loop.py", options.steps)
        shown(
            "a debugger's next, median",
            statistics.median(ssh_ms),
            statistics.median(our_ms),
            "ms",
            more=False,
        )
    if not options.hold and options.files:
        rsync, sync = first_copies(hosts, root, options.files, options.rounds)
        shown(
            f"first copy, {options.files} files and 20 MB",
            statistics.median(rsync) if rsync else None,
            statistics.median(sync),
            "s",
            more=False,
        )


def main() -> None:
    command = parser(__doc__)
    command.add_argument("--rounds", type=int, default=3)
    command.add_argument("--megabytes", type=int, default=64)
    command.add_argument("--trips", type=int, default=2000)
    command.add_argument("--steps", type=int, default=40, help="the debugger's, each round")
    command.add_argument("--files", type=int, default=2000, help="0: no copies")
    command.add_argument("--hold", type=float, default=0)
    command.add_argument("--flood", choices=("down", "up"), help="with --hold: bytes in place of round trips")
    options = parse(command, NEEDS, rounds=1, megabytes=1, trips=40, steps=3, files=20)
    build_image(os.environ.get("DKDBG_TEST_BASE", "dkdbg-test/python:3.11"))
    with_rsync = bool(options.files and not options.hold and rival("rsync"))
    if with_rsync:
        recipe = f"FROM {IMAGE}\nRUN apt-get update -qq && apt-get install -y -qq --no-install-recommends rsync >/dev/null\n"
        docker("build", "-q", "--network", "host", "-t", WITH_RSYNC, "-", stdin=recipe)
    with tempfile.TemporaryDirectory(prefix="dkdbg-bench-") as folder:
        root = Path(folder, "repository")
        root.mkdir()
        hosts = Hosts(Path(folder), image=WITH_RSYNC if with_rsync else IMAGE)
        os.environ.update(hosts.environment)
        try:
            compare(options, root, hosts.start())
        finally:
            hosts.stop()


if __name__ == "__main__":
    main()
