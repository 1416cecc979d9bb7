"""What sync costs, beside docker compose watch, docker cp, tar and rsync, all in one run against one container.

usage: python benchmarks/sync.py [--smallest] [--files 10000] [--switch 2000] [--saves 20] [--rounds 3] [--large 2000] [--rest 10] [--only copy,start,save,large,switch,rest,ssh]

When something is visible is seen by a loop inside the container that writes down its own clock, which is the host's;
nothing is asked through docker while the clock runs. rsync runs through the same `docker exec -i` as ours, with a copy of
the host's rsync in the container. Only ratios mean anything on a shared machine; beside the seconds of a copy stand those
of CPU, of the command here with what it started, and in the container. The engine's own are in none of them. The rows over
ssh need an sshd (apt install openssh-server): one of our own on a port of 127.0.0.1, with keys that are made for it; what
is copied stays on this machine.
"""

from __future__ import annotations

import contextlib
import getpass
import os
import random
import resource
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from shared.options import parse, parser, rival

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NEEDS = ("docker", "git")
BASE = os.environ.get("DKDBG_TEST_BASE", "dkdbg-test/python:3.11")
CLI = str(Path(__file__).resolve().parent.parent / "cli")
#: As installed: with compiled files, which are not written beside the sources.
COMPILED = {
    "PYTHONPATH": CLI,
    "PYTHONPYCACHEPREFIX": str(Path(tempfile.gettempdir(), "dkdbg-bench-compiled")),
    "PYTHONDONTWRITEBYTECODE": "",
}
ENV = {**os.environ, **COMPILED}
DKDBG = [sys.executable, "-m", "dkdbg"]

# Prints "TOKEN SECONDS" as soon as every file of the list that it got holds the token that it waits for.
WATCHER = """
import sys, threading, time
def watch(token, left):
    while left:
        still = []
        for path in left:
            try:
                with open(path) as file:
                    if file.readline().strip() != token: still.append(path)
            except OSError: still.append(path)
        left = still
        time.sleep(0.0005)
    print(token, time.time(), flush=True)
for line in sys.stdin:
    token, paths = line.split(None, 1)
    threading.Thread(target=watch, args=(token, paths.split()), daemon=True).start()
"""


class Cost(NamedTuple):
    """What a command took: seconds, and seconds of CPU on both sides."""

    seconds: float
    cpu: float


def run(*words: str, cwd: Path | None = None, quiet: bool = True, env: dict[str, str] = ENV) -> float:
    """Seconds that a command took; it has to succeed."""
    began = time.perf_counter()
    done = subprocess.run(
        words, cwd=cwd, env=env, capture_output=quiet, text=True, check=False, stdin=subprocess.DEVNULL
    )
    took = time.perf_counter() - began
    if done.returncode:
        raise SystemExit(f"{' '.join(words)} ended with {done.returncode}\n{done.stdout}\n{done.stderr}")
    return took


