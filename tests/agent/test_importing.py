"""Callbacks that wait for the import of a module."""

import contextlib
import importlib
import sys
import threading
import types

import pytest

from dkdbg.agent.inprocess import importing

HALF_LOADED = """
from gate_of_the_test import go, started
started.set()
assert go.wait(100)
import needed_by_it
LAST = 1
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with modules that are not imported yet."""
    for name in ("awaited_module", "needed_by_it", "later_module"):
        (tmp_path / f"{name}.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    before = {*sys.modules}
    yield tmp_path
    for name in {*sys.modules} - before:
        sys.modules.pop(name, None)


@pytest.fixture
def half_loaded(folder, monkeypatch):
    """Import awaited_module in another thread, to its middle; `half_loaded()` lets it end."""
    started, go = threading.Event(), threading.Event()
    monkeypatch.setitem(sys.modules, "gate_of_the_test", types.SimpleNamespace(go=go, started=started))
    (folder / "awaited_module.py").write_text(HALF_LOADED)

    def begin():
        with contextlib.suppress(ModuleNotFoundError):
            importlib.import_module("awaited_module")

    thread = threading.Thread(target=begin)
    thread.start()
    assert started.wait(100)

    def end():
        go.set()
        thread.join(100)

    yield end
    end()


@pytest.mark.usefixtures("folder")
def test_each_callback_that_waits_for_a_module_runs_once():
    """The second was dropped: Ray's worker module has several."""
    first, second = [], []
    for done in (first, second, first):
        importing.after("awaited_module", done.append)
    loaded = importlib.import_module("awaited_module")
    assert (first, second) == ([loaded], [loaded])


def test_a_module_that_another_thread_is_importing_is_changed_once_when_it_is_whole(half_loaded):
    seen = []
    for _ in range(2):
        importing.after("awaited_module", seen.append)
    half_loaded()
    assert seen == []
    importlib.import_module("later_module")
    assert [each.LAST for each in seen] == [1]
    assert not any(isinstance(each, importing.Finder) for each in sys.meta_path)


def test_a_module_whose_import_fails_is_changed_when_it_is_imported_after_all(folder, half_loaded):
    seen = []
    importing.after("awaited_module", seen.append)
    (folder / "needed_by_it.py").unlink()
    importlib.invalidate_caches()
    half_loaded()
    importlib.import_module("later_module")
    assert seen == []
    (folder / "awaited_module.py").write_text("LAST = 2")
    importlib.invalidate_caches()
    importlib.import_module("awaited_module")
    assert [each.LAST for each in seen] == [2]


class Absent:
    """What programs put in a module's place where it is not installed."""

    def __getattr__(self, name):
        raise ImportError("it is not installed")


@pytest.mark.usefixtures("folder")
def test_what_the_program_puts_in_the_place_of_a_module_is_left_alone(monkeypatch):
    seen = []
    importing.after("awaited_module", seen.append)
    monkeypatch.setitem(sys.modules, "awaited_module", Absent())
    importlib.import_module("later_module")
    assert seen == []
    importing.after("awaited_module", seen.append)
    assert len(seen) == 1
