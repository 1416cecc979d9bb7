"""Build the single file `agent.pyz`: agent.sh, then a zip with the agent and a debugpy without binaries.

`sh agent.pyz launch -- CMD` finds a Python; `unzip -l agent.pyz` lists its content. The same dkdbg and debugpy give
the same bytes, so that a second `init` changes nothing.
"""

from __future__ import annotations

import io
import re
import zipfile
import zlib
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from dkdbg.agent.inprocess import bundle
from dkdbg.delivery import debugpy
from dkdbg.repository.artefacts import artefact

if TYPE_CHECKING:
    from importlib.abc import Traversable

NAME = "agent.pyz"
_START = "sitecustomize.py"
#: Entries of the package that are shipped: the agent, and the modules that a program may import.
_SHIPPED = ("__init__.py", "pai.py", "agent", "launchers")
#: Read-only verbs run from the zip: the health check may run every other second.
_MAIN = """\
# dkdbg's agent without its comments and docstrings; the lines have the numbers of dkdbg's sources.
import sys

if sys.argv[1:2] in (["launch"], ["supervise"], ["accompany"], ["enter"]):
    from dkdbg.agent import unpack

    sys.exit(unpack.main(__loader__.archive))

from dkdbg.agent import __main__ as agent

sys.exit(agent.main())
"""


def build(python: tuple[int, ...]) -> bytes:
    """Return the single file for a target with a Python such as (3, 11).

    Raises:
        DkdbgError: there is no debugpy for it.
    """
    version, package = debugpy.for_python(python)
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
        with open(path, "rb") as source:  # noqa: PTH123 - text in, bytes out
            files[f"debugpy-{version}/{name}"] = source.read()
    out = io.BytesIO()
    out.write(launcher())
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name in sorted(files):
            bundle.add(archive, name, files[name])
    return out.getvalue()


#: Maximum bytes of an agent's `__init__.py`, which has its version.
_MAX_INIT_BYTES = 100_000
_VERSION = re.compile(r'^__version__ = "([^"\n]{1,40})"', re.MULTILINE)


def version_in(data: bytes) -> str | None:
    """Return the version of dkdbg that made a single file; None if it is not one. The file may be anyone's."""
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


def is_older(held: str, installed: str) -> bool:
    """Return whether a version of dkdbg is older than the installed one; text that is no version is."""
    from packaging.version import InvalidVersion, Version  # noqa: PLC0415 - 10 ms that a sync does not need

    try:
        return Version(held) < Version(installed)
    except InvalidVersion:
        return True


#: Modules of dkdbg/agent/inprocess for pdb on an OpenPAI job's port: few enough for a line of the job's YAML.
_PDB = (
    "__init__", "pai", "on_demand", "session", "own_socket",
    "pdb/__init__", "pdb/loopback", "pdb/pdb_login", "pdb/pdb_token", "pdb/socket_pdb",
)  # fmt: skip


def build_pdb() -> bytes:
    """Return a zip for PYTHONPATH with `paipdb` and `dkdbg.pai`, without debugpy; stored, to be compressed as a whole."""
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
    """Return the module `paipdb`, which has to lie beside the package."""
    return Path(str(resources.files("dkdbg"))).with_name("paipdb.py").read_bytes()


def _start() -> bytes:
    """Return the sitecustomize that runs in each Python with the file in its PYTHONPATH."""
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
#: A docstring and a comment on lines of their own, and the strings and comments that may contain similar text.
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
    return _PIECES.sub(_kept, source.decode()).encode()


def _kept(piece: re.Match[str]) -> str:
    if piece["docstring"] is not None:
        return f'{piece["indent"]}""' + "\n" * piece["docstring"].count("\n")
    return "" if piece["comment"] is not None else piece.group()