class Box:
    """The container, and a process in it that sees when files change."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / f"bench{os.getpid()}"  # compose locks a project by its name
        self.root.mkdir()
        (self.root / "Dockerfile").write_text(f"FROM {BASE}\nRUN mkdir -p /watch\n")
        (self.root / ".dockerignore").write_text("many\n")
        (self.root / "compose.yaml").write_text(
            textwrap.dedent("""\
            services:
              app:
                build: .
                init: true
                command: sleep 100000
                develop:
                  watch: [{action: sync, path: ./code, target: /watch/code}]
            """)
        )
        (self.root / "code").mkdir()
        git(self.root, "init", "-q", "-b", "one")
        run("docker", "compose", "up", "-d", "--build", cwd=self.root)
        listed = subprocess.run(
            ["docker", "compose", "ps", "-q"], cwd=self.root, capture_output=True, text=True, check=True
        )
        self.name = listed.stdout.strip()
        self._eye: subprocess.Popen[str] | None = None
        self._seen: dict[str, float] = {}
        self._arrived = threading.Condition()

    def open_eye(self) -> None:
        """Start what sees files change. Not before it is needed: to dkdbg it is a process that may be a session's."""
        self._eye = subprocess.Popen(
            ["docker", "exec", "-i", self.name, "python3", "-c", WATCHER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._eye is not None
        assert self._eye.stdout is not None
        for line in self._eye.stdout:
            token, at = line.split()
            with self._arrived:
                self._seen[token] = float(at)
                self._arrived.notify_all()

    def visible(self, token: str, paths: list[str], act: Callable[[], object], limit: float = 120.0) -> float:
        """Seconds from the start of `act` until all `paths` begin with `token` in the container; inf after `limit`."""
        assert self._eye is not None
        assert self._eye.stdin is not None
        self._eye.stdin.write(f"{token} {' '.join(paths)}\n")
        self._eye.stdin.flush()
        time.sleep(0.05)
        began = time.time()
        act()
        with self._arrived:
            if not self._arrived.wait_for(lambda: token in self._seen, limit):
                return float("inf")
        return self._seen[token] - began

    def cost(self, *words: str) -> Cost:
        """What a command takes that works in the container; it has to succeed."""
        before = spent(resource.RUSAGE_CHILDREN) + self._spent()
        took = run(*words)
        return Cost(took, spent(resource.RUSAGE_CHILDREN) + self._spent() - before)

    def _spent(self) -> float:
        """CPU seconds that were used in the container."""
        pid = subprocess.run(
            ["docker", "inspect", "-f", "{{.State.Pid}}", self.name],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        group = Path("/proc", pid, "cgroup").read_text().strip().rpartition(":")[2].lstrip("/")
        old = Path("/sys/fs/cgroup/cpuacct", group, "cpuacct.usage")  # cgroup v1; ns
        if old.exists():
            return int(old.read_text()) / 1e9
        counted = dict(
            line.split() for line in Path("/sys/fs/cgroup", group, "cpu.stat").read_text().splitlines()
        )
        return int(counted["usage_usec"]) / 1e6

    def close(self) -> None:
        if self._eye is not None:
            self._eye.kill()
        subprocess.run(
            ["docker", "compose", "down", "-t", "0", "--rmi", "local"],
            cwd=self.root,
            capture_output=True,
            check=False,
        )


def spent(who: int) -> float:
    """CPU seconds of this process, or of its children that have ended."""
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


def git(root: Path, *words: str) -> None:
    who = ("-c", "user.name=b", "-c", "user.email=b@b", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *who, *words], cwd=root, check=True, capture_output=True)


@contextlib.contextmanager
def background(command: list[str], cwd: Path, ready: str) -> Iterator[subprocess.Popen[str]]:
    """A process that follows changes, from when its output says `ready`."""
    process = subprocess.Popen(
        command, cwd=cwd, env=ENV, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, stdin=subprocess.DEVNULL,
        start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None
    said = ""
    for line in process.stdout:
        said += line
        if ready in line:
            break
    else:
        raise SystemExit(f"{command} said:\n{said}")
    threading.Thread(target=process.stdout.read, daemon=True).start()
    try:
        yield process
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(5)
        process.kill()


def followers(
    box: Box, rsync: str
) -> dict[str, Callable[[], contextlib.AbstractContextManager[subprocess.Popen[str]]]]:
    """What follows changes, by name; each has its own folder in the container."""
    loop = f"while :; do {' '.join(rsync_words(box, box.root / 'code', '/rsync/code'))} && echo round; sleep 0.1; done"
    found = {
        "dkdbg": lambda: background(
            [*DKDBG, "sync", f"docker://{box.name}", "--to", "/dkdbg", "--json"], box.root, "in_sync"
        ),
        "compose watch": lambda: background(
            ["docker", "compose", "watch", "--no-up"], box.root, "Watch enabled"
        ),
    }
    if rsync:
        found["rsync loop"] = lambda: background(["sh", "-c", loop], box.root, "round")
    return found


PLACES = {"dkdbg": "/dkdbg/code", "compose watch": "/watch/code", "rsync loop": "/rsync/code"}


def saves(box: Box, count: int) -> dict[str, list[float]]:
    """Milliseconds from a save until the container sees it. A loop of rsync misses saves of one size in one second."""
    found = {}
    for name, start in followers(box, rsync="").items():
        with start():
            time.sleep(1.0)
            taken = []
            for number in range(count + 1):
                token = f"{name.replace(' ', '-')}-{number}"
                path = box.root / "code" / "train.py"
                took = box.visible(
                    token,
                    [f"{PLACES[name]}/train.py"],
                    lambda path=path, token=token: path.write_text(f"{token}\n"),
                    10,
                )
                taken.append(took * 1000)
                time.sleep(random.uniform(0.02, 0.2))
            found[name] = taken[1:]  # the first one opens what the others find open
    return found


def first_copies(box: Box, rounds: int) -> dict[str, list[Cost]]:
    """What a first copy of `many/` costs, each into a folder of its own that never held anything."""
    many = box.root / "many"
    found: dict[str, list[Cost]] = {"dkdbg": [], "docker cp": [], "tar": []}
    for number in range(rounds):
        found["dkdbg"].append(
            box.cost(
                *DKDBG,
                "-C",
                str(many),
                "sync",
                f"docker://{box.name}",
                "--to",
                f"/many/dkdbg{number}",
                "--once",
            )
        )
        run("docker", "exec", box.name, "mkdir", "-p", f"/many/cp{number}", f"/many/tar{number}")
        found["docker cp"].append(box.cost("docker", "cp", f"{many}/.", f"{box.name}:/many/cp{number}"))
        pipe = f"tar -C '{many}' -c . | docker exec -i {box.name} tar -C /many/tar{number} -x"
        found["tar"].append(box.cost("sh", "-c", pipe))
    return found


def rsync_words(box: Box, source: Path, target: str) -> list[str]:
    """rsync into the container through `docker exec -i`, with the copy of rsync that `bring_rsync` made."""
    there = f"{box.name}:{target}/"
    return [
        "rsync",
        "-a",
        "--delete",
        "--blocking-io",
        "-e",
        "'docker exec -i'",
        "--rsync-path=/opt/rsync/run",
        f"{source}/",
        there,
    ]


def bring_rsync(box: Box, folder: Path, rsync: str) -> None:
    """Put the host's rsync and its libraries into the container."""
    place = folder / "rsync"
    (place / "lib").mkdir(parents=True)
    shutil.copy(rsync, place / "rsync")
    for line in subprocess.run(
        ["ldd", rsync], capture_output=True, text=True, check=True
    ).stdout.splitlines():
        for word in line.split():
            if word.startswith("/"):
                shutil.copy(word, place / "lib")
                if "ld-" in word:
                    shutil.copy(word, place / "loader")
    (place / "run").write_text(
        '#!/bin/sh\nexec /opt/rsync/loader --library-path /opt/rsync/lib /opt/rsync/rsync "$@"\n'
    )
    (place / "run").chmod(0o755)
    run("docker", "cp", str(place), f"{box.name}:/opt/rsync")
    run("docker", "exec", box.name, "mkdir", "-p", "/rsync/code", "/many/rsync")


def unchanged(box: Box, rounds: int, rsync: str) -> dict[str, list[Cost]]:
    """What a start costs when nothing has changed."""
    many = box.root / "many"
    ours = [*DKDBG, "-C", str(many), "sync", f"docker://{box.name}", "--to", "/many/dkdbg0", "--once"]
    theirs = ["sh", "-c", " ".join(rsync_words(box, many, "/many/rsync"))]
    run(*ours)
    found: dict[str, list[Cost]] = {"dkdbg": []}
    if rsync:
        run(*theirs)
        found["rsync -a"] = []
    for _ in range(rounds + 2):
        found["dkdbg"].append(box.cost(*ours))
        if rsync:
            found["rsync -a"].append(box.cost(*theirs))
    return found


def saves_beside(box: Box, megabytes: int) -> dict[str, list[float]]:
    """Milliseconds from a save until the container sees it, while a large file is on its way."""
    root = box.root / "mixed"
    root.mkdir()
    (root / "dkdbg.toml").write_text(f'[sync]\nmax_size = "{2 * megabytes} MB"\n')
    following = [*DKDBG, "sync", f"docker://{box.name}", "--to", "/mixed", "--json"]
    taken: list[float] = []
    with background(following, root, "in_sync"):
        with (box.root / "large").open("wb") as file:
            for _ in range(megabytes):
                file.write(random.randbytes(1 << 20))
        (box.root / "large").rename(root / "large")
        began = time.perf_counter()
        while not taken or not arrived(box, "/mixed/large"):
            token = f"beside-{len(taken)}"
            path = root / "train.py"
            taken.append(
                1000
                * box.visible(
                    token, ["/mixed/train.py"], lambda path=path, token=token: path.write_text(f"{token}\n")
                )
            )
            time.sleep(random.uniform(0.02, 0.2))
        print(f"{megabytes} MB took {time.perf_counter() - began:.1f} s", flush=True)
    (root / "large").unlink()
    return {"dkdbg": taken}


def arrived(box: Box, path: str) -> bool:
    """Whether a file is there."""
    return not subprocess.run(["docker", "exec", box.name, "test", "-e", path], check=False).returncode


@contextlib.contextmanager
def server(folder: Path) -> Iterator[dict[str, str] | None]:
    """The environment in which `ssh bench` reaches this machine, as this user; None when there is no sshd."""
    program = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin:/usr/local/sbin")
    real = shutil.which("ssh")
    if program is None or real is None:
        yield None
        return
    (folder / "bin").mkdir(parents=True)
    (folder / "home").mkdir()  # what the user's shell does when it starts is not what is measured
    for key in ("host", "user"):
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / key))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (folder / "sshd_config").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {folder}/host\nAuthorizedKeysFile {folder}/user.pub\nPidFile none\n"
        "AuthenticationMethods publickey\nUsePAM no\nStrictModes no\nPermitRootLogin prohibit-password\n"
        f"SetEnv HOME={folder}/home\n"
    )
    (folder / "known").write_text(f"[127.0.0.1]:{port} {(folder / 'host.pub').read_text()}")
    (folder / "config").write_text(
        f"Host bench\nHostName 127.0.0.1\nPort {port}\nUser {getpass.getuser()}\nIdentityFile {folder}/user\n"
        f"IdentitiesOnly yes\nUserKnownHostsFile {folder}/known\nStrictHostKeyChecking yes\nBatchMode yes\n"
    )
    (folder / "bin" / "ssh").write_text(f'#!/bin/sh\nexec {real} -F {folder}/config "$@"\n')
    (folder / "bin" / "ssh").chmod(0o755)
    if not os.getuid():
        Path("/run/sshd").mkdir(
            mode=0o755, exist_ok=True
        )  # where the server of root goes before it knows who asks
    process = subprocess.Popen([program, "-D", "-f", str(folder / "sshd_config"), "-E", str(folder / "log")])
    env = {**ENV, "PATH": f"{folder}/bin:{os.environ['PATH']}"}
    try:
        for _ in range(100):
            if not subprocess.run(
                ["ssh", "bench", "true"], env=env, capture_output=True, check=False
            ).returncode:
                break
            time.sleep(0.1)
        else:
            raise SystemExit(f"no sshd:\n{(folder / 'log').read_text()}")
        yield env
    finally:
        for session in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
            os.kill(int(session), signal.SIGTERM)  # of connections that are kept for the next command
        process.terminate()
        process.wait()


