"""What the program prints, and why it has ended, stands in VS Code's Debug Console."""

from __future__ import annotations

import pytest

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("editor-2")]

FAILS = """\
    import sys

    print("epoch 1 of 3")
    print("loss is high", file=sys.stderr)
    raise ValueError("shapes 3 and 4 do not fit")
    """


def test_prints_and_the_reason_of_a_failing_end_are_in_the_debug_console(repository, open_editor):
    root = repository(**{"train.py": FAILS})
    editor = open_editor(root, "train.py", line=3)
    editor.toggle_breakpoint()
    editor.press("F5")
    editor.stops_at("train.py", 3)
    editor.press("F5")
    editor.console_shows("epoch 1 of 3")
    editor.console_shows("loss is high")
    editor.stops_at("train.py", 5)  # the uncaught exception
    editor.press("F5")
    editor.console_shows("ValueError: shapes 3 and 4 do not fit")
    editor.until("the sessions have ended", lambda: not editor.trace.sessions())
    editor.console_shows("dkdbg: the program exited with code 1")
