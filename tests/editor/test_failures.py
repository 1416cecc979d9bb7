"""What VS Code shows of a program that fails, and when F5 cannot work: the cause, and what to do about it, in the window."""

import shutil
import socket
from pathlib import Path

import pytest

from tests.engine.projects import LOOP, command, dkdbg, launch_options, must, stopped_in
from tests.frameworks import python_with
from tests.ports import free_port

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("editor-2")]

#: What VS Code asks when the task before the launch has failed.
TASK_FAILED = "The preLaunchTask 'dkdbg: up' terminated with exit code 1."
FAILS = """\
    import sys

    numpy = __import__("numpy")  # as init would install what is imported
    weights = numpy.arange(6400.0).reshape(64, 100)
    weights[0, 0] = float("nan")
    print("epoch 1 of 3")
    print("loss is high", file=sys.stderr)
    raise ValueError("shapes 3 and 4 do not fit")
    """


def test_an_array_what_is_printed_an_uncaught_error_and_each_cause_of_an_f5_that_fails_are_shown(
    repository, open_editor, tmp_path, base_image
):
    """One after the other in one window."""
    port = free_port()
    holder, root = (repository(port, **{"train.py": LOOP, "model.py": FAILS}) for _ in range(2))
    (root / "train.py").write_text("import model\n")
    for package in (
        Path(python_with("torch")).parents[1].glob("lib/python3*/site-packages/numpy*")
    ):  # NumPy and its libraries
        if package.name in {"numpy", "numpy.libs"}:
            shutil.copytree(package, root / package.name)
    docker = {"DOCKER_CONFIG": str(tmp_path / "docker")}
    editor = open_editor(root, "model.py", line=6, **docker)
    editor.toggle_breakpoint()
    editor.press("F5")
    editor.stops_at("model.py", 6, weights="array(64, 100) float64, min 1 max 6399 mean 3200, 1 NaN 0 Inf")
    editor.press("F5")
    editor.console_shows("epoch 1 of 3")
    editor.console_shows("loss is high")
    editor.stops_at("model.py", 8)  # the uncaught exception
    editor.press("F5")
    editor.console_shows("ValueError: shapes 3 and 4 do not fit")
    editor.until("the sessions have ended", lambda: not editor.trace.sessions())
    editor.console_shows("dkdbg: the program exited with code 1")
    must(dkdbg(root, "down"))
    must(dkdbg(holder, "up", env={"DKDBG_BASE": base_image}))

    def fails():
        editor.press("F5")
        editor.asks(TASK_FAILED)

    with stopped_in(holder / "train.py", launch_options(holder)) as (debugger, stop):
        fails()
        editor.page.keyboard.press("Enter")  # Debug Anyway
        editor.asks("this port belongs to another project")
        assert debugger.evaluate("n", debugger.stack(stop)[0]) == "0"
    editor.dismiss()
    must(dkdbg(holder, "down"))

    with socket.create_server(("127.0.0.1", port)):
        fails()
    editor.terminal_shows(f"{port}.* (port is already allocated|address already in use)")
    editor.terminal_shows("dkdbg up takes a free one")
    editor.dismiss()

    gone = "unix:///nonexistent/docker.sock"
    command(["docker", "context", "create", "gone", "--docker", f"host={gone}"], env=docker)
    command(["docker", "context", "use", "gone"], env=docker)
    fails()
    editor.terminal_shows(gone)
    editor.dismiss()
    command(["docker", "context", "use", "default"], env=docker)
    assert len(editor.trace.messages("stopped")) == editor.stops

    (root / "train.py").write_text("import time\n\nsteps = = 3\n")
    editor.press("F5")
    # Whichever session's console VS Code has in front, the root's or the program's: both say it.
    editor.console_shows("SyntaxError: invalid syntax")
    editor.console_shows("the program exited with code 1")
    editor.until("the sessions have ended", lambda: not editor.trace.sessions())
    (root / "train.py").unlink()
    editor.press("F5")
    editor.console_shows("can't open file '/workspace/train.py'")
    editor.until("the sessions have ended", lambda: not editor.trace.sessions())
