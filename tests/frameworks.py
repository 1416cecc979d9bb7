"""Pythons of their own for tests with real frameworks (CPU PyTorch), made once and kept beside the other costly things."""

import fcntl
import functools
import shutil
import subprocess
import sys
from pathlib import Path

from tests import pythons
from tests.needs import give_up

#: What each of them has. PyTorch's own index has wheels without CUDA, a tenth of the size. Of Ray's extras `default`
#: has the dashboard with the state API, `tune` and `serve` what its libraries need.
PACKAGES = {
    "torch": ["torch==2.13.0" + ("+cpu" if sys.platform == "linux" else ""), "numpy==2.2.6"],
    "ray": ["ray[default,serve,tune]==2.60.0", "debugpy==1.8.22"],
    "py-spy": ["py-spy==0.4.1"],
    "jax": ["jax[cpu]==0.10.2"],
    "greenlets": ["gevent==26.9.0", "eventlet==0.41.3"],
    "launchers": [
        "lightning==2.6.6", "accelerate==1.15.0", "gunicorn==27.0.1", "uvicorn==0.54.0", "pytest==9.2.0",
        "pytest-xdist==3.8.0", "joblib==1.6.0", "pyuwsgi==2.0.30.post1",
    ],
}  # fmt: skip
#: Those that are made on top of another one, which is not installed again.
_ABOVE = {"launchers": "torch"}
#: For torch alone: where that index cannot be reached, pip tries again for seconds for each package that it looks up.
_INDEX = {"torch": ["--extra-index-url", "https://download.pytorch.org/whl/cpu", "--retries", "1"]}


@functools.cache
def python_with(framework: str) -> str:
    """Path of a Python (this one's version) that has PACKAGES[FRAMEWORK]; where it cannot be made, skip, in CI fail."""
    name = f"{framework}-{sys.version_info[0]}.{sys.version_info[1]}"
    folder = pythons.cache() / name
    folder.parent.mkdir(parents=True, exist_ok=True)
    wanted = "\n".join(PACKAGES[framework])
    with folder.with_name(f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # beside other processes of tests
        made = folder / "made-of"
        if not made.exists() or made.read_text() != wanted:
            shutil.rmtree(folder, ignore_errors=True)
            below = python_with(_ABOVE[framework]) if framework in _ABOVE else None
            _make(folder, [*_INDEX.get(framework, []), *PACKAGES[framework]], below)
            made.write_text(wanted)
    return str(folder / "bin" / "python")


def _make(folder, words: list[str], below: str | None = None) -> None:
    own = str(folder / "bin" / "python")
    pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", *words]
    paths = "import sysconfig; print(sysconfig.get_path('purelib'))"
    for command in ([sys.executable, "-m", "venv", str(folder)], [own, *pip]):
        if command[0] == own and below is not None:
            lies, lower = (
                subprocess.check_output([one, "-c", paths], text=True).strip() for one in (own, below)
            )
            (Path(lies) / "below.pth").write_text(lower + "\n")
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
        if done.returncode:
            give_up(f"{' '.join(command)}: {(done.stderr or done.stdout).strip()[-300:]}")
