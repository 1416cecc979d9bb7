"""Small repositories for the engine tests, and one way to run them: init, up, attach, stop, down."""

import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dkdbg.dap.debugger import Debugger
from dkdbg.dap.values import AttachOptions, Stop
from dkdbg.setup.plan.editor import ATTACH_NAME
from dkdbg.setup.render import jsonc
from tests.checkout import checkout
from tests.commands import command, must
from tests.leftovers import unique
from tests.pages import interrupted

MARK = "# breakpoint"
LOOP = """\
    import time


    def step(n):
        loss = 1.0 / (n + 1)
        return loss  # breakpoint


    if __name__ == "__main__":
        for n in range(100000):
            step(n)
            time.sleep(0.01)
    """


def write(root: Path, **files: str) -> Path:
    """Write files below `root`; `__` in a name stands for a slash, a trailing `_` keeps keywords apart."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
    return root


def repo(root: Path, files: dict[str, str]) -> Path:
    """A repository with `files` at `root`; their text may be indented."""
    return checkout(root, {name: textwrap.dedent(text) for name, text in files.items()})


def dkdbg(
    root: Path, *words: str, env: dict[str, str] | None = None, text: str = ""
) -> subprocess.CompletedProcess[str]:
    """`dkdbg ...` as a user runs it, in `root`."""
    return command([sys.executable, "-m", "dkdbg", *words], root, env=env, text=text, check=False)


def start(root: Path, *words: str, **streams: Any) -> subprocess.Popen[Any]:
    """Start `dkdbg ...` in `root`, without input; its outputs are pipes of text unless `streams` say otherwise."""
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([sys.executable, "-m", "dkdbg", *words], cwd=root, **pipes | streams)


@contextmanager
def started(root: Path, *words: str, **streams: Any) -> Iterator[subprocess.Popen[Any]]:
    """Start `dkdbg ...` as `start` does; at the end it gets a Ctrl-C, if it still runs."""
    running = start(root, *words, **streams)
    with interrupted(running):
        yield running


@dataclass(frozen=True)
class Stopped:
    """Where a debugger stopped, local side."""

    path: str
    line: int
    function: str
    values: dict[str, str]


def marked_line(file: Path) -> int:
    """Number of the line that carries the mark."""
    return next(number for number, line in enumerate(file.read_text().splitlines(), 1) if MARK in line)


def launch_options(root: Path, folder: str = "") -> AttachOptions:
    """The attach entry of launch.json, as an editor reads it that has `root` open, by the name `folder` if given."""
    entries = jsonc.loads((root / ".vscode/launch.json").read_text())["configurations"]
    entry = next(each for each in entries if each["name"] == ATTACH_NAME)
    mappings = tuple(
        (pair["localRoot"].replace("${workspaceFolder}", folder or str(root)), pair["remoteRoot"])
        for pair in entry["pathMappings"]
    )
    return AttachOptions(
        host=entry["connect"]["host"], port=entry["connect"]["port"], path_mappings=mappings,
        just_my_code=entry["justMyCode"], sub_process=entry["subProcess"],
    )  # fmt: skip


def at(port: int, root: Path, remote: str) -> AttachOptions:
    """Return the options to attach at a port of this machine, with `root` where the program has `remote`."""
    return AttachOptions(port=port, path_mappings=((str(root), remote),))


@contextmanager
def stopped_in(file: Path, options: AttachOptions, line: int = 0) -> Iterator[tuple[Debugger, Stop]]:
    """Attach, and wait for a stop at a line of `file`, the marked one by default; at the end the program goes on."""
    with Debugger(options) as debugger:
        debugger.set_breakpoints(str(file), [line or marked_line(file)])
        debugger.attach()
        yield debugger, debugger.wait_stopped(300)


def stop_in(root: Path, file: str, options: AttachOptions | None = None) -> Stopped:
    """Attach (by launch.json without options), stop at the marked line of `file`, and let the program go on."""
    with stopped_in(root / file, options or launch_options(root)) as (debugger, stop):
        top = debugger.stack(stop)[0]
        return Stopped(
            path=top.path or "", line=top.line, function=top.name, values=debugger.local_values(top)
        )


def container(root: Path) -> str:
    """The id of the debug service's container; empty where none runs."""
    return command(["docker", "compose", "--profile", "debug", "ps", "-q"], root).stdout.strip()


def take_away(root: Path, env: dict[str, str]) -> None:
    """Remove the compose project of `root`, its images and volumes; after `init --undo` no file says any more what it is."""

    def docker(*words: str) -> subprocess.CompletedProcess[str]:
        return command(["docker", *words], root, env=env, check=False)

    label = f"label=com.docker.compose.project={root.name}"
    # What `dkdbg run` has started, where it was ended before its program.
    if left := docker(
        "ps", "-aq", "--filter", label, "--filter", "label=com.docker.compose.oneoff=True"
    ).stdout.split():
        docker("rm", "-f", *left)
    if docker("compose", "--profile", "*", "down", "--rmi", "local", "--volumes", "-t", "2").returncode:
        docker("compose", "-p", root.name, "down", "--volumes", "-t", "2")
        if images := docker("image", "ls", "-q", "--filter", label).stdout.split():
            docker("image", "rm", "-f", *images)
    # The workspace on a remote engine, which outlives `down`.
    if volumes := docker("volume", "ls", "-q", "--filter", f"name={root.name}_").stdout.split():
        docker("volume", "rm", "-f", *volumes)


@contextmanager
def project(
    root: Path, files: dict[str, str], *words: str, env: dict[str, str] | None = None
) -> Iterator[Path]:
    """A repository, set up by `dkdbg WORDS` if there are any; what it starts and builds is taken away afterwards."""
    repo(root, files)
    try:
        if words:
            must(dkdbg(root, *words, env=env))
        yield root
    finally:
        take_away(root, env or {})


@contextmanager
def running(root: Path, base: str, *, env: dict[str, str] | None = None) -> Iterator[None]:
    """`dkdbg up` in `root`, and everything taken away afterwards."""
    settings = {"DKDBG_BASE": base, **(env or {})}
    try:
        must(dkdbg(root, "up", env=settings))
        yield
    finally:
        take_away(root, settings)


@contextmanager
def distroless(base: str, folder: Path) -> Iterator[str]:
    """An image with a Python and nothing else: no shell, no PATH, no coreutils."""
    tag = unique("dkdbg-test/distroless/python3")
    (folder / "Dockerfile").write_text(
        textwrap.dedent(f"""\
        FROM {base} AS full
        RUN mkdir /only && cp -a --parents /usr/bin/python3* /usr/lib/python3* \\
              /lib/*-linux-gnu/libgcc_s.so.1 /only && \\
            for l in $(ldd /usr/bin/python3 /usr/lib/python3*/lib-dynload/*.so | grep -o '/[^ ]*' | grep '\\.so' | sort -u); do \\
              [ -e "$l" ] && cp -L --parents "$l" /only; done; ls -l /only
        FROM scratch
        COPY --from=full /only /
        ENV PATH=/nowhere
        ENTRYPOINT ["/usr/bin/python3", "-c", "import time; time.sleep(100000)"]
        """)
    )
    command(["docker", "build", "-q", "-t", tag, "."], folder)
    try:
        yield tag
    finally:
        command(["docker", "rmi", "-f", tag], folder, check=False)
