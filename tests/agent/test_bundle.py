"""debugpy as one file: the same bytes every time, the right one for each Python, unpacked once."""

# ruff: noqa: PLW1510, PTH110, PTH118, PTH119, PTH208

import hashlib
import os
import subprocess
import sys
import threading
import zipfile
from pathlib import Path

import pytest

from dkdbg.agent.inprocess import bundle


@pytest.fixture(scope="module")
def zipped(tmp_path_factory):
    installed = bundle.installed_debugpy()
    path = tmp_path_factory.mktemp("zip") / f"debugpy-{installed[1]}.zip"
    bundle.write_bundle(installed[0], str(path))
    return path


def fake(folder: Path, *versions: str) -> Path:
    for version in versions:
        with zipfile.ZipFile(folder / f"debugpy-{version}.zip", "w") as archive:
            archive.writestr("debugpy/__init__.py", f"version = {version!r}\n")
    return folder


def test_the_same_files_give_the_same_bytes(zipped, tmp_path):
    installed = bundle.installed_debugpy()
    again = tmp_path / "again.zip"
    bundle.write_bundle(installed[0], str(again))
    assert hashlib.sha256(again.read_bytes()).digest() == hashlib.sha256(zipped.read_bytes()).digest()
    assert again.stat().st_size < 1_500_000


def test_it_holds_sources_and_licences_and_no_compiled_code_but_the_helper(zipped):
    names = zipfile.ZipFile(zipped).namelist()
    assert names == sorted(names)
    assert "debugpy/__init__.py" in names
    assert "debugpy/ThirdPartyNotices.txt" in names
    others = {name.rpartition("/")[2] for name in names if not name.endswith(".py")}
    assert others <= {"LICENSE", "ThirdPartyNotices.txt", "attach_linux_amd64.so"}


def test_the_unpacked_one_can_be_imported_by_a_bare_interpreter(zipped, tmp_path):
    folder = bundle.ensure_debugpy([str(zipped.parent)], str(tmp_path))
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


def test_one_older_zip_serves_newer_pythons_too_and_without_one_the_installed_is_packed(tmp_path):
    (tmp_path / "none").mkdir()
    assert os.listdir(bundle.ensure_debugpy([], str(tmp_path / "none"))) == ["debugpy"]
    fake(tmp_path, "1.8.21")
    for python in ((3, 8), (3, 13)):
        assert bundle.ensure_debugpy([str(tmp_path)], str(tmp_path), python).endswith("debugpy-1.8.21")


def test_when_none_fits_the_message_says_which_and_what_to_type(tmp_path):
    fake(tmp_path, "1.8.22")
    with pytest.raises(bundle.NoDebugpy) as caught:
        bundle.ensure_debugpy([str(tmp_path)], str(tmp_path), (3, 8))
    assert str(caught.value).startswith("no debugpy for Python 3.8 (")
    assert "; found: debugpy-1.8.22.zip; run `dkdbg init` again" in str(caught.value)


def test_processes_that_race_all_get_a_whole_one(zipped, tmp_path):
    folders: list[str] = []

    def unpack():
        folder = bundle.ensure_debugpy([str(zipped.parent)], str(tmp_path))
        assert os.path.exists(os.path.join(folder, "debugpy", "server", "api.py"))
        folders.append(folder)

    threads = [threading.Thread(target=unpack) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(folders) == 6
    assert len(set(folders)) == 1
    assert os.listdir(tmp_path) == [os.path.basename(folders[0])]
