"""Build the single file `agent.pyz`: agent.sh, then a zip with the agent and a debugpy without binaries.

`sh agent.pyz launch -- CMD` finds a Python and runs CMD under the agent; `unzip -l agent.pyz` lists the content.
The same dkdbg and debugpy give the same bytes, so that a second `init` changes nothing.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import os
import re
import shlex
import shutil
import sys
import tempfile
import zipfile
import zlib
from importlib import metadata, resources
from pathlib import Path
from typing import TYPE_CHECKING

from dkdbg import process
from dkdbg.agent.inprocess import bundle
from dkdbg.errors import DkdbgError
from dkdbg.repository.artefacts import artefact

if TYPE_CHECKING:
    from importlib.abc import Traversable

NAME = "agent.pyz"
_START = "sitecustomize.py"
#: Entries of the package that are shipped: the agent, and the modules that a program may import.
_SHIPPED = ("__init__.py", "pai.py", "agent", "launchers")
#: The zip's `__main__`: read-only verbs run directly from the zip, because a health check may run every two seconds.
_MAIN = """\
# dkdbg's agent without its comments and docstrings; the lines have the numbers of dkdbg's sources.
import sys

if sys.argv[1:2] in (["launch"], ["supervise"], ["accompany"], ["enter"]):
    from dkdbg.agent import unpack

    sys.exit(unpack.main(__loader__.archive))

from dkdbg.agent import __main__ as agent

sys.exit(agent.main())
"""
OLDEST_PYTHON = (3, 8)


def build(python: tuple[int, ...]) -> bytes:
    """Return the single file for a target with a Python such as (3, 11).

    Raises:
        DkdbgError: there is no debugpy for this Python.
    """
    version, package = debugpy_for(python)
    own = {name: without(source) for name, source in agent_files().items()}
    license_text = artefact(".", "LICENSE").read_bytes()
    files = {
        **own,
        "__main__.py": _MAIN.encode(),
        "paipdb.py": _paipdb(),
        _START: _start(),
        "LICENSE": license_text,
    }
    for path, name in bundle.bundled_files(str(package)):
        with open(path, "rb") as source:  # noqa: PTH123 - a str
            files[f"debugpy-{version}/{name}"] = source.read()
    out = io.BytesIO()
    out.write(launcher())
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name in sorted(files):
            bundle.add(archive, name, files[name])
    return out.getvalue()


#: Maximum bytes to read of a single file's `dkdbg/__init__.py`, which contains the version.
_MAX_INIT_BYTES = 100_000
_VERSION = re.compile(r'^__version__ = "([^"\n]{1,40})"', re.MULTILINE)


def version_in(data: bytes) -> str | None:
    """Return the version of dkdbg that made a single file; None if the file is not one. The file is untrusted."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entry = archive.getinfo("dkdbg/__init__.py")
            if entry.compress_type not in {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}:
                return None
            with archive.open(entry) as file:
                found = _VERSION.search(file.read(_MAX_INIT_BYTES).decode("utf-8", "replace"))
    except (zipfile.BadZipFile, KeyError, ValueError, RuntimeError, OSError, EOFError, zlib.error):
        return None
    return found[1] if found else None


def is_older(version: str, installed: str) -> bool:
    """Return whether a version of dkdbg is older than the installed one; invalid text counts as older."""
    from packaging.version import InvalidVersion, Version  # noqa: PLC0415 - 10 ms that a sync does not need

    try:
        return Version(version) < Version(installed)
    except InvalidVersion:
        return True


#: Modules of dkdbg/agent/inprocess for pdb on an OpenPAI job's port: few enough for a line of the job's YAML.
_PDB = (
    "__init__", "pai", "on_demand", "session", "own_socket",
    "pdb/__init__", "pdb/loopback", "pdb/pdb_login", "pdb/socket_pdb",
)  # fmt: skip


def build_pdb() -> bytes:
    """Return a zip for PYTHONPATH with `paipdb` and `dkdbg.pai`, without debugpy.

    Its entries are uncompressed, because callers compress the zip as a whole.
    """
    every = agent_files()
    names = ["dkdbg/__init__.py", "dkdbg/pai.py", "dkdbg/agent/__init__.py"]
    names += [f"dkdbg/agent/inprocess/{name}.py" for name in _PDB]
    files = {"paipdb.py": _paipdb(), **{name: every[name] for name in names}}
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(files):
            bundle.add(archive, name, files[name])
    return out.getvalue()


def _paipdb() -> bytes:
    """Return the source of `paipdb`, a top-level module beside the package `dkdbg`."""
    return Path(str(resources.files("dkdbg"))).with_name("paipdb.py").read_bytes()


def _start() -> bytes:
    """Return the source of the sitecustomize that runs in each Python with the single file on its PYTHONPATH."""
    return resources.files("dkdbg").joinpath("agent").joinpath("autostart").joinpath(_START).read_bytes()


