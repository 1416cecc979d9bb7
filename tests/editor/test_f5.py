"""F5 in VS Code on what `dkdbg init` wrote: the container is started, the program stops, the editor shows where.

And the loop of every hour: after an edit F5 runs what the editor shows, and Restart starts anew. One Stop leaves all
processes of a program: test_ranks.py.
"""

import pytest

from tests.engine.projects import dkdbg, must

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("editor-1")]

TRAIN = """\
    import time

    for step in range(100000):
        speed = 1
        time.sleep(0.01)
    """


@pytest.mark.core
def test_f5_restart_and_f5_after_an_edit_stop_and_a_second_editor_is_told_that_it_observes(
    repository, open_editor, record_property
):
    root = repository(**{"train.py": TRAIN})
    editor = open_editor(root, "train.py", line=1)
    editor.toggle_breakpoint()
    pressed = editor.press("F5")
    editor.stops_at("train.py", 1)
    record_property("F5 to stopped, image not built", editor.seconds_to_stop(pressed))
    editor.press("F10")
    editor.stops_at("train.py", 3)
    must(dkdbg(root, "down"))
    editor.until("the sessions have ended", lambda: not editor.trace.sessions())
    pressed = editor.press("F5")
    editor.stops_at("train.py", 1)
    record_property("F5 to stopped, image built, no container", editor.seconds_to_stop(pressed))

    editor.go_to(5)
    editor.toggle_breakpoint()
    editor.press("F5")
    editor.stops_at("train.py", 5, step="0", speed="1")
    editor.press("F5")
    editor.stops_at("train.py", 5, step="1")
    editor.go_to(1)
    editor.toggle_breakpoint()
    editor.press("Control+Shift+F5")
    editor.stops_at("train.py", 5, step="0")
    editor.end_sessions()

    editor.insert_above("speed = 1", "pace = 2")
    saved = "    pace = 2\n    speed = 1\n"
    editor.until("it is saved", lambda: saved in (root / "train.py").read_text())
    editor.press("F5")
    editor.stops_at("train.py", 6, pace="2", speed="1")

    second = open_editor(root, "train.py")
    second.press("F5")
    second.is_told("you are an observer: another editor .* controls this session")
    second.marks_the_stopped_line()
