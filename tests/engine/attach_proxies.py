"""`dkdbg attach` as a user runs it, and containers with the agent in them."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from dkdbg.dap.values import AttachOptions
from dkdbg.delivery import single_file
from tests.agent.dap_probe import wait_for
from tests.commands import command
from tests.leftovers import unique
from tests.needs import give_up
from tests.pages import environment
from tests.ports import free_port
from tests.pythons import IMAGES
from tests.typed import Typed, typed

WORK = "/w"


class TypedRun(NamedTuple):
    """A `dkdbg run ... --attach ...` that waits for its editor at a port of this machine."""

    port: int
    typed: Typed


class AttachProxy:
    """A running `dkdbg attach --json`."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.events: list[dict[str, Any]] = []
        self.changed = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self.process.stdout:
            with self.changed:
                self.events.append(json.loads(line))
                self.changed.notify_all()

    @property
    def port(self) -> int:
        return int(self.wait("listening")["port"])

    def wait(self, kind: str, timeout: float = 300, **fields: object) -> dict[str, Any]:
        """Return the first event of this kind with these fields."""
        return self.wait_for(lambda each: each["event"] == kind and fields.items() <= each.items(), timeout)

    def wait_for(self, fits: Callable[[dict[str, Any]], bool], timeout: float = 300) -> dict[str, Any]:
        """Return the first event that fits."""

        def found() -> dict[str, Any] | None:
            return next((each for each in self.events if fits(each)), None)

        with self.changed:
            assert self.changed.wait_for(lambda: found() is not None, timeout), self.events
            return found() or {}

    def descriptors(self) -> int:
        """Number of its open files and sockets."""
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))

    def end(self) -> int:
        """Press Ctrl-C and return the exit code."""
        self.process.send_signal(signal.SIGINT)
        code = self.process.wait(300)
        self._reader.join(300)
        return code


@contextmanager
def attach_proxy(
    root: Path, *targets: str, options: tuple[str, ...] = (), port: int = 0
) -> Iterator[AttachProxy]:
    """`dkdbg attach TARGET ... --json` in `root`, listening."""
    words = ["attach", *targets, "--port", str(port or free_port()), "--json", *options]
    with proxy_of([sys.executable, "-m", "dkdbg", *words], root) as proxy:
        proxy.wait("listening")
        yield proxy


@contextmanager
def proxy_of(words: list[str], cwd: Path, env: Mapping[str, str] | None = None) -> Iterator[AttachProxy]:
    """A command that is a `dkdbg attach --json`, ended by Ctrl-C; only the proxy reads its output."""
    late = {"DKDBG_JOIN_DEADLINE": "60", **(os.environ if env is None else env)}  # see Containers.run
    process = subprocess.Popen(
        words, cwd=cwd, env=late, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
    )
    proxy = AttachProxy(process)
    try:
        yield proxy
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(300)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@contextmanager
def typed_proxy(root: Path, line: str) -> Iterator[AttachProxy]:
    """Run a typed `dkdbg attach ...` line in `root`, with `--json` at a free port."""
    words = ["sh", "-c", f"exec {line} --json --port {free_port()}"]
    with proxy_of(words, root, environment()) as proxy:
        proxy.wait("listening")
        yield proxy


@contextmanager
def typed_run(root: Path, line: str) -> Iterator[TypedRun]:
    """Run a typed `dkdbg run ... --attach ... -- CMD` line in `root`, at a free port, until it listens there."""
    port = free_port()
    with typed(root, line.replace(" --attach ", f" --attach {port} ", 1), root / "typed.log") as made:
        made.wait("attach an editor to")
        yield TypedRun(port, made)


@contextmanager
def ready_proxy(root: Path, target: str, port: int = 0) -> Iterator[AttachProxy]:
    """As `attach_proxy`, for a target that is ready at the first look, so that no line reports that it is not."""
    end = time.monotonic() + 300
    while True:
        with attach_proxy(root, target, port=port) as proxy:
            if proxy.wait("target")["ready"]:
                yield proxy
                return
        assert time.monotonic() < end, proxy.events


def lay_out(root: Path, **files: str) -> Path:
    """`root` with the agent in `.dkdbg`, and files."""
    file = root / ".dkdbg" / single_file.NAME
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(single_file.build((3, 11)))
    for name, text in files.items():
        (root / f"{name}.py").write_text(text)
    return root


def docker(*words: str, stdin: str = "", check: bool = True) -> str:
    """Run docker and return what it prints."""
    return command(["docker", *words], text=stdin, check=check).stdout.strip()


def without_ptrace(folder: Path) -> tuple[str, str]:
    """Options of a container whose system lets nobody look into a process."""
    profile = folder / "seccomp.json"
    denied = {"names": ["ptrace", "process_vm_readv"], "action": "SCMP_ACT_ERRNO", "errnoRet": 1}
    profile.write_text(json.dumps({"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [denied]}))
    return "--security-opt", f"seccomp={profile}"


def newest_image() -> str:
    """The image of the newest Python; where it could not be built the test is skipped, in CI it fails."""
    if not docker("images", "-q", IMAGES[14]):
        give_up(f"no image {IMAGES[14]}: .ci/base-image")
    return IMAGES[14]


class Containers:
    """Containers with the agent, as in debug services; removed at the end.

    Args:
        root: what `lay_out` has made; mounted at WORK.
    """

    def __init__(self, root: Path, base: str) -> None:
        self.root, self.base = root, base
        self.names: list[str] = []

    def run(
        self,
        *command: str,
        name: str = "",
        publish: bool = True,
        flags: tuple[str, ...] = (),
        **settings: str,
    ) -> str:
        """Start the command under the agent and return the container's name.

        Args:
            flags: of `docker run`, besides. settings: variables of its environment.
        """
        name = name or self.name()
        environment = {
            "DKDBG_HOST": "0.0.0.0",
            "DKDBG_NAME": name,
            "DKDBG_RUNTIME_DIR": "/tmp/dkdbg",
            "DKDBG_WAIT": "300",
            # On a machine that stalls for seconds an editor's child session is late.
            "DKDBG_JOIN_DEADLINE": "60",
        }
        variables = [
            flag for key, value in {**environment, **settings}.items() for flag in ("-e", f"{key}={value}")
        ]
        ports = ["-p", "127.0.0.1:0:5678"] if publish else []
        docker(
            "run", "-d", "--init", "--name", name, "--label", f"dev.dkdbg.session={name}", "-w", WORK,
            "-v", f"{self.root}/.dkdbg:/opt/dkdbg:ro", "-v", f"{self.root}:{WORK}", *variables, *flags, *ports, self.base,
            "sh", "/opt/dkdbg/agent.pyz", "launch", "--", *command,
        )  # fmt: skip
        return name

    def name(self) -> str:
        """Return a name for a future container."""
        self.names.append(unique("dkdbg-test-attach"))
        return self.names[-1]

    def wait_ready(self, name: str) -> None:
        """Wait until an attach to the container would work."""
        health = ["docker", "exec", name, "sh", "/opt/dkdbg/agent.pyz", "health"]
        wait_for(
            lambda: subprocess.run(health, check=False, capture_output=True),
            lambda done: done.returncode == 0,
        )

    def options(self, port: int, **extra: object) -> AttachOptions:
        """Return the options to attach through the proxy's port."""
        return AttachOptions(port=port, path_mappings=((str(self.root), WORK),), extra=extra)

    def remove(self) -> None:
        """Remove all containers."""
        for name in self.names:
            docker("rm", "-f", name, check=False)