def over_ssh(many: Path, folder: Path, rounds: int, rsync: str, env: dict[str, str]) -> None:
    """First copies and starts without changes, to a folder of this machine."""
    copies: dict[str, list[float]] = {"dkdbg": [], "tar": []}
    starts: dict[str, list[float]] = {"dkdbg": []}
    if rsync:
        copies["rsync -a"], starts["rsync -a"] = [], []

    def ours(number: int) -> float:
        return run(
            *DKDBG,
            "-C",
            str(many),
            "sync",
            "ssh://bench",
            "--to",
            f"{folder}/dkdbg{number}",
            "--once",
            env=env,
        )

    def theirs(number: int) -> float:
        return run("rsync", "-a", "--delete", f"{many}/", f"bench:{folder}/rsync{number}/", env=env)

    for number in range(rounds):
        copies["dkdbg"].append(ours(number))
        (folder / f"tar{number}").mkdir()
        copies["tar"].append(
            run("sh", "-c", f"tar -C '{many}' -c . | ssh bench tar -C {folder}/tar{number} -x", env=env)
        )
        if rsync:
            copies["rsync -a"].append(theirs(number))
    for _ in range(rounds + 2):
        starts["dkdbg"].append(ours(0))
        if rsync:
            starts["rsync -a"].append(theirs(0))
    show("first copy over ssh", copies, "s")
    show("start without changes over ssh", starts, "s")


