"""A program with modules of its own that have names of the standard library's: it has them, and is debugged."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.agent.dap_probe import Editor
from tests.pythons import need

#: Modules that the debugger imports at its start: from one file, from a package, and two that are written in C.
NAMES = ("code", "email", "fcntl", "http", "inspect", "queue", "random", "select", "socket", "token")
IMPORTS = "import {0}\nprint(*[getattr(each, 'OWN', '') for each in ({0})])\n".format(", ".join(NAMES))
STEP = "import os, time\ndef step():\n    return 1\n"
WAITS = "import pathlib, sys\nsys.path[:0] = [pathlib.Path('lib'), b'lib']\nwhile not os.path.exists('go'):\n    step()\n    time.sleep(0.02)\n"
#: A program, and how long it waits for the editor.
PROGRAMS = {
    "debugged from the start": (STEP + IMPORTS + "step()\n", "300"),
    "attached to before it imports them": (STEP + WAITS + IMPORTS, "0"),
    "attached to after it has imported them": (STEP + IMPORTS + WAITS, "0"),
}


@pytest.fixture
def plainly(tmp_path):
    """Return what CPython 3.MINOR prints without dkdbg; some are built into it, or loaded by a .pth file."""
    for name in NAMES:
        (tmp_path / f"{name}.py").write_text("OWN = __name__\n")
    (tmp_path / "imports.py").write_text(IMPORTS)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}

    def run(minor):
        words = [need(minor), tmp_path / "imports.py"]
        out = subprocess.run(words, env=environment, capture_output=True, text=True, check=True).stdout
        assert "queue" in out
        return out

    return run


@pytest.mark.parametrize("minor", [8, 11, 14])
@pytest.mark.parametrize(("text", "wait"), PROGRAMS.values(), ids=PROGRAMS)
def test_it_stops_and_has_its_own(program, under, plainly, text, *, wait, minor):
    running = program(text, wait=wait, **under(minor))
    with Editor(running.port, {running.script: [3]}, hold=True) as editor:
        stop = editor.wait_stops(1)[0]
        Path(running.script).with_name("go").touch()
        stop.go_on(without=running.script)
        assert running.finish(300)[:2] == (0, plainly(minor))
