"""A debug session in bad weather: cut every 10 s for 5 minutes while a debugger steps, for each transport and each kind of cut.

usage: python benchmarks/relay_weather.py [--smallest] [ssh] [kubectl] [docker] [--seconds 300] [--every 10] [--silence 5] [--kinds here there silent]

`dkdbg attach` leads to a program over two ssh hops, over kubectl exec (the real kubectl, a stand-in for the API server,
a container for the pod) and over docker exec. `here` kills the transport's processes on this machine, `there` those on
the far one, `silent` drops every packet for 5 s (docker exec: it is stopped for 5 s). The debugger steps all the time,
and each stop has to be the line after the one before: a step that was lost or done twice would show. Said for each
kind: whether the session lived, and the longest time without a step after each cut (silent: less the 5 s).
At the end: what is left on both sides.
"""

from __future__ import annotations

import contextlib
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from shared.options import parse, parser

from dkdbg.dap.debugger import Debugger
from dkdbg.dap.values import AttachOptions
from dkdbg.relay.relay import Relay
from tests.engine.attach_proxies import attach_proxy
from tests.engine.projects import marked_line, unique
from tests.far.hosts import Hosts, build_image, docker
from tests.kubernetes.cluster import Cluster, Pod

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

BASE = os.environ.get("DKDBG_TEST_BASE", "dkdbg-test/python:3.11")
#: The cluster is a stand-in, so kubectl is the machine's; iptables drops its packets.
NEEDS = ("docker", "ssh", "kubectl", "iptables")
#: Seconds of a step that count as a session that hangs.
HANGS = 60.0
#: Lines 2 to 5 come again and again.
PROGRAM = "n = 0\nwhile True:\n    n += 1  # breakpoint\n    half = n / 2\n    last = half\n"
ROUND = [2, 3, 4, 5]


