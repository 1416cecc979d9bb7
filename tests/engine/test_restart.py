"""Save on the host, restart in the container, still attached; and what a restart of the container costs."""

from __future__ import annotations

import time

import pytest

from dkdbg.dap.debugger import Debugger
from dkdbg.errors import DkdbgError
from tests.engine.projects import (
    LOOP,
    command,
    container,
    dkdbg,
    launch_options,
    marked_line,
    must,
    repo,
    running,
    unique,
)
from tests.ports import free_port

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("restart")]

TOML = "[debug]\nport = {port}\nreload = true\n"


@pytest.fixture(scope="module")
def root(base_image, tmp_path_factory):
    """A service that supervises its program, healthy."""
    files = {"train.py": LOOP, "requirements.txt": "# nothing\n", "dkdbg.toml": TOML.format(port=free_port())}
    folder = repo(tmp_path_factory.mktemp("restart") / unique("restarts"), files)
    must(dkdbg(folder, "init", "--yes"))
    with running(folder, base_image):
        yield folder


def attach(root):
    """A debugger, attached by launch.json, with a breakpoint at the marked line."""
    debugger = Debugger(launch_options(root))
    debugger.set_breakpoints(str(root / "train.py"), [marked_line(root / "train.py")])
    debugger.attach()
    return debugger


def test_a_file_saved_on_the_host_and_a_request_restart_it_under_the_attached_editor(root):
    with attach(root) as debugger:
        first = debugger.wait_stopped(300)
        text = (root / "train.py").read_text().replace("1.0 / (n + 1)", "2.0 / (n + 1)")
        with (root / "train.py").open(
            "r+"
        ) as file:  # of the same length, so never empty: that would be one run more
            file.write(text)
        second = debugger.wait_stopped(300)
        assert second.session is not first.session
        top = debugger.stack(second)[0]
        assert (top.path, debugger.local_values(top)["loss"]) == (str(root / "train.py"), "2.0")
        done = must(dkdbg(root, "restart"))
        assert done.stdout == "app-debug: restarted, run 3\n"
        third = debugger.wait_stopped(300)
        assert debugger.local_values(debugger.stack(third)[0])["n"] == "0"


def test_after_a_restart_of_the_container_an_editor_attaches_anew(root):
    """`docker restart` ends the adapter: the editor has to attach again until the door on the host hides that."""
    for _ in range(2):
        command(["docker", "restart", "-t", "5", container(root)])
        with attach_soon(root) as debugger:
            assert debugger.stack(debugger.wait_stopped(300))[0].line == marked_line(root / "train.py")


def attach_soon(root):
    """As `attach`, as soon as the new agent listens: Docker's proxy takes connections before it does."""
    end = time.monotonic() + 300
    while True:
        try:
            return attach(root)
        except DkdbgError:  # noqa: PERF203
            if time.monotonic() > end:
                raise
            time.sleep(0.1)
