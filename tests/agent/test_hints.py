"""What is said of profilers and of ended sessions, and tells somebody to type something, is typed and helps."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

LIMIT = 300.0
SPINS = "import time\nend = time.monotonic() + 2\nwhile time.monotonic() < end:\n    pass\n"


def test_without_py_spy_nothing_is_profiled_by_it(launch, tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "env"], check=True)
    (tmp_path / "spins.py").write_text(SPINS)
    path = {"PATH": f"{tmp_path}/env/bin:/usr/bin:/bin"}
    running = launch("python", "spins.py", options=("--py-spy", "*spins*"), env=path, cwd=tmp_path)
    code, _, said = running.finish(LIMIT)
    assert (code, "pip install py-spy" in said) == (2, True), said
