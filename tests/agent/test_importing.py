"""A module that dkdbg changes when the program imports it."""

import sys
import threading
import types

from dkdbg.agent.inprocess import importing

HALF_LOADED = """
from gate_of_the_test import go, started
started.set()
assert go.wait(100)
import other_that_it_needs
LAST = 1
"""


def test_a_module_that_another_thread_is_importing_is_changed_once_when_it_is_whole(tmp_path, monkeypatch):
    started, go, seen = threading.Event(), threading.Event(), []
    (tmp_path / "other_that_it_needs.py").write_text("")
    (tmp_path / "later.py").write_text("")
    (tmp_path / "half_loaded.py").write_text(HALF_LOADED)
    gate = types.SimpleNamespace(go=go, started=started)
    monkeypatch.setitem(sys.modules, "gate_of_the_test", gate)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    thread = threading.Thread(target=__import__, args=("half_loaded",))
    thread.start()
    assert started.wait(100)
    importing.after("half_loaded", lambda module: seen.append(module.LAST))
    importing.after("half_loaded", lambda module: seen.append(module.LAST))
    go.set()
    thread.join(100)
    assert seen == []
    __import__("later")
    assert seen == [1]
    assert not any(isinstance(each, importing.Finder) for each in sys.meta_path)
