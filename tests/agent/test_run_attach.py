"""`dkdbg run --attach PORT`: an editor at that port gets the program of this line, whatever else runs here."""

import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from dkdbg.dap.debugger import Debugger
from dkdbg.dap.values import AttachOptions
from tests.ports import free_port

LOOP = "import time\nfor n in range(3000):\n    m = n\n    time.sleep(0.1)\n"


@contextlib.contextmanager
def run(folder: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    env = {**os.environ, "DKDBG_RUNTIME_DIR": str(folder / "run")}
    started = subprocess.Popen(
        [sys.executable, "-m", "dkdbg", "run", "--on", "local:", "--port", str(free_port()), *words],
        cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    try:
        yield started
    finally:
        started.terminate()
        started.communicate()


def test_an_editor_that_comes_before_the_program_is_not_led_to_another_one(tmp_path):
    (tmp_path / "run").mkdir(mode=0o700)
    for name in ("a.py", "b.py"):
        (tmp_path / name).write_text(LOOP)
    port = free_port()
    with run(tmp_path, "--", sys.executable, "a.py") as first:
        while "can attach" not in first.stdout.readline():
            assert first.poll() is None
        line = ("--wait", "300", "--attach", str(port), "--", sys.executable, "b.py")
        with run(tmp_path, *line) as second:
            while True:
                with socket.socket() as probe:  # dkdbg's own proxy, which tolerates probes
                    if probe.connect_ex(("127.0.0.1", port)) == 0:
                        break
                assert second.poll() is None
            options = AttachOptions(port=port, path_mappings=((str(tmp_path), str(tmp_path)),))
            with Debugger(options) as debugger:
                for name in ("a.py", "b.py"):
                    debugger.set_breakpoints(str(tmp_path / name), [3])
                debugger.attach()
                assert debugger.stack(debugger.wait_stopped(300))[0].path == str(tmp_path / "b.py")
                assert "a.py" not in [each.name for each in debugger.sessions]