def switches(box: Box, count: int, rounds: int, rsync: str) -> dict[str, list[float]]:
    """Seconds from the start of `git checkout` until the container has all of the other branch."""
    for branch in ("one", "two"):
        if branch == "two":
            git(box.root, "checkout", "-qb", "two")
        for number in range(count):
            path = box.root / "code" / f"p{number // 100}" / f"m{number}.py"
            path.parent.mkdir(exist_ok=True)
            path.write_text(f"{branch}\n" + f"x = {number}\n" * 50)
        git(box.root, "add", "code")
        git(box.root, "commit", "-qm", branch)
    found = {}
    for name, start in followers(box, rsync).items():
        git(box.root, "checkout", "-q", "two")
        files = [f"{PLACES[name]}/p{number // 100}/m{number}.py" for number in range(count)]
        with start():
            time.sleep(1.0)
            taken = []
            for turn in range(rounds * 2):
                branch = ("one", "two")[turn % 2]
                box._seen.pop(branch, None)  # noqa: SLF001
                taken.append(
                    box.visible(branch, files, lambda branch=branch: git(box.root, "checkout", "-q", branch))
                )
                time.sleep(1.5)
            found[name] = taken
            if float("inf") in taken:
                return found
    return found


def at_rest(box: Box, seconds: float) -> dict[str, float]:
    """CPU milliseconds a second of the processes here, and in the container of what they started there."""
    found = {}
    for name, start in followers(box, rsync="").items():
        with start() as process:
            time.sleep(3.0)
            before = cpu(process.pid, box)
            time.sleep(seconds)
            found[name] = (cpu(process.pid, box) - before) / seconds * 1000
    return found


