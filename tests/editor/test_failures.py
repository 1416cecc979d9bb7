"""What VS Code shows when F5 cannot work: the cause, and what to do about it, in words that stand in the window."""

from __future__ import annotations

import socket

import pytest

from tests.engine.projects import LOOP
from tests.ports import free_port

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("editor-2")]

#: What VS Code asks when the task before the launch has failed.
TASK_FAILED = "The preLaunchTask 'dkdbg: up' terminated with exit code 1."


def test_a_taken_port_is_named_with_the_command_that_takes_another(repository, open_editor):
    port = free_port()
    root = repository(port, **{"train.py": LOOP})
    with socket.create_server(("127.0.0.1", port)):
        editor = open_editor(root, "train.py")
        editor.press("F5")
        editor.asks(TASK_FAILED)
    editor.terminal_shows(f"{port}.* (port is already allocated|address already in use)")
    editor.terminal_shows("dkdbg up takes a free one")
    assert not editor.trace.lines("session-start")


def test_an_engine_that_cannot_be_reached_is_named(repository, open_editor):
    root = repository(**{"train.py": LOOP})
    editor = open_editor(root, "train.py", DOCKER_HOST="unix:///nonexistent/docker.sock")
    editor.press("F5")
    editor.asks(TASK_FAILED)
    editor.terminal_shows("unix:///nonexistent/docker.sock")
    assert not editor.trace.lines("session-start")


def test_a_program_that_does_not_parse_or_is_not_there_says_so_in_the_debug_console(repository, open_editor):
    root = repository(**{"train.py": LOOP, "model.py": "layers = 3\n"})
    (root / "train.py").write_text("import time\n\nsteps = = 3\n")
    editor = open_editor(root, "model.py")
    editor.press("F5")
    # Whichever session's console VS Code has in front, the root's or the program's: both say it.
    editor.console_shows("the program exited with code 1")
    editor.console_shows("SyntaxError: invalid syntax")
    editor.until("the sessions have ended", lambda: not editor.trace.sessions())
    (root / "train.py").unlink()
    editor.press("F5")
    editor.console_shows("can't open file '/workspace/train.py'")
    editor.until("the sessions have ended", lambda: not editor.trace.sessions())
