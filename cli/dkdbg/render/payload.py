"""The folder `.dkdbg/`: the agent and its debugpy, checked in so that a teammate needs nothing but Docker."""

from __future__ import annotations

import importlib.util
import tempfile
from importlib import metadata, resources
from pathlib import Path
from typing import TYPE_CHECKING

from dkdbg import process
from dkdbg.agent.program import bundle
from dkdbg.errors import DkdbgError

if TYPE_CHECKING:
    from importlib.abc import Traversable

#: Last debugpy whose wheels say Python 3.8 and 3.9 (facts: package metadata, 2026-11).
OLD_PYTHON_DEBUGPY = "1.8.21"

#: Folders of the agent that no program needs beside it: the receiver of sync travels through its standard input.
_NOT_SHIPPED = ("__pycache__", "sync")


def agent_files() -> dict[str, bytes]:
    """The agent as it is put beside the program: path below `.dkdbg/` -> bytes."""
    package = resources.files("dkdbg")
    files = {f"dkdbg/{name}": package.joinpath(name).read_bytes() for name in ("__init__.py", "pai.py")}
    files.update(_tree(package.joinpath("agent"), "dkdbg/agent"))
    files.update(_tree(package.joinpath("launchers"), "dkdbg/launchers"))
    files["agent.sh"] = files.pop("dkdbg/agent/agent.sh")
    return files


def _tree(folder: Traversable, prefix: str) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for entry in folder.iterdir():
        if entry.is_dir() and entry.name in _NOT_SHIPPED:
            continue
        if entry.is_dir():
            found.update(_tree(entry, f"{prefix}/{entry.name}"))
        elif entry.name.endswith((".py", ".sh")):
            found[f"{prefix}/{entry.name}"] = entry.read_bytes()
    return found


def debugpy_files(python: str) -> dict[str, bytes]:
    """The debugpy for a container with Python `python` (such as `3.9`): file name below `.dkdbg/` -> bytes.

    It is the one that dkdbg itself is installed with, so nothing is downloaded; only Python 3.8 and 3.9, which
    newer releases have left behind, need an older one from the package index, once.

    Raises:
        DkdbgError: Python is too old, or the older debugpy cannot be had.
    """
    minor = tuple(int(part) for part in python.split(".")[:2])
    if minor < (3, 8):
        raise DkdbgError(
            f"Python {python} is older than the agent can run on (3.8)",
            hint="name a newer one in .python-version or requires-python",
        )
    if minor >= (3, 10) or _version_key(metadata.version("debugpy")) <= _version_key(OLD_PYTHON_DEBUGPY):
        return _bundled(metadata.version("debugpy"), installed_debugpy())
    return _bundled(OLD_PYTHON_DEBUGPY, _downloaded(OLD_PYTHON_DEBUGPY))


def _version_key(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:3] if part.isdigit())


def installed_debugpy() -> Path:
    """Directory of the debugpy package that dkdbg runs with.

    Raises:
        DkdbgError: it is not installed.
    """
    spec = importlib.util.find_spec("debugpy")
    if spec is None or spec.origin is None:
        raise DkdbgError("debugpy is not installed beside dkdbg", hint="pip install debugpy")
    return Path(spec.origin).parent


def _bundled(version: str, package: Path) -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / f"debugpy-{version}.zip"
        bundle.write_bundle(str(package), str(out))
        return {out.name: out.read_bytes()}


def cache_dir() -> Path:
    """Where downloads are kept, local side (XDG base directory specification)."""
    import os  # noqa: PLC0415

    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dkdbg"


def _downloaded(version: str) -> Path:
    target = cache_dir() / f"debugpy-{version}"
    package = target / "debugpy"
    if (package / "__init__.py").is_file():
        return package
    import sys  # noqa: PLC0415

    argv = [
        sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile", "--ignore-requires-python",
        "--only-binary=:all:", "--platform=any", "--target", str(target), f"debugpy=={version}",
    ]  # fmt: skip
    result = process.run(argv, timeout=180.0)
    if result.code or not (package / "__init__.py").is_file():
        raise DkdbgError(
            f"cannot fetch debugpy {version}, which this repository's old Python needs: {result.stderr.strip()[-300:]}",
            hint="run this once while the package index is reachable; it is cached afterwards",
        )
    return package
