"""Corrects pydevd's mapping of file names where a breakpoint would be accepted and never stop. Used by join.py.

For a program that is started in `/` by a relative name, Python reports the path `//train.py`. `os.path` keeps two
leading slashes, because POSIX allows a special meaning for them. On Linux and macOS they mean the same as one.

pydevd tries path mappings of folders before those of files. If `proj/train.py` is mapped to `/app/train.py` and `proj`
to `/workspace`, a breakpoint in `proj/train.py` would be set in `/workspace/train.py`, which does not run.

With justMyCode, pydevd takes all files in site-packages for libraries. But if a package's folder there has a path
mapping, the user's own package is mounted over the installed copy, and breakpoints in it have to stop.

A driver that `ray job submit` has started runs in a folder into which Ray has unpacked the job's working_dir
(ray/driver.py). A path mapping for that folder is added.
"""

# debugpy is untyped.
# ruff: noqa: ANN401
# mypy: disable-error-code="import-not-found, import-untyped, no-untyped-call"

from __future__ import annotations

import os
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Tuple

#: Part of the path of an installed package's folder.
_PACKAGE = re.compile(r"/(?:site|dist)-packages/[^/]")
#: Remote roots of path mappings that are folders of installed packages, with a slash at their end.
_own_packages: List[str] = []


def watch() -> None:
    """Install the corrections in pydevd."""
    import pydevd_file_utils as files
    from _pydevd_bundle.pydevd_filtering import FilesFiltering
    from _pydevd_bundle.pydevd_process_net_command_json import PyDevJsonCommandProcessor

    known, set_up = files._abs_and_canonical_path, files.setup_client_server_paths

    def _abs_and_canonical_path(filename: Any, *more: Any) -> Tuple[str, str]:
        found: Tuple[str, str] = known(single(filename) if isinstance(filename, str) else filename, *more)
        return found

    def setup_client_server_paths(paths: List[Tuple[str, str]]) -> None:
        unpacked, source = (os.environ.get(each, "") for each in ("DKDBG_RAY_UNPACKED", "DKDBG_RAY_SOURCE"))
        editor_path = of_editor(source, paths) if unpacked else ""
        paths = [(editor_path, unpacked), *paths] if editor_path else paths
        set_up(paths)
        _map_files_first(files, paths)
        _own_packages[:] = [local.rstrip("/") + "/" for _, local in paths if _PACKAGE.search(local)]

    in_project, set_options = FilesFiltering.in_project_roots, PyDevJsonCommandProcessor._set_debug_options

    def _set_debug_options(
        self: Any, debugger: Any, arguments: Dict[str, Any], *more: Any, **named: Any
    ) -> None:
        reload = arguments.setdefault("autoReload", {})
        if isinstance(reload, dict) and not reload.get("enable"):
            # Although it is off, pydevd would read the default, the working directory, which fails if that was removed.
            reload.setdefault("watchDirectories", ["/"])
        set_options(self, debugger, arguments, *more, **named)

    def in_project_roots(self: Any, received_filename: str) -> bool:
        return bool(in_project(self, received_filename)) or received_filename.startswith(tuple(_own_packages))

    files._abs_and_canonical_path = _abs_and_canonical_path
    files.setup_client_server_paths = setup_client_server_paths
    FilesFiltering.in_project_roots = in_project_roots
    PyDevJsonCommandProcessor._set_debug_options = _set_debug_options


def single(path: str) -> str:
    """Return a path on this machine with one leading slash instead of two."""
    return path[1:] if path.startswith("//") and os.sep == "/" else path


def of_editor(path: str, pairs: List[Tuple[str, str]]) -> str:
    """Return the editor's path for a path on this machine; empty if no path mapping includes it.

    Args:
        pairs: the path mappings: (editor's folder, folder on this machine). If empty, the paths are the same on both.
    """
    if not pairs:
        return path
    path, pairs = (
        os.path.realpath(path),
        [(editor_path, os.path.realpath(local)) for editor_path, local in pairs],
    )
    around = [pair for pair in pairs if (path + "/").startswith(pair[1].rstrip("/") + "/")]
    if not around:
        return ""
    editor_path, local = max(around, key=lambda pair: len(pair[1].rstrip("/")))
    below = path[len(local.rstrip("/")) :]
    return editor_path.rstrip("/\\") + (below.replace("/", "\\") if "\\" in editor_path else below)


def _map_files_first(files: Any, paths: List[Tuple[str, str]]) -> None:
    """Make the mapping of a file win over that of a folder when breakpoints are set.

    Args:
        files: the module pydevd_file_utils, set up with these mappings.
        paths: the path mappings: (editor's path, path on this machine).
    """

    def key(path: str) -> str:  # normalised as on the editor's machine: Windows ignores case
        return str(files.normcase_from_client(path)).replace("\\", "/")

    alone: Dict[str, str] = {}
    for editor_path, local_path in paths:
        if os.path.isfile(local_path):
            alone.setdefault(key(editor_path), local_path)
    known = files.map_file_to_server
    if not alone:
        return

    def map_file_to_server(filename: str, *more: Any) -> str:
        local = alone.get(key(filename))
        found: str = files.absolute_path(local) if local is not None else known(filename, *more)
        return found

    files.map_file_to_server = map_file_to_server
