"""The loop of every hour in VS Code: after an edit F5 runs what the editor shows, and Restart starts anew."""

from __future__ import annotations

import pytest

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("editor-1")]

TRAIN = """\
    import time

    for step in range(100000):
        speed = 1
        time.sleep(0.01)
    """


def test_restart_starts_anew_and_after_stop_and_an_edit_f5_runs_the_code_that_is_shown(
    repository, open_editor
):
    root = repository(**{"train.py": TRAIN})
    editor = open_editor(root, "train.py", line=5)
    editor.toggle_breakpoint()
    editor.press("F5")
    editor.stops_at("train.py", 5, step="0", speed="1")
    editor.press("F5")
    editor.stops_at("train.py", 5, step="1")
    editor.press("Control+Shift+F5")
    editor.stops_at("train.py", 5, step="0")
    editor.end_sessions()

    editor.insert_above("speed = 1", "pace = 2")
    saved = "    pace = 2\n    speed = 1\n"
    editor.until("it is saved", lambda: saved in (root / "train.py").read_text())
    editor.press("F5")
    editor.stops_at("train.py", 6, pace="2", speed="1")
