"""Finds a debugpy for a given Python: a folder beside the agent, or a copy of the pure part of an installed debugpy.

Used by the agent, and by join.py in the program's processes.
"""

from __future__ import annotations

import os
import re
import stat
import sys

from .pydevd_patches import privates

TYPE_CHECKING = False
if TYPE_CHECKING:
    import zipfile
    from typing import Iterable, List, Optional, Tuple

    Version = Tuple[int, ...]

#: debugpy versions by Python version. Columns: lowest Python, highest Python (None: no limit), lowest debugpy, highest
#: debugpy (None: no limit but `privates.BELOW`). Sources: Requires-Python on PyPI, and trials: 1.8.22 needs 3.10,
#: 1.8.21 runs on 3.8 to 3.13, 1.7.0 is the last for 3.7.
SUPPORT = (
    ((3, 10), None, privates.OLDEST, None),
    ((3, 8), (3, 9), privates.OLDEST, (1, 8, 21)),
    ((3, 7), (3, 7), (1, 7, 0), (1, 7, 0)),
)
_NAME = re.compile(r"^debugpy-(\d+(?:\.\d+)*)$")
#: Date of all entries of a zip, the earliest possible, so that the bytes depend only on the content.
_EPOCH = (1980, 1, 1, 0, 0, 0)
_LICENSES = ("LICENSE", "LICENSE.txt", "ThirdPartyNotices.txt")
#: pydevd's library that sets the trace function of running threads, which Python 3.11 and older cannot do themselves
#: (20 KB). Stepping does not need it; pydevd does without it where it cannot be loaded (musl, other processors, old
#: libc).
_HELPER = re.compile(r"^attach_linux_\w+\.so$")
#: Folders that no debugged program imports, left out so that the agent fits into a ConfigMap (ADR 20): a debugger for
#: Windows processes (1.5 MB of source), sources of the helper library, PyDev's sitecustomize.
_LEFT_OUT = ("__pycache__", "winappdbg", "tests", "windows", "linux_and_mac", "pydev_sitecustomize")
#: Files that no debugged program imports: builds, tests, PyDev's own test runner (debugpy 1.8.16 imports the
#: package that holds it), the Jython probe, the generator of the protocol's classes.
_NOT_IMPORTED = re.compile(
    r"^(setup_pydevd_cython|_pydev_jy_imports_tipper|_always_live_program|_check|_test_attach_\w+|pydev_runfiles\w*|__main__pydevd_gen_\w+)\.py$"
)


class NoDebugpy(Exception):  # noqa: N818 -- read as a sentence: `except NoDebugpy`
    """No debugpy for this interpreter. The message names the Python, the available versions and the command to type."""


def add(archive: zipfile.ZipFile, name: str, data: bytes) -> None:
    """Add one file to a zip whose bytes depend only on names and contents."""
    import zipfile

    entry = zipfile.ZipInfo(name, _EPOCH)
    entry.compress_type = archive.compression
    entry.external_attr = 0o100644 << 16
    entry.create_system = 3
    archive.writestr(entry, data)


def installed_debugpy() -> Optional[Tuple[str, str]]:
    """Return the package folder and the version of the debugpy that this interpreter would import, or None.

    It does not import debugpy, which would cost 24 ms and change `sys.breakpointhook`.
    """
    import importlib.util

    try:
        spec = importlib.util.find_spec("debugpy")
    except (ImportError, ValueError):
        return None
    if spec is None or not spec.origin:
        return None
    directory = os.path.dirname(spec.origin)
    version = _version_of(directory)
    return (directory, version) if version else None


def ensure_debugpy(
    search_dirs: Iterable[str], runtime_dir: str, python: Optional[Tuple[int, int]] = None
) -> str:
    """Return a folder for `sys.path` that holds only the matching debugpy.

    The newest match wins; among equals, the first in `search_dirs`. If these have no match, as on a developer's
    machine, copy the installed debugpy into the runtime folder.

    Args:
        search_dirs: folders that may hold `debugpy-VERSION`, as the single file unpacks it.
        runtime_dir: the agent's private folder.
        python: version of Python that debugpy has to support; the running one by default.

    Raises:
        NoDebugpy: no debugpy matches.
        OSError: the runtime folder cannot be written.
    """
    wanted = python or sys.version_info[:2]
    found = _find(search_dirs)
    fitting = [item for item in found if supports(item[0], wanted)]
    if fitting:
        return max(fitting, key=lambda item: item[0])[1]
    installed = installed_debugpy()
    if installed is not None and supports(parse_version(installed[1]), wanted):
        directory, text = installed
        return copied(bundled_files(directory), os.path.join(runtime_dir, "debugpy-" + text))
    raise NoDebugpy(_none_fits(wanted, found))


