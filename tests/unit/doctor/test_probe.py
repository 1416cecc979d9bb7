"""doctor's script, run by the shell of this machine: what it finds, and what it leaves alone."""

import os
import shutil
import sys
import time
from pathlib import Path

import pytest

from dkdbg.doctor import probe
from tests.commands import command, executable

#: As driver 550 prints it.
SMI = """\
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 550.54.15              Driver Version: 550.54.15      CUDA Version: 12.4     |
|-----------------------------------------+------------------------+----------------------+
"""
MISMATCH = "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 550.90\n"


def run(cwd, **env):
    asked = time.time()
    done = command(["sh", "-c", probe.SCRIPT], cwd, env=env)
    assert done.stderr == ""
    return probe.machine(done.stdout, label="", asked=asked, answered=time.time())


def fake(folder, text, code):
    """A fake of nvidia-smi, first on PATH."""
    folder.mkdir()
    (folder / "said").write_text(text)
    executable(folder / "nvidia-smi", f'cat "{folder}/said"\nexit {code}')
    return f"{folder}{os.pathsep}{os.environ['PATH']}"


def test_this_machine_is_read(tmp_path):
    seen = run(tmp_path)
    assert seen.system == os.uname().sysname
    assert (seen.uid, seen.owner, seen.folder) == (os.getuid(), os.getuid(), str(tmp_path.resolve()))
    assert abs(seen.skew) < 1.5
    assert seen.umask == int(command(["sh", "-c", "umask"]).stdout, 8)
    assert seen.disks[0].path == str(tmp_path.resolve())
    assert 0 < seen.disks[0].free <= seen.disks[0].total
    assert seen.pythons
    assert "git" in seen.programs
    if sys.platform == "linux":
        assert seen.limits["fs.inotify.max_user_watches"] == int(
            Path("/proc/sys/fs/inotify/max_user_watches").read_text()
        )


def test_a_driver_and_a_broken_one_are_told_apart(tmp_path):
    seen = run(tmp_path, PATH=fake(tmp_path / "works", SMI, 0))
    assert (seen.driver, seen.cuda, seen.smi) == ("550.54.15", "12.4", "")
    seen = run(tmp_path, PATH=fake(tmp_path / "broken", MISMATCH, 18))
    assert (seen.driver, seen.cuda) == ("", "")
    assert seen.smi.startswith("Failed to initialize NVML: Driver/library version mismatch")


@pytest.mark.parametrize(
    ("text", "cuda"),
    [
        ('__version__ = "2.4.0+cu121"\ncuda: Optional[str] = "12.1"\n', "12.1"),
        ("__version__ = '2.4.0+cpu'\ncuda = None\n", ""),
    ],
)
def test_the_cuda_of_torch_is_read_without_importing_it(tmp_path, text, cuda):
    (tmp_path / "site" / "torch").mkdir(parents=True)
    (tmp_path / "site" / "torch" / "__init__.py").write_text("raise SystemExit('imported')\n")
    (tmp_path / "site" / "torch" / "version.py").write_text(text)
    seen = run(tmp_path, PYTHONPATH=str(tmp_path / "site"))
    assert (seen.torch[:5], seen.torch_cuda) == ("2.4.0", cuda)


def test_a_machine_with_few_programs_is_read(tmp_path):
    for name in ("sh", "uname", "date", "id", "cat"):
        (tmp_path / name).symlink_to(shutil.which(name))
    done = command(["/bin/sh", "-c", probe.SCRIPT], tmp_path, env={"PATH": str(tmp_path)})
    seen = probe.machine(done.stdout, label="x", asked=1.0, answered=2.0)
    assert (seen.uid, seen.pythons, seen.driver) == (os.getuid(), (), "")
