"""Breakpoints hit in every kind of Python process below the agent."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.agent.dap_probe import Editor


def test_a_breakpoint_on_the_first_line_of_a_script_stops_there(launch, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("x = 1\ny = 2\nprint('sum', x + y)\n")
    running = launch(sys.executable, "train.py", wait="20")
    port = running.wait_state("waiting")["port"]
    with Editor(port, {str(script): [1, 3]}) as editor:
        stops = editor.wait_stops(2)
        code, out, _ = running.finish()
    assert [stop["line"] for stop in stops] == [1, 3]
    assert (code, out) == (0, "sum 3\n")
    assert editor.errors == []
