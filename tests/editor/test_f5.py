"""F5 in VS Code on what `dkdbg init` wrote: the container is started, the program stops, the editor shows where."""

from __future__ import annotations

import pytest

from tests.engine.projects import dkdbg, must

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("editor-1")]

TRAIN = """\
    total = 40 + 2
    print("total is", total)

    import time

    while True:
        time.sleep(0.1)
    """


@pytest.mark.core
def test_f5_stops_at_the_first_code_line_and_shows_the_variables(repository, open_editor, record_property):
    root = repository(**{"train.py": TRAIN})
    editor = open_editor(root, "train.py", line=1)
    editor.toggle_breakpoint()

    pressed = editor.press("F5")
    editor.stops_at("train.py", 1)
    record_property("F5 to stopped, image not built", editor.seconds_to_stop(pressed))

    editor.press("F10")
    editor.stops_at("train.py", 2, total="42")

    must(dkdbg(root, "down"))
    editor.until("the sessions have ended", lambda: not editor.trace.sessions())
    pressed = editor.press("F5")
    editor.stops_at("train.py", 1)
    record_property("F5 to stopped, image built, no container", editor.seconds_to_stop(pressed))
