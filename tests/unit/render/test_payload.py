"""What lies in `.dkdbg/` beside the program."""

from __future__ import annotations

from dkdbg.render.payload import agent_files


def test_the_receiver_of_sync_is_not_in_it_because_it_travels_through_its_own_standard_input() -> None:
    files = agent_files()
    assert "dkdbg/agent/program/hook/sitecustomize.py" in files
    assert [path for path in files if path.startswith("dkdbg/agent/sync")] == []
