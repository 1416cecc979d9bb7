"""Asking processes to join: one that cannot is named with the reason, once, and runs on."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from tests.agent.dap_probe import Editor, wait_for

if TYPE_CHECKING:
    from pathlib import Path

#: The program has a module of its own called debugpy: joining fails in earnest.
PROGRAM = """
import os, subprocess, sys, time, types

if len(sys.argv) == 1:
    children = [subprocess.Popen([sys.executable, __file__, "rank"], env=dict(os.environ, RANK=str(r))) for r in (0, 1)]
    raise SystemExit(max(child.wait() for child in children))
sys.modules["debugpy"] = types.ModuleType("debugpy")
open("ready" + os.environ["RANK"], "w").close()
while not os.path.exists("stop"):
    time.sleep(0.02)
"""
REASON = (
    "cannot be debugged: not joined: ModuleNotFoundError: "
    "No module named 'debugpy.server'; 'debugpy' is not a package"
)


def test_why_a_process_cannot_be_debugged_is_said_once_on_stderr_and_in_the_editors_console(
    program, tmp_path: Path
) -> None:
    running = program(PROGRAM)
    wait_for(lambda: sorted(tmp_path.glob("ready?")), lambda found: len(found) == 2)
    for turn in range(2):
        with Editor(running.port, {}) as editor:
            wait_for(lambda: [one for one in running.record()["processes"] if one["joined"]], bool)
            if turn == 0:
                said = wait_for(lambda: [line for line in editor.output if REASON in line], bool)
                assert said[0].startswith("dkdbg: rank ")
        wait_for(lambda: running.record()["client"], lambda client: not client)
    (tmp_path / "stop").touch()
    code, _, err = running.finish()
    assert code == 0
    lines = [line for line in err.splitlines() if "cannot be debugged" in line]
    assert lines in (["dkdbg: rank 0 " + REASON], ["dkdbg: rank 1 " + REASON])


def test_processes_that_join_say_nothing(program, tmp_path: Path) -> None:
    running = program("import os, time\nwhile not os.path.exists('stop'):\n    time.sleep(0.02)\n")
    for _ in range(3):  # "already joined" and "no editor is attached" come about
        with Editor(running.port, {}):
            wait_for(lambda: [one["joined"] for one in running.record()["processes"]], any)
    (tmp_path / "stop").touch()
    code, _, err = running.finish()
    assert (code, "cannot be debugged" in err) == (0, False)


def test_debugpy_describes_the_machine_for_a_log_that_is_asked_for_only(launch, tmp_path: Path) -> None:
    """It starts a process and reads what pip knows of every package, in each process that joins."""
    script = tmp_path / "train.py"
    script.write_text("import sys\nprint(sys.modules['debugpy.server.api'].ensure_logging.ensured)\n")
    for folder, described in ((None, "False\n"), (tmp_path, "True\n")):
        running = launch(
            sys.executable, "train.py", wait="300", env={"DEBUGPY_LOG_DIR": str(folder)} if folder else {}
        )
        with Editor(running.wait_state("waiting")["port"], {str(script): [2]}) as editor:
            assert editor.wait_stops(1)[0]["line"] == 2
            assert running.finish()[:2] == (0, described)
