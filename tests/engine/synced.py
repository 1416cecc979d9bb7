"""Containers without a mount, and `dkdbg sync` as a user runs it."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.commands import command
from tests.engine.projects import dkdbg


def docker(*words: str, stdin: str = "", check: bool = True) -> str:
    """Run docker and return all of what it prints."""
    return command(["docker", *words], text=stdin, check=check).stdout


class Box:
    """One running container."""

    def __init__(self, name: str) -> None:
        self.name = name

    def sh(self, script: str) -> str:
        """What a shell script says in it, as root."""
        return docker("exec", "-u", "0", self.name, "sh", "-c", script)

    def read(self, path: str) -> str:
        """A file's content; empty when there is none."""
        return docker("exec", "-u", "0", self.name, "cat", path, check=False)

    def tree(self, root: str) -> dict[str, str]:
        """path -> `kind mode content` of everything below `root` but sync's own, as Python there sees it.

        A file that goes while the tree is read is `gone`.
        """
        script = (
            "import os,sys,json,hashlib\n"
            "out={}\n"
            "for at,ds,fs in os.walk(sys.argv[1]):\n"
            "    ds[:]=[d for d in ds if d!='.dkdbg-sync']\n"
            "    for n in ds+fs:\n"
            "        p=os.path.join(at,n); r=os.path.relpath(p,sys.argv[1])\n"
            "        try:\n"
            "            if os.path.islink(p): out[r]='l '+os.readlink(p)\n"
            "            elif os.path.isdir(p): out[r]='d'\n"
            "            else:\n"
            "                digest=hashlib.sha256(open(p,'rb').read()).hexdigest()\n"
            "                out[r]='f %o %s'%(os.lstat(p).st_mode&0o777,digest)\n"
            "        except FileNotFoundError: out[r]='gone'\n"
            "print(json.dumps(out))\n"
        )
        return json.loads(docker("exec", "-u", "0", self.name, "python3", "-c", script, root))


def local_tree(root: Path) -> dict[str, str]:
    """The same of a local folder, `.git` left out."""
    import hashlib

    out = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if name == ".git" or name.startswith(".git/"):
            continue
        if path.is_symlink():
            out[name] = f"l {path.readlink()}"
        elif path.is_dir():
            out[name] = "d"
        else:
            out[name] = f"f {path.stat().st_mode & 0o777:o} {hashlib.sha256(path.read_bytes()).hexdigest()}"
    return out


def run_box(name: str, image: str, *flags: str) -> Box:
    """A container that does nothing, under `name`."""
    docker("run", "-d", "--init", "--name", name, *flags, image, "sleep", "100000")
    return Box(name)


def take_away(name: str) -> None:
    """Remove a container, if it is there."""
    docker("rm", "-f", "-v", name, check=False)


def sync(root: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """`dkdbg sync ...` that ends by itself."""
    return dkdbg(root, "sync", *words)


class Following:
    """A running `dkdbg sync --json`."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.events: list[dict[str, object]] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self.process.stdout:
            self.events.append(json.loads(line))

    def named(self, name: str) -> list[dict[str, object]]:
        """The events of one name so far."""
        return [event for event in list(self.events) if event["event"] == name]

    def wait(self, condition: Callable[[], object], what: str, seconds: float = 300) -> None:
        """Return when `condition` holds; fail when it does not within `seconds` or sync has ended."""
        deadline = time.monotonic() + seconds
        while not condition():
            assert self.process.poll() is None, (
                f"sync ended with {self.process.returncode}: {self.events[-5:]} {self.rest()}"
            )
            assert time.monotonic() < deadline, f"{what}: {self.events[-8:]}"
            time.sleep(0.02)

    def rest(self) -> str:
        """Its standard error, when it has ended."""
        return self.process.stderr.read()

    def stop(self) -> int:
        """Ctrl-C; the exit code."""
        self.process.send_signal(signal.SIGINT)
        code = self.process.wait(300)
        self._reader.join(300)
        return code


@contextmanager
def following(root: Path, *words: str) -> Iterator[Following]:
    """As `starting`, in sync once."""
    with starting(root, *words) as followed:
        followed.wait(lambda: followed.named("in_sync"), "in sync once")
        yield followed


@contextmanager
def starting(root: Path, *words: str) -> Iterator[Following]:
    """`dkdbg sync --json ...` in the background, killed with -9 afterwards."""
    process = subprocess.Popen(
        [sys.executable, "-m", "dkdbg", "sync", "--json", *words], cwd=root, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, env=dict(os.environ),
    )  # fmt: skip
    try:
        yield Following(process)
    finally:
        process.kill()
        process.wait()