def supports(version: Version, python: Tuple[int, int]) -> bool:
    """Tell whether this debugpy runs on this Python."""
    for lowest, highest, oldest, newest in SUPPORT:
        if python >= lowest and (highest is None or python <= highest):
            return oldest <= version < privates.BELOW and (newest is None or version <= newest)
    return False


def newest_for(python: Tuple[int, ...]) -> Optional[Version]:
    """Return the last debugpy that runs on this Python; None while the latest one still does."""
    return next((newest for lowest, _, _, newest in SUPPORT if python >= lowest), None)


def parse_version(text: str) -> Version:
    """Return the leading numbers of a version such as `1.8.22`; empty for another text."""
    match = re.match(r"\d+(?:\.\d+)*", text)
    return tuple(int(part) for part in match.group().split(".")) if match else ()


def _find(search_dirs: Iterable[str]) -> List[Tuple[Version, str]]:
    found = []
    for directory in search_dirs:
        try:
            names = os.listdir(directory)
        except OSError:
            continue
        for name in names:
            match = _NAME.match(name)
            if match:
                found.append((parse_version(match.group(1)), os.path.join(directory, name)))
    return found


def copied(files: Iterable[Tuple[str, str]], target: str) -> str:
    """Copy files into a folder and return the folder.

    At any time the folder is either complete or missing, even if another process creates it too.

    Args:
        files: path on this machine, name in the folder.

    Raises:
        OSError: a file cannot be read, or the folder cannot be written.
    """
    if is_own(target):
        return target
    import shutil
    import tempfile

    scratch = tempfile.mkdtemp(prefix=".copy-", dir=os.path.dirname(target))
    try:
        for path, name in files:
            copy = os.path.join(scratch, name)
            os.makedirs(os.path.dirname(copy), exist_ok=True)
            shutil.copyfile(path, copy)
        try:
            os.rename(scratch, target)
        except OSError:
            if not is_own(target):  # otherwise another process has created it meanwhile
                raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return target


def is_own(folder: str) -> bool:
    """Tell whether a folder is this user's or root's, and not writable by others, who could run code through it."""
    try:
        info = os.lstat(folder)
    except OSError:
        return False
    return stat.S_ISDIR(info.st_mode) and info.st_uid in (0, os.geteuid()) and not info.st_mode & 0o022


def bundled_files(debugpy_dir: str) -> Iterable[Tuple[str, str]]:
    """Yield the files of an installed debugpy that a program needs: (path on this machine, name in the copy).

    Leave out the compiled parts except for one small helper, so that one copy serves every libc and processor. The
    pure-Python code was measured to be as fast.

    Args:
        debugpy_dir: the package folder, the one with `__init__.py`.
    """
    root = os.path.abspath(debugpy_dir)
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if name not in _LEFT_OUT]
        for name in names:
            path = os.path.join(folder, name)
            if _NOT_IMPORTED.match(name):
                continue
            if name.endswith(".py") or _HELPER.match(name) or (folder == root and name in _LICENSES):
                yield path, "debugpy/" + os.path.relpath(path, root).replace(os.sep, "/")
    version = _version_of(root)
    metadata = os.path.join(os.path.dirname(root), "debugpy-%s.dist-info" % version)
    for folder, _, names in os.walk(metadata):
        for name in names:
            if name in _LICENSES:
                yield os.path.join(folder, name), "debugpy/" + name


def _version_of(directory: str) -> str:
    """Read the version from `_version.py` (versioneer's JSON), without importing anything."""
    try:
        with open(os.path.join(directory, "_version.py"), encoding="utf-8") as source:
            match = re.search(r'"version":\s*"(\d+(?:\.\d+)*)', source.read())
    except OSError:
        return ""
    return match.group(1) if match else ""


def _none_fits(python: Tuple[int, int], found: List[Tuple[Version, str]]) -> str:
    name = "Python %d.%d" % python[:2]
    have = ", ".join(sorted({os.path.basename(path) for _, path in found})) or "none"
    if python < (3, 8):
        advice = "this Python is too old to be debugged here"
    else:
        advice = "`dkdbg run --python %s` brings the matching debugpy; for an image, run `dkdbg init` again"
        advice %= sys.executable
    return "no debugpy for %s (%s); found: %s; %s" % (name, sys.executable, have, advice)
