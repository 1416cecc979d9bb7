"""`python -m tests.run`: once on real tests in a folder of their own, otherwise with a fake pytest."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import run

CHECKOUT = Path(__file__).parents[2]
FLAKY = """
import pathlib, pytest

@pytest.mark.xdist_group("one")
@pytest.mark.parametrize("name", ["a@b"])
def test_flaky(name):
    seen = pathlib.Path("seen")
    first = not seen.exists()
    seen.touch()
    assert not first, "the first time it fails"

def test_good():
    pass
"""


def test_a_test_that_passes_alone_is_listed_with_its_first_failure(tmp_path):
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = core: x\n    xdist_group: x\n    engine: x\n")
    (tmp_path / "test_it.py").write_text(FLAKY)
    done = subprocess.run(
        [sys.executable, "-m", "tests.run", "-n", "1", "--dist", "loadgroup"], cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(CHECKOUT), "PYTEST_ADDOPTS": "-p tests.conftest --basetemp=base"}, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    listed = done.stdout[done.stdout.index("FLAKY (1)") :]
    assert "test_it.py::test_flaky[a@b]\n" in listed
    assert "the first time it fails" in listed


@pytest.fixture
def fake_pytest(monkeypatch):
    """Have pytest answer with these exit codes and failures, one after the other; collect the arguments it got."""
    calls: list[list[str]] = []

    def answer(*answers: tuple[int, list[str]]) -> list[list[str]]:
        left = list(answers)

        def fake(arguments: list[str]) -> tuple[int, dict[str, str]]:
            calls.append(arguments)
            code, failed = left.pop(0)
            return code, dict.fromkeys(failed, "why")

        monkeypatch.setattr(run, "_pytest", fake)
        return calls

    return answer


def test_what_failed_runs_once_more(fake_pytest, capsys):
    calls = fake_pytest((1, ["t::a", "t::b"]), (0, []))
    assert run.main(["-m", "core", "-x"]) == 0
    assert calls == [["-m", "core", "-x"], ["-n", "0", "t::a", "t::b"]]
    assert "FLAKY (2)" in capsys.readouterr().out


def test_a_test_that_fails_twice_fails_the_run(fake_pytest, capsys):
    fake_pytest((1, ["t::a", "t::b"]), (1, ["t::a"]))
    assert run.main([]) == 1
    assert "t::b\n" in capsys.readouterr().out.partition("FLAKY (1)")[2]


@pytest.mark.parametrize(
    ("answers", "code"),
    [
        ([(1, ["a", "b", "c"]), (0, [])], 0),
        ([(1, ["a", "b", "c", "d"]), (0, [])], 1),
        ([(1, [str(number) for number in range(run.MAX_RERUN + 1)])], 1),
        ([(0, [])], 0),
        ([(2, [])], 2),
        ([(5, [])], 5),
    ],
    ids=["three flaky", "four flaky", "more than timing explains", "passed", "interrupted", "no tests"],
)
def test_a_run_ends_with_this_code_after_so_many_runs(fake_pytest, answers, code):
    calls = fake_pytest(*answers)
    assert run.main(["-m", "core"]) == code
    assert len(calls) == len(answers)
