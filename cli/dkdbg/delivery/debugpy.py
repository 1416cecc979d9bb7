"""Find the debugpy for a Python version: the installed one, or an older one from the package index."""

from __future__ import annotations

import importlib.util
import os
import shlex
import sys
from importlib import metadata
from pathlib import Path

from dkdbg import process
from dkdbg.agent.inprocess import bundle
from dkdbg.errors import DkdbgError

OLDEST_PYTHON = (3, 8)


def for_python(python: tuple[int, ...]) -> tuple[str, Path]:
    """Return version and package folder of the debugpy for a Python version such as (3, 11).

    It is the debugpy that dkdbg is installed with, so nothing is downloaded. Only Python 3.8 and 3.9, which newer
    releases no longer support, need an older one from the package index, once.

    Raises:
        DkdbgError: Python is too old, debugpy is not installed, or the older debugpy cannot be downloaded.
    """
    if python[:2] < OLDEST_PYTHON:
        raise DkdbgError(
            f"Python {'.'.join(map(str, python))} is older than the agent can run on (3.8)",
            hint="name a newer one in .python-version or requires-python",
        )
    installed, package = _installed()
    newest = bundle.newest_for(python[:2])
    if newest is None or bundle.parse_version(installed) <= newest:
        return installed, package
    version = ".".join(map(str, newest))
    return version, _downloaded(version)


def _installed() -> tuple[str, Path]:
    """Return version and package folder of the debugpy that dkdbg is installed with.

    Raises:
        DkdbgError: debugpy is not installed.
    """
    spec = importlib.util.find_spec("debugpy")
    try:
        version = metadata.version("debugpy")
    except metadata.PackageNotFoundError:
        spec, version = None, ""
    if spec is None or spec.origin is None:
        raise DkdbgError(
            "debugpy is not installed for the Python that runs dkdbg",
            hint=f"{shlex.quote(sys.executable)} -m pip install debugpy",
        )
    return version, Path(spec.origin).parent


def cache_dir() -> Path:
    """Return the local folder for downloads (XDG base directory specification, which ignores relative paths)."""
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (base if base.is_absolute() else Path.home() / ".cache") / "dkdbg"


def _downloaded(version: str) -> Path:
    target = cache_dir() / f"debugpy-{version}"
    package = target / "debugpy"
    if (package / "__init__.py").is_file():
        return package
    argv = [
        sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile", "--ignore-requires-python",
        "--only-binary=:all:", "--platform=any", "--target", str(target), f"debugpy=={version}",
    ]  # fmt: skip
    # `-m` makes Python search the working folder first, which may be an untrusted repository with a pip.py.
    cache_dir().mkdir(mode=0o700, parents=True, exist_ok=True)
    result = process.run(argv, cwd=cache_dir(), timeout=180.0)
    if result.code or not (package / "__init__.py").is_file():
        raise DkdbgError(
            f"cannot fetch debugpy {version}, which this repository's old Python needs: {result.stderr.strip()[-300:]}",
            hint="run this once while the package index is reachable; it is cached afterwards",
        )
    return package
