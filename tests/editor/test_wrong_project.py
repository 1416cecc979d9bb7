"""F5 in one repository while the port belongs to another one's program: VS Code says whose it is, and attaches to nothing."""

from __future__ import annotations

import pytest

from tests.engine.projects import LOOP
from tests.ports import free_port

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("editor-1")]


def test_debug_anyway_in_another_repository_is_refused_with_whose_port_it_is(repository, open_editor):
    port = free_port()
    holder = open_editor(repository(port, **{"train.py": LOOP}), "train.py", line=6)
    holder.toggle_breakpoint()
    holder.press("F5")
    holder.stops_at("train.py", 6)

    other = open_editor(repository(port, **{"train.py": LOOP}), "train.py", line=6)
    other.toggle_breakpoint()
    other.press("F5")
    other.asks("The preLaunchTask 'dkdbg: up' terminated with exit code 1.")
    other.page.keyboard.press("Enter")  # Debug Anyway
    other.asks("this port belongs to another project")
    assert not other.trace.messages("stopped")
    assert len(holder.trace.sessions()) == 2
