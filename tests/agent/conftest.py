"""What the tests of the agent share: a laid-out agent as a container sees it, and launching it."""

import contextlib
import functools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from dkdbg.dap.debugger import Debugger
from dkdbg.dap.values import AttachOptions
from dkdbg.delivery import single_file
from dkdbg.errors import DkdbgError
from tests.commands import command
from tests.frameworks import python_with
from tests.openpai import rest
from tests.pythons import need
from tests.terminals import terminal


def lay_out(root: Path, python: tuple[int, int] = sys.version_info[:2]) -> Path:
    """Write the agent into a new folder, as `dkdbg init` checks it in for an image with this Python."""
    root.mkdir()
    (root / single_file.NAME).write_bytes(single_file.build(python))
    (root / single_file.NAME).chmod(0o755)
    return root


@pytest.fixture(scope="session")
def layout(tmp_path_factory):
    """The folder that `dkdbg init` checks in and the debug service mounts at /opt/dkdbg."""
    return lay_out(tmp_path_factory.mktemp("opt") / "dkdbg")


@pytest.fixture(scope="session")
def old_layout(tmp_path_factory):
    """A layout with the debugpy for old Pythons, as `dkdbg init` makes it for an image that needs it."""
    try:
        return lay_out(tmp_path_factory.mktemp("old") / "dkdbg", (3, 8))
    except DkdbgError as error:
        pytest.skip(f"no debugpy 1.8.21 from the package index: {error}")


@pytest.fixture(scope="session")
def runtime(tmp_path_factory):
    """One runtime folder for all launches: debugpy is unpacked and compiled once."""
    return tmp_path_factory.mktemp("run")


@pytest.fixture
def session(tmp_path):
    """The folder of a session without an agent, which a hook announces its process to."""
    folder = tmp_path / "s"
    (folder / "p").mkdir(parents=True)
    return folder


@pytest.fixture
def pai_server(monkeypatch):
    """A stand-in for OpenPAI's server, which dkdbg may ask."""
    monkeypatch.setenv("DKDBG_PAI_HTTP", "1")
    monkeypatch.setenv("DKDBG_PAI_TOKEN", rest.TOKEN)
    with rest.serving() as found:
        yield found


@pytest.fixture
def begin():
    """Begin processes with pipes of text for their output; they and what they have started are killed with the test."""
    begun: list[subprocess.Popen[str]] = []

    def start(words, **more):
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        begun.append(subprocess.Popen(words, text=True, start_new_session=True, **streams, **more))
        return begun[-1]

    yield start
    for each in begun:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(each.pid, signal.SIGKILL)
        each.communicate()


class Launch:
    def __init__(self, process: subprocess.Popen[bytes], runtime: Path, name: str) -> None:
        self.process, self.runtime, self.name = process, runtime, name
        self.script = ""

    @functools.cached_property
    def port(self) -> int:
        """The port for an editor, once the agent has begun."""
        return int(self.wait_state("waiting", "running", "attached", "idle")["port"])

    def record(self) -> dict[str, Any]:
        for path in self.runtime.glob(f"{self.name}-*/session.json"):
            return dict(json.loads(path.read_text()))
        return {}

    def wait_state(self, *states: str, timeout: float = 300) -> dict[str, Any]:
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            record = self.record()
            if record.get("state") in states:
                return record
            if self.process.poll() is not None and self.record().get("state") not in states:
                break
            time.sleep(0.01)
        pytest.fail(f"state {self.record().get('state')}, code {self.process.poll()}, not {states}")

    @contextlib.contextmanager
    def debugged(self, *lines: int, filters: Sequence[str] = ()) -> Iterator[Debugger]:
        """Attach an editor, with breakpoints in these lines of the script; the program goes on when it leaves."""
        with Debugger(AttachOptions(port=self.port)) as debugger:
            if lines:
                debugger.set_breakpoints(self.script, lines)
            if filters:
                debugger.set_exception_filters(filters)
            debugger.attach()
            yield debugger

    def ask(self, *words: str, text: str = "") -> tuple[int, str, str]:
        """Ask the agent by one of its verbs, from outside: exit code, output and what it says besides."""
        done = command(
            [sys.executable, "-m", "dkdbg.agent", words[0], "--name", self.name, *words[1:]],
            env={"DKDBG_RUNTIME_DIR": str(self.runtime)},
            text=text,
            check=False,
        )
        return done.returncode, done.stdout, done.stderr

    def finish(self, timeout: float = 300) -> tuple[int, str, str]:
        out, err = self.process.communicate(timeout=timeout)
        return self.process.returncode, out.decode(), err.decode()

    def ends(self, code: int = 0, out: str | None = None) -> str:
        """What it says besides, once it has ended with this code (and printed nothing but `out`)."""
        ended, printed, err = self.finish()
        assert (ended, printed) == (code, printed if out is None else out), err
        return err


