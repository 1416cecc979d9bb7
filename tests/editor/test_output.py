"""What the program holds, prints, and why it has ended: in VS Code's Variables view and in its Debug Console."""

import shutil
from pathlib import Path

import pytest

from tests.frameworks import python_with

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("editor-2")]

FAILS = """\
    import sys

    numpy = __import__("numpy")  # as init would install what is imported
    weights = numpy.arange(6400.0).reshape(64, 100)
    weights[0, 0] = float("nan")
    print("epoch 1 of 3")
    print("loss is high", file=sys.stderr)
    raise ValueError("shapes 3 and 4 do not fit")
    """


def test_an_array_has_its_figures_and_prints_and_why_it_failed_are_in_the_console(repository, open_editor):
    root = repository(**{"train.py": FAILS})
    python = Path(python_with("torch"))
    for package in python.parents[1].glob("lib/python3*/site-packages/numpy*"):  # NumPy and its libraries
        if package.name in {"numpy", "numpy.libs"}:
            shutil.copytree(package, root / package.name)
    editor = open_editor(root, "train.py", line=6)
    editor.toggle_breakpoint()
    editor.press("F5")
    line = "array(64, 100) float64, min 1 max 6399 mean 3200, 1 NaN 0 Inf"
    editor.stops_at("train.py", 6, weights=line)
    editor.press("F5")
    editor.console_shows("epoch 1 of 3")
    editor.console_shows("loss is high")
    editor.stops_at("train.py", 8)  # the uncaught exception
    editor.press("F5")
    editor.console_shows("ValueError: shapes 3 and 4 do not fit")
    editor.until("the sessions have ended", lambda: not editor.trace.sessions())
    editor.console_shows("dkdbg: the program exited with code 1")
