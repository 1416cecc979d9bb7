"""The single file: what is in it, and that it is the same every time."""

import io
import subprocess
import sys
import zipfile

import pytest

from dkdbg.delivery import single_file
from dkdbg.errors import DkdbgError


@pytest.fixture(scope="module")
def built():
    return single_file.build((3, 11))


def test_the_same_dkdbg_gives_the_same_bytes_which_fit_into_a_configmap(built):
    """A ConfigMap carries them into the debug copy of a workload (docs/adr/0020, MaxSecretSize)."""
    assert single_file.build((3, 12)) == built
    assert len(built) < 1 << 20


def test_it_holds_the_agent_and_debugpy_sorted_without_a_date_as_binary_and_no_receiver_of_sync(built):
    with zipfile.ZipFile(io.BytesIO(built)) as archive:
        entries = archive.infolist()
        assert archive.testzip() is None
    names = [entry.filename for entry in entries]
    assert names == sorted(names)
    assert {entry.date_time for entry in entries} == {(1980, 1, 1, 0, 0, 0)}
    assert {"__main__.py", "dkdbg/__init__.py", "dkdbg/pai.py", "dkdbg/agent/__main__.py"} <= {*names}
    assert "dkdbg/agent/inprocess/hook/sitecustomize.py" in names
    assert any(name.endswith("/debugpy/__init__.py") for name in names)
    assert [name for name in single_file.agent_files() if name.startswith("dkdbg/agent/sync")] == []
    assert b"\0" in built[:8000]


def test_a_python_and_a_shell_start_it(built, tmp_path):
    path = tmp_path / "with space" / single_file.NAME
    path.parent.mkdir()
    path.write_bytes(built)
    for argv in (["sh", str(path)], [sys.executable, "-I", "-S", "-B", str(path)], ["sh", single_file.NAME]):
        done = subprocess.run([*argv, "--help"], capture_output=True, text=True, check=True, cwd=path.parent)
        assert done.stdout.startswith("usage: dkdbg.agent launch")


def test_a_python_that_is_too_old_is_refused_with_what_to_do():
    with pytest.raises(DkdbgError, match=r"Python 3\.7 is too old") as caught:
        single_file.debugpy_for((3, 7))
    assert "requires-python" in caught.value.hint


def test_a_dkdbg_without_debugpy_says_what_installs_it(monkeypatch):
    monkeypatch.delitem(sys.modules, "debugpy", raising=False)
    monkeypatch.setattr(sys, "path", [])
    monkeypatch.setattr(sys, "executable", "/opt/my tools/bin/python")
    with pytest.raises(DkdbgError, match="debugpy is not installed for the Python that runs dkdbg") as caught:
        single_file.debugpy_for((3, 11))
    assert caught.value.hint == "'/opt/my tools/bin/python' -m pip install debugpy"