@pytest.fixture
def launch(layout, runtime, tmp_path):
    """Start the agent as a container would; its processes end with the test."""
    started: list[Launch] = []

    def start(
        *command,
        wait="0",
        python=sys.executable,
        env=None,
        options=(),
        cwd=None,
        layout=layout,
        verb="launch",
        **streams,
    ):
        name = f"t{os.getpid()}x{time.monotonic_ns() % 10**9}"
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("DKDBG_", "PYTHON", "DEBUG"))}
        environment |= {"DKDBG_RUNTIME_DIR": str(runtime), "DKDBG_NAME": name, "DKDBG_WAIT": wait}
        # On a machine that stands still for some seconds an editor's session of a child comes late.
        environment |= {"DKDBG_JOIN_DEADLINE": "60"}
        environment |= {"DKDBG_PYTHON": python, "DKDBG_PORT": "0"} | (env or {})
        process = subprocess.Popen(
            [str(layout / "agent.pyz"), verb, *options, "--", *command],
            env=environment,
            cwd=cwd or tmp_path,
            start_new_session=True,
            **{"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **streams},
        )
        started.append(Launch(process, Path(environment["DKDBG_RUNTIME_DIR"]), name))
        return started[-1]

    yield start
    for one in started:
        if one.process.poll() in (None, -signal.SIGKILL):  # one that is killed leaves its program
            with contextlib.suppress(ProcessLookupError):
                os.killpg(one.process.pid, signal.SIGKILL)
            for entry in Path("/proc").glob("[0-9]*/environ"):  # a supervised program has a group of its own
                with contextlib.suppress(OSError):
                    if f"{one.name}-{one.process.pid}".encode() in entry.read_bytes():
                        os.kill(int(entry.parent.name), signal.SIGKILL)
            one.process.communicate()


@pytest.fixture
def in_terminal(layout, runtime, tmp_path):
    """Start `launch` or `supervise` of a program that consists of this text in a terminal."""
    with contextlib.ExitStack() as opened:

        def start(text, verb="launch"):
            (tmp_path / "t.py").write_text(text)
            settings = {"DKDBG_RUNTIME_DIR": str(runtime), "DKDBG_PORT": "0", "DKDBG_PYTHON": sys.executable}
            words = [str(layout / "agent.pyz"), verb, "--", sys.executable, str(tmp_path / "t.py")]
            return opened.enter_context(terminal(words, env={**os.environ, **settings}))

        yield start


@pytest.fixture
def program(launch, tmp_path):
    """Launch a program that consists of this text; the agent's `script` is its file, Python's options go `before` it."""

    def start(text, *arguments, name="train.py", before=(), **more):
        (tmp_path / name).write_text(text)
        running: Launch = launch(more.get("python", sys.executable), *before, name, *arguments, **more)
        running.script = str(tmp_path / name)
        return running

    return start


def torchrun_words(ranks: int) -> tuple[str, ...]:
    """The command line of a real torchrun for train.py."""
    words = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks), "train.py")
    return (python_with("torch"), *words)


@pytest.fixture
def torchrun(launch, tmp_path):
    """Launch ranks of a program that consists of this text."""

    def start(text, ranks, **more):
        (tmp_path / "train.py").write_text(text)
        return launch(
            *torchrun_words(ranks), **{**more, "env": {"OMP_NUM_THREADS": "1", **more.get("env", {})}}
        )

    return start


@pytest.fixture
def loop(program, tmp_path):
    """A program that goes round until it is told to end; `loop(env)` returns its agent."""
    text = "import os, time\nn = 0\nwhile not os.path.exists('stop'):\n    n += 1\n    time.sleep(0.02)\n"
    yield lambda **env: program(text, env=env)
    (tmp_path / "stop").touch()


@pytest.fixture
def under(request):
    """Return the options of `launch` for CPython 3.MINOR: the interpreter, and an agent with a debugpy for it."""

    def options(minor):
        python = need(minor)
        return {"python": python, "layout": request.getfixturevalue("old_layout" if minor < 10 else "layout")}

    return options
