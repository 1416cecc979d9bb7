"""A program that makes warnings errors, or runs in development mode, hears of no warning of the agent's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.agent.dap_probe import Editor
from tests.pythons import need

if TYPE_CHECKING:
    from pathlib import Path

CODE = """import os, subprocess, sys, threading
def work():
    print('thread')
thread = threading.Thread(target=work)
thread.start()
thread.join()
sys.stdout.flush()
if len(sys.argv) == 1:
    print(subprocess.call([sys.executable, *sys.orig_argv[1:-1], __file__, 'child']), flush=True)
print('end')
"""


@pytest.mark.parametrize("minor", [11, 13])
@pytest.mark.parametrize("mode", ["PYTHONWARNINGS", "PYTHONDEVMODE"])
def test_the_agent_warns_of_nothing(launch, tmp_path: Path, minor: int, mode: str) -> None:
    python = need(minor)
    script = tmp_path / "train.py"
    script.write_text(CODE)
    env = {mode: "error" if mode == "PYTHONWARNINGS" else "1"}
    running = launch(python, "train.py", wait="300", python=python, env=env)
    with Editor(running.wait_state("waiting")["port"], {str(script): [3]}) as editor:
        editor.wait_stops(2)  # the child's too
        code, out, err = running.finish()
    assert (code, sorted(out.split())) == (0, ["0", "end", "end", "thread", "thread"])
    assert [line for line in err.splitlines() if not line.startswith("dkdbg: ")] == []
