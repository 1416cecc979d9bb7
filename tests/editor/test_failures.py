"""What VS Code shows when F5 cannot work: the cause, and what to do about it, in words that stand in the window."""

import socket

import pytest

from tests.engine.projects import LOOP, command, dkdbg, launch_options, must, stopped_in
from tests.ports import free_port

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("editor-2")]

#: What VS Code asks when the task before the launch has failed.
TASK_FAILED = "The preLaunchTask 'dkdbg: up' terminated with exit code 1."


def test_a_port_of_another_project_or_program_an_engine_and_a_program_that_does_not_parse_are_named(
    repository, open_editor, tmp_path, base_image
):
    """One after the other in one window."""
    port = free_port()
    holder, root = (repository(port, **{"train.py": LOOP, "model.py": "layers = 3\n"}) for _ in range(2))
    must(dkdbg(holder, "up", env={"DKDBG_BASE": base_image}))
    docker = {"DOCKER_CONFIG": str(tmp_path / "docker")}
    editor = open_editor(root, "model.py", **docker)

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
    assert not editor.trace.messages("stopped")

    (root / "train.py").write_text("import time\n\nsteps = = 3\n")
    editor.press("F5")
    # Whichever session's console VS Code has in front, the root's or the program's: both say it.
    editor.console_shows("the program exited with code 1")
    editor.console_shows("SyntaxError: invalid syntax")
    editor.until("the sessions have ended", lambda: not editor.trace.sessions())
    (root / "train.py").unlink()
    editor.press("F5")
    editor.console_shows("can't open file '/workspace/train.py'")
    editor.until("the sessions have ended", lambda: not editor.trace.sessions())