class Way:
    """A transport: what is cut, and what is left."""

    code = "/home/me/code"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root = folder / "repository"
        self.root.mkdir()
        (self.root / "train.py").write_text(PROGRAM)

    @contextlib.contextmanager
    def up(self) -> Iterator[str]:
        """The target of `dkdbg attach`."""
        raise NotImplementedError
        yield ""

    def cut_here(self) -> None:
        for pid in self.transports():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def cut_there(self) -> None:
        raise NotImplementedError

    def silence(self, seconds: float) -> None:
        raise NotImplementedError

    def transports(self) -> list[int]:
        """Processes of this machine that lead there."""
        raise NotImplementedError

    def left(self) -> list[str]:
        """Processes and files, here and there."""
        raise NotImplementedError

    def leave(self) -> None:
        """End what `up` has opened besides the program."""

    @contextlib.contextmanager
    def program(self, target: str) -> Iterator[None]:
        words = [
            sys.executable,
            "-m",
            "dkdbg",
            "run",
            "--on",
            target,
            "--wait",
            "600",
            "--",
            "python3",
            "train.py",
        ]
        running = subprocess.Popen(
            words,
            cwd=self.root,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            yield
        finally:
            running.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                running.wait(20)
            running.kill()
            running.wait()


class Ssh(Way):
    """Two hops."""

    @contextlib.contextmanager
    def up(self) -> Iterator[str]:
        build_image(BASE)
        self.hosts = Hosts(self.folder)
        os.environ.update(self.hosts.environment)
        try:
            self.hosts.start()
            self.hosts.put("node1", f"{self.code}/train.py", PROGRAM)
            with self.program(f"ssh://login,node1{self.code}"):
                yield f"ssh://login,node1{self.code}"
                self.hosts.sh("node1", "pkill -INT -u me python3", check=False)
        finally:
            self.hosts.stop()

    def transports(self) -> list[int]:
        return self.hosts.local_ssh()

    def cut_there(self) -> None:
        self.hosts.kill_sessions(("node1", "login")[int(time.monotonic()) % 2])

    def silence(self, seconds: float) -> None:
        self.hosts.drop("node1")
        time.sleep(seconds)
        self.hosts.undrop("node1")

    def left(self) -> list[str]:
        return self.hosts.left()


class InContainer(Way):
    """What is reached by a command in a container."""

    code = "/srv"

    def start(self) -> str:
        self.name = unique("dkdbg-weather")
        docker("run", "-d", "--init", "--name", self.name, "-w", self.code, BASE, "sleep", "infinity")
        docker("exec", "-i", self.name, "sh", "-c", f"cat >{self.code}/train.py", stdin=PROGRAM)
        return self.name

    def inside(self, script: str) -> str:
        return docker("exec", self.name, "sh", "-c", script, check=False)

    def cut_there(self) -> None:
        # Those that the engine has started have no parent in there; the keeper has.
        self.inside(
            "for p in /proc/[0-9]*; do grep -q '^PPid:.0$' $p/status && tr '\\0' ' ' <$p/cmdline | grep -q ' relay dkdbg-' && kill -9 ${p#/proc/}; done"
        )

    def found_here(self, *marks: bytes) -> list[int]:
        found = []
        for each in Path("/proc").iterdir():
            with contextlib.suppress(OSError, ValueError):
                words = (each / "cmdline").read_bytes()
                if all(mark in words for mark in marks) and int(each.name) != os.getpid():
                    found.append(int(each.name))
        return found

    def left(self) -> list[str]:
        here = [f"process here: {each}" for each in self.transports()]
        processes = self.inside(
            "for p in /proc/[0-9]*; do tr '\\0' ' ' <$p/cmdline; echo; done 2>/dev/null | grep -a -e agent- -e train.py | grep -v 'for p in'"
        )
        files = self.inside("ls -dA /tmp/dkdbg-relay-* /tmp/dkdbg-*/agent-* /tmp/dkdbg-*/hook-* 2>/dev/null")
        return here + [f"there: {each}" for each in (processes + "\n" + files).splitlines() if each.strip()]


class Kubectl(InContainer):
    """`kubectl exec`."""

    @contextlib.contextmanager
    def up(self) -> Iterator[str]:
        cluster = Cluster()
        os.environ["KUBECONFIG"] = str(cluster.kubeconfig(self.folder / "config"))
        self.port = cluster.url.rpartition(":")[2]
        try:
            cluster.put(Pod("train-0", {"main": self.start()}))
            with self.program("k8s://ml/train-0"):
                yield "k8s://ml/train-0"
                self.inside("pkill -INT -f train.py")
        finally:
            docker("rm", "-f", self.name, check=False)
            cluster.close()

    def transports(self) -> list[int]:
        found = []
        for pid in self.found_here(b"kubectl", b"exec"):
            with contextlib.suppress(OSError):
                if os.environ["KUBECONFIG"].encode() in Path(f"/proc/{pid}/environ").read_bytes():
                    found.append(pid)
        return found

    def silence(self, seconds: float) -> None:
        rules = [["-i", "lo", "-p", "tcp", side, self.port, "-j", "DROP"] for side in ("--dport", "--sport")]
        for each in rules:
            subprocess.run(["iptables", "-I", "INPUT", *each], check=True)
        time.sleep(seconds)
        for each in rules:
            subprocess.run(["iptables", "-D", "INPUT", *each], check=True)


class DockerExec(InContainer):
    """`docker exec`, as for a container of an engine whose addresses are not reached from here."""

    @contextlib.contextmanager
    def up(self) -> Iterator[str]:
        try:
            with self.program(f"docker://{self.start()}"):
                found = "/tmp/dkdbg-0/agent-*.pyz"
                _wait(
                    lambda: (
                        "session.json"
                        in self.inside("cat /tmp/dkdbg-0/*/session.json >/dev/null && echo session.json")
                    )
                )
                port = int(
                    self.inside(
                        'python3 -c \'import glob, json; print(json.load(open(glob.glob("/tmp/dkdbg-0/*/session.json")[0]))["port"])\''
                    )
                )
                agent = self.inside(f"ls {found}")
                self.relay = Relay(
                    lambda word, _silent, _limit: [
                        "docker",
                        "exec",
                        "-i",
                        self.name,
                        "sh",
                        agent,
                        "relay",
                        word,
                    ]
                )
                yield f"127.0.0.1:{self.relay.listen(port)}"
                self.inside("pkill -INT -f train.py")
        finally:
            docker("rm", "-f", self.name, check=False)

    def leave(self) -> None:
        self.relay.close()

    def transports(self) -> list[int]:
        return self.found_here(b"docker", b"exec", self.name.encode(), b"relay")

    def silence(self, seconds: float) -> None:
        stopped = self.transports()
        for number in (signal.SIGSTOP, signal.SIGCONT):
            for pid in stopped:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
            time.sleep(seconds if number == signal.SIGSTOP else 0)


WAYS = {"ssh": Ssh, "kubectl": Kubectl, "docker": DockerExec}


class Stepping:
    """A debugger that steps all the time, on a thread."""

    def __init__(self, root: Path, code: str, port: int) -> None:
        self._options = AttachOptions(port=port, path_mappings=((str(root), code),))
        self._script = root / "train.py"
        self.steps: list[tuple[float, float]] = []
        self.trouble = ""
        self.done = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            with Debugger(self._options) as debugger:
                debugger.set_breakpoints(str(self._script), [marked_line(self._script)])
                debugger.attach()
                stop = debugger.wait_stopped(60)
                debugger.set_breakpoints(str(self._script), [])
                line = debugger.stack(stop)[0].line
                while not self.done.is_set():
                    began = time.monotonic()
                    debugger.next(stop, timeout=HANGS)
                    stop = debugger.wait_stopped(HANGS)
                    found = debugger.stack(stop)[0].line
                    expected = ROUND[(ROUND.index(line) + 1) % len(ROUND)]
                    if found != expected:
                        raise RuntimeError(f"after line {line} came {found}, not {expected}")
                    line = found
                    self.steps.append((began, time.monotonic()))
                    time.sleep(0.05)  # other programs of this machine want to run too
        except Exception as error:  # noqa: BLE001 - it is the result
            self.trouble = self.trouble or f"{type(error).__name__}: {error}"

    def pause_after(self, moment: float) -> float:
        """The longest time without a step that has ended since a moment."""
        ends = [end for _, end in self.steps if end >= moment]
        before = max((end for _, end in self.steps if end < moment), default=moment)
        return max(
            (later - earlier for earlier, later in zip([before, *ends], ends, strict=False)), default=0.0
        )

    def finish(self) -> None:
        self.done.set()
        self._thread.join(HANGS * 2)


def _wait(what: object, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not what():  # type: ignore[operator]
        if time.monotonic() > end:
            raise SystemExit("it does not come up")
        time.sleep(0.1)


def weather(way: Way, target: str, kind: str, options: argparse.Namespace) -> bool:
    """Cut one kind of cut, print what became of the session, and return whether it lived."""
    with attach_proxy(way.root, target) as proxy:
        stepping = Stepping(way.root, way.code, proxy.port)
        _wait(lambda: stepping.steps or stepping.trouble, 90)
        times, end = [], time.monotonic() + options.seconds
        while time.monotonic() < end and not stepping.trouble:
            began = time.monotonic()
            if kind == "silent":
                way.silence(options.silence)
            elif kind == "here":
                way.cut_here()
            else:
                way.cut_there()
            cut = time.monotonic()
            time.sleep(max(0.0, options.every - (cut - began)))
            _wait(lambda cut=cut: stepping.steps[-1][0] > cut or stepping.trouble, HANGS * 2)
            if not stepping.trouble:
                times.append(
                    max(0.0, stepping.pause_after(began) - (options.silence if kind == "silent" else 0))
                )
        stepping.finish()
        lost = [each["text"] for each in proxy.events if each["event"] == "over"]
        lived = "the session lived" if not stepping.trouble else f"DROPPED: {stepping.trouble}"
        print(
            f"{type(way).__name__:11} {kind:7} {len(times):3} cuts  usable again: median {statistics.median(times or [0]):5.2f} s  "
            f"worst {max(times or [0]):5.2f} s  {len(stepping.steps):6} steps  {lived} {lost or ''}", flush=True,
        )  # fmt: skip
        if proxy.end():
            print(f"{type(way).__name__}: dkdbg attach ended with an error", flush=True)
        return not stepping.trouble


def main() -> int:
    command = parser(__doc__)
    command.add_argument("ways", nargs="*", default=list(WAYS))
    command.add_argument("--seconds", type=float, default=300)
    command.add_argument("--every", type=float, default=10)
    command.add_argument("--silence", type=float, default=5, help="seconds of a silent cut")
    command.add_argument("--kinds", nargs="+", default=["here", "there", "silent"])
    options = parse(command, NEEDS, ways=["docker"], kinds=["here"], seconds=0.1, every=0.5)
    all_lived = True
    for name in options.ways:
        with tempfile.TemporaryDirectory(prefix="dkdbg-w-") as folder:
            way = WAYS[name](Path(folder))
            with way.up() as target:
                for kind in options.kinds:
                    all_lived &= weather(way, target, kind, options)
                way.leave()
                way_left = _left_after(way, 2 if options.smallest else 30)
                print(
                    f"{type(way).__name__:11} left while the program runs on, after attach has ended: {way_left or 'nothing but the program'}",
                    flush=True,
                )
    return 0 if all_lived else 1


def _left_after(way: Way, limit: float) -> list[str]:
    """What stays when the debugger has gone: the program and its agent may."""
    own = ("train.py", "agent-", "hook-", "debugpy", "run/dkdbg", "sshd", "ssh here", "<defunct>")
    end = time.monotonic() + limit
    while (
        found := [
            each for each in way.left() if not any(mark in each and "relay" not in each for mark in own)
        ]
    ) and time.monotonic() < end:
        time.sleep(0.5)
    return found


if __name__ == "__main__":
    sys.exit(main())
