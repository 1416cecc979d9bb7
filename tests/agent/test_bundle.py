"""The debugpy that fits a Python: found in a folder, or copied once from the installed one."""

# ruff: noqa: PLW1510, PTH110, PTH118, PTH119, PTH208

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from dkdbg.agent.inprocess import bundle


def fake(folder: Path, *versions: str) -> None:
    for version in versions:
        (folder / f"debugpy-{version}").mkdir()


def test_it_holds_sources_and_licences_and_no_compiled_code_but_the_helper():
    names = [name for _, name in bundle.bundled_files(bundle.installed_debugpy()[0])]
    assert "debugpy/__init__.py" in names
    assert "debugpy/ThirdPartyNotices.txt" in names
    others = {name.rpartition("/")[2] for name in names if not name.endswith(".py")}
    assert others <= {"LICENSE", "ThirdPartyNotices.txt", "attach_linux_amd64.so"}


def test_the_copy_can_be_imported_by_a_bare_interpreter(tmp_path):
    folder = bundle.ensure_debugpy([], str(tmp_path))
    assert os.listdir(folder) == ["debugpy"]
    code = f"import sys; sys.path.insert(0, {folder!r}); import debugpy; print(debugpy.__version__)"
    result = subprocess.run([sys.executable, "-I", "-S", "-c", code], stdout=subprocess.PIPE, text=True)
    assert result.stdout.strip() == folder.rpartition("-")[2]


@pytest.mark.parametrize(
    ("python", "version"),
    [((3, 14), "1.8.22"), ((3, 10), "1.8.22"), ((3, 9), "1.8.21"), ((3, 8), "1.8.21"), ((3, 7), "1.7.0")],
)
def test_each_python_gets_the_newest_that_runs_on_it(tmp_path, python, version):
    fake(tmp_path, "1.7.0", "1.8.9", "1.8.21", "1.8.22")
    folder = bundle.ensure_debugpy([str(tmp_path / "missing"), str(tmp_path)], str(tmp_path), python)
    assert os.path.basename(folder) == f"debugpy-{version}"


def test_an_older_one_serves_newer_pythons_too(tmp_path):
    fake(tmp_path, "1.8.21")
    for python in ((3, 8), (3, 13)):
        assert bundle.ensure_debugpy([str(tmp_path)], str(tmp_path), python).endswith("debugpy-1.8.21")


def test_of_two_of_one_version_the_first_is_taken(tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder / "debugpy-1.8.21").mkdir(parents=True)
    for folders in (["a", "b"], ["b", "a"]):
        found = bundle.ensure_debugpy([str(tmp_path / each) for each in folders], str(tmp_path), (3, 11))
        assert found == str(tmp_path / folders[0] / "debugpy-1.8.21")


def test_when_none_fits_the_message_says_which_and_what_to_type(tmp_path):
    fake(tmp_path, "1.8.22")
    with pytest.raises(bundle.NoDebugpy) as caught:
        bundle.ensure_debugpy([str(tmp_path)], str(tmp_path), (3, 8))
    assert str(caught.value).startswith("no debugpy for Python 3.8 (")
    assert f"; found: debugpy-1.8.22; `dkdbg run --python {sys.executable}` brings" in str(caught.value)


def test_processes_that_race_all_get_a_whole_one(tmp_path):
    folders: list[str] = []

    def copy():
        folder = bundle.ensure_debugpy([], str(tmp_path))
        assert os.path.exists(os.path.join(folder, "debugpy", "server", "api.py"))
        folders.append(folder)

    threads = [threading.Thread(target=copy) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(folders) == 6
    assert len(set(folders)) == 1
    assert os.listdir(tmp_path) == [os.path.basename(folders[0])]