def launcher() -> bytes:
    """Return the shell script at the beginning of the single file."""
    return resources.files("dkdbg").joinpath("agent").joinpath("agent.sh").read_bytes()


def short_launcher() -> str:
    """Return the launcher without its comments, for a command line."""
    lines = launcher().decode().splitlines()
    return "\n".join(line for line in lines if line.strip() and not line.lstrip().startswith("#"))


def agent_files() -> dict[str, bytes]:
    """Return the agent's sources: name in the single file -> bytes."""
    package = resources.files("dkdbg")
    found: dict[str, bytes] = {}
    for name in _SHIPPED:
        entry = package.joinpath(name)
        if entry.is_dir():
            found.update(_tree(entry, f"dkdbg/{name}"))
        elif entry.is_file():
            found[f"dkdbg/{name}"] = entry.read_bytes()
    return found


def _tree(folder: Traversable, prefix: str) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for entry in folder.iterdir():
        if entry.is_dir() and entry.name != "__pycache__":
            found.update(_tree(entry, f"{prefix}/{entry.name}"))
        elif entry.name.endswith(".py"):
            found[f"{prefix}/{entry.name}"] = entry.read_bytes()
    return found


_TRIPLE = r'"{3}(?:[^"\\]|\\.|"(?!""))*"{3}'
#: Docstrings and whole-line comments, which are removed, and other strings and comments, which may contain the
#: same text and are kept.
_PIECES = re.compile(
    rf"^(?P<indent>[ \t]*)(?P<docstring>{_TRIPLE})$"
    r"|^[ \t]*(?P<comment>\#(?!!)[^\n]*)"
    rf"|{_TRIPLE}"
    r"|'{3}(?:[^'\\]|\\.|'(?!''))*'{3}"
    r'|"(?:[^"\\\n]|\\.)*"'
    r"|'(?:[^'\\\n]|\\.)*'"
    r"|\#[^\n]*",
    re.MULTILINE | re.DOTALL,
)


def without(source: bytes) -> bytes:
    """Return a Python source without comments and docstrings; each line keeps its number."""
    return _PIECES.sub(_stripped, source.decode()).encode()


def _stripped(piece: re.Match[str]) -> str:
    if piece["docstring"] is not None:
        return f'{piece["indent"]}""' + "\n" * piece["docstring"].count("\n")
    return "" if piece["comment"] is not None else piece.group()


def debugpy_for(python: tuple[int, ...]) -> tuple[str, Path]:
    """Return version and package folder of the debugpy for a Python version such as (3, 11).

    Usually it is the debugpy that dkdbg is installed with, so nothing is downloaded. Only Python 3.8 and 3.9, which
    newer releases do not support, need an older debugpy, downloaded once from the package index.

    Raises:
        DkdbgError: Python is too old, debugpy is not installed, or the older debugpy cannot be downloaded.
    """
    if python[:2] < OLDEST_PYTHON:
        raise DkdbgError(
            f"Python {'.'.join(map(str, python))} is too old: the agent needs 3.8 or newer",
            hint="name a newer one in .python-version or requires-python",
        )
    installed, package = _installed_debugpy()
    newest = bundle.newest_for(python[:2])
    if newest is None or bundle.parse_version(installed) <= newest:
        return installed, package
    version = ".".join(map(str, newest))
    return version, _downloaded_debugpy(version)


def _installed_debugpy() -> tuple[str, Path]:
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


def _downloaded_debugpy(version: str) -> Path:
    target = cache_dir() / f"whole-debugpy-{version}"  # folders of the former name may be incomplete
    package = target / "debugpy"
    if (package / "__init__.py").is_file():
        return package
    shutil.rmtree(target, ignore_errors=True)
    # pip runs in the cache folder: with `-m`, Python searches the working folder first, and the user's may be an
    # untrusted repository with a pip.py.
    cache_dir().mkdir(mode=0o700, parents=True, exist_ok=True)
    # The folder is renamed once it is complete: pip moves the files one by one, and may be interrupted.
    with tempfile.TemporaryDirectory(prefix=f"{target.name}-", dir=cache_dir()) as folder:
        argv = [
            sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile", "--ignore-requires-python",
            "--only-binary=:all:", "--platform=any", "--target", f"{folder}/whole", f"debugpy=={version}",
        ]  # fmt: skip
        result = process.run(argv, cwd=cache_dir(), timeout=180.0)
        if not result.code:
            with contextlib.suppress(OSError):  # another dkdbg has created it meanwhile
                Path(folder, "whole").rename(target)
    if not (package / "__init__.py").is_file():
        raise DkdbgError(
            f"cannot fetch debugpy {version}, which this repository's old Python needs: {result.stderr.strip()[-300:]}",
            hint="run this once while the package index is reachable; it is cached afterwards",
        )
    return package
