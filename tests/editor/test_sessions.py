"""VS Code and a program that runs on: one Stop leaves all its processes, a second editor looks on at it."""

from __future__ import annotations

import pytest

from tests.editor.test_loop import TRAIN

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("editor-1")]

#: Both processes run into the same line.
TWO = """\
    import multiprocessing
    import time


    def work(name):
        while True:
            here = name
            time.sleep(0.01)


    if __name__ == "__main__":
        multiprocessing.get_context("fork").Process(target=work, args=("child",), daemon=True).start()
        work("parent")
    """


def test_one_stop_leaves_all_processes(repository, open_editor):
    root = repository(**{"train.py": TWO})
    editor = open_editor(root, "train.py", line=8)
    editor.toggle_breakpoint()
    editor.press("F5")
    editor.until(
        "both are stopped", lambda: len({s["session"] for s in editor.trace.messages("stopped")}) == 2
    )
    editor.end_sessions()


def test_a_second_editor_is_told_that_it_looks_on_and_marks_the_line_too(repository, open_editor):
    root = repository(**{"train.py": TRAIN})
    first = open_editor(root, "train.py", line=5)
    first.toggle_breakpoint()
    first.press("F5")
    first.stops_at("train.py", 5)
    second = open_editor(root, "train.py")
    second.press("F5")
    second.is_told("you look on: another editor .* holds this session")
    second.marks_the_stopped_line()