def cpu(group: int, box: Box) -> float:
    """CPU seconds of a process group here and of all receivers in the container."""
    top = subprocess.run(
        ["docker", "top", box.name, "-eo", "pid,args"], capture_output=True, text=True, check=True
    ).stdout
    inside = [int(line.split()[0]) for line in top.splitlines()[1:] if "io.FileIO(0" in line]
    total = 0.0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError):
            columns = stat.read_text().rpartition(")")[2].split()
            if int(columns[2]) == group or int(stat.parent.name) in inside:
                total += (int(columns[11]) + int(columns[12])) / os.sysconf("SC_CLK_TCK")
    return total


def show_costs(title: str, found: dict[str, list[Cost]]) -> None:
    """Seconds, and those of CPU."""
    show(title, {name: [cost.seconds for cost in costs] for name, costs in found.items()}, "s")
    show(f"{title}, CPU", {name: [cost.cpu for cost in costs] for name, costs in found.items()}, "s")


def show(title: str, found: dict[str, list[float]], unit: str) -> None:
    """Medians, and the others as a ratio to ours."""
    ours = statistics.median(found["dkdbg"])
    print(f"{title} ({unit}, median of {len(found['dkdbg'])})")
    for name, values in found.items():
        middle = statistics.median(values)
        print(
            f"  {name:14} {middle:9.3f}   {middle / ours:7.2f} x ours   from {min(values):.3f} to {max(values):.3f}",
            flush=True,
        )


def main() -> None:
    command = parser(__doc__)
    command.add_argument("--files", type=int, default=10_000)
    command.add_argument("--switch", type=int, default=2_000)
    command.add_argument("--saves", type=int, default=20)
    command.add_argument("--rounds", type=int, default=3)
    command.add_argument(
        "--large", type=int, default=2_000, help="MB of the file beside which saves are made"
    )
    command.add_argument("--rest", type=float, default=10, help="seconds in which nothing changes")
    command.add_argument("--only", default="copy,start,save,large,switch,rest,ssh")
    options = parse(command, NEEDS, files=20, switch=5, saves=1, rounds=1, only="copy,save,switch,ssh")
    dice, wanted = random.Random(1), options.only.split(",")
    rsync = rival("rsync")
    with tempfile.TemporaryDirectory(prefix="dkdbg-bench-") as name:
        folder = Path(name)
        box = Box(folder)
        try:
            for number in range(options.files):
                path = (
                    box.root / "many" / f"pkg{number // 500}" / f"sub{number // 50 % 10}" / f"mod{number}.py"
                )
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(dice.randbytes(dice.randint(200, 10_000)))
            if rsync:
                bring_rsync(box, folder, rsync)
            if "copy" in wanted:
                show_costs(f"first copy of {options.files} files", first_copies(box, options.rounds))
            if "start" in wanted:
                show_costs(
                    f"start with {options.files} unchanged files", unchanged(box, options.rounds, rsync)
                )
            if "ssh" in wanted:
                (folder / "far").mkdir()
                with server(folder / "sshd") as env:
                    if env is None:
                        print("left out: no sshd (apt install openssh-server)", flush=True)
                    else:
                        over_ssh(box.root / "many", folder / "far", options.rounds, rsync, env)
            shutil.rmtree(box.root / "many")
            box.open_eye()
            if "save" in wanted:
                show("save to visible", saves(box, options.saves), "ms")
            if "large" in wanted:
                show(
                    f"save to visible beside a file of {options.large} MB",
                    saves_beside(box, options.large),
                    "ms",
                )
            if "switch" in wanted:
                show(
                    f"branch switch of {options.switch} files",
                    switches(box, options.switch, options.rounds, rsync),
                    "s",
                )
            for follower, used in at_rest(box, options.rest).items() if "rest" in wanted else ():
                print(f"CPU at rest: {follower:14} {used:6.2f} ms a second", flush=True)
        finally:
            box.close()


if __name__ == "__main__":
    main()
