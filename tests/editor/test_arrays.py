"""How arrays look in VS Code's Variables view."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.engine.projects import dkdbg, must
from tests.frameworks import python_with

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("editor-1")]

TRAIN = """\
    numpy = __import__("numpy")  # as init would install what is imported
    weights = numpy.arange(6400.0).reshape(64, 100)
    weights[0, 0] = float("nan")
    print("ready")
    """


def test_an_array_shows_its_figures_and_opens(repository, open_editor):
    root = repository(**{"train.py": TRAIN})
    python = Path(python_with("torch"))
    for package in python.parents[1].glob("lib/python3*/site-packages/numpy*"):  # NumPy and its libraries
        if package.name in {"numpy", "numpy.libs"}:
            shutil.copytree(package, root / package.name)
    editor = open_editor(root, "train.py", line=4)
    editor.toggle_breakpoint()
    editor.press("F5")
    line = "array(64, 100) float64, min 1 max 6399 mean 3200, 1 NaN 0 Inf"
    editor.stops_at("train.py", 4, weights=line)
    must(dkdbg(root, "down"))
