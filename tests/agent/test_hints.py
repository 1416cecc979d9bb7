"""What is said of profilers and of ended sessions, and tells somebody to type something, is typed and helps."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from tests.hints import in_shell, to_type
from tests.openpai import rest

if TYPE_CHECKING:
    from pathlib import Path

LIMIT = 300.0
SPINS = "import time\nend = time.monotonic() + 2\nwhile time.monotonic() < end:\n    pass\n"


def test_tasks_that_have_ended_are_listed_by_what_where_says(tmp_path: Path) -> None:
    with rest.serving() as server:
        server.roles = {"worker": [rest.task(0, "SUCCEEDED", "127.0.0.1", 9)]}
        env = {"DKDBG_PAI_HTTP": "1", "DKDBG_PAI_TOKEN": rest.TOKEN}
        said = in_shell(tmp_path, f"dkdbg where {server.address}", env).stderr
        [line] = to_type(said, "dkdbg ps --all {} shows those that have ended")
        assert "worker/0" in in_shell(tmp_path, line, env).stdout


def test_py_spy_that_is_not_there_is_installed_by_what_is_said(launch, tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "env"], check=True)
    (tmp_path / "spins.py").write_text(SPINS)
    path = {"PATH": f"{tmp_path}/env/bin:/usr/bin:/bin"}

    def profiled() -> tuple[int, str, str]:
        words = ("python", "spins.py")
        return launch(*words, options=("--py-spy", "*spins*"), env=path, cwd=tmp_path).finish(LIMIT)

    code, _, said = profiled()
    assert code == 2
    [line] = to_type(said, "pip install py-spy there, or take --torch-profile")
    done = subprocess.run(
        ["sh", "-c", line], env=path, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=LIMIT
    )
    assert done.returncode == 0, done.stderr
    code, _, said = profiled()
    assert code == 0, said
    assert list((tmp_path / "dkdbg-profiles").glob("spins*")), said
