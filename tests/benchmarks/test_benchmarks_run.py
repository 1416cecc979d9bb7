"""Run every file of benchmarks/ once at its smallest size, so that a reader can repeat the figures of the documentation."""

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests import frameworks
from tests.commands import command
from tests.needs import give_up

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted((ROOT / "benchmarks").glob("*.py"))
#: Python packages that a benchmark needs (ray) or compares with (py-spy), made once by tests/frameworks.py.
PACKAGES = {"ray_listed": "ray", "attach_all": "py-spy"}
#: Rivals that .ci/run does not install: each takes tens of seconds to follow changes. They are run manually.
NOT_IN_CI = {"lsyncd", "unison", "syncthing"}
#: A decimal number, and not a version (3.11.7).
FIGURE = re.compile(r"(?<![\w.])\d[\d,]*\.\d+(?![\d.])")


def needs(file: Path) -> tuple[str, ...]:
    """Return the programs that a benchmark names in `NEEDS`."""
    for each in ast.parse(file.read_text()).body:
        if (
            isinstance(each, ast.Assign)
            and isinstance(each.targets[0], ast.Name)
            and each.targets[0].id == "NEEDS"
        ):
            return tuple(ast.literal_eval(each.value))
    return ()


def cases() -> list[object]:
    """Return one parameter a file; those that need Docker carry the engine mark."""
    return [
        pytest.param(file, id=file.stem, marks=[pytest.mark.engine] if "docker" in needs(file) else [])
        for file in FILES
    ]


@pytest.mark.parametrize("file", cases())
def test_a_benchmark_runs_to_its_end_and_prints_a_figure(file, tmp_path):
    missing = [each for each in needs(file) if shutil.which(each) is None]
    if missing:
        give_up(f"not installed: {', '.join(missing)}")
    path = os.environ["PATH"]
    if file.stem in PACKAGES:
        program = Path(frameworks.python_with(PACKAGES[file.stem])).with_name(PACKAGES[file.stem])
        (tmp_path / "bin").mkdir()
        (tmp_path / "bin" / program.name).symlink_to(program)  # not the other programs of that Python
        path = f"{tmp_path / 'bin'}:{path}"
    done = subprocess.run(
        [sys.executable, str(file), "--smallest"], capture_output=True, text=True, check=False, timeout=900,
        stdin=subprocess.DEVNULL, cwd=tmp_path, env={**os.environ, "PATH": path},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    # The line that begins with Python describes the machine.
    rows = [line for line in done.stdout.splitlines() if not line.startswith(("Python ", "left out: "))]
    assert any(FIGURE.search(row) for row in rows), done.stdout
    assert not re.search(r"\b(?:nan|inf)\b", done.stdout), done.stdout
    left_out = set(re.findall(r"^left out: no ([\w-]+)", done.stdout, re.MULTILINE)) - NOT_IN_CI
    assert not (left_out and os.environ.get("CI")), (
        f"not installed: {', '.join(sorted(left_out))} (see .ci/run)"
    )


def test_a_benchmark_names_the_program_that_it_needs_and_lacks(tmp_path):
    file = ROOT / "benchmarks" / "sync_checkouts.py"
    done = command([sys.executable, str(file), "--smallest"], env={"PATH": str(tmp_path)}, check=False)
    assert done.returncode == 2
    assert "git is not installed" in done.stderr
