"""List a repository's files in a bounded walk, and read their text, whatever the encoding."""

from __future__ import annotations

import os
import posixpath
import re
import stat
import time
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from dkdbg.errors import DkdbgError
from dkdbg.printable import is_text, printable

if TYPE_CHECKING:
    from collections.abc import Iterable

#: Directories that hold no sources of the project.
SKIP_DIRS = frozenset(
    {
        ".git", ".hg", ".svn", ".tox", ".nox", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".ipynb_checkpoints",
        ".venv", "venv", ".env", "virtualenv", "node_modules", "__pycache__", "site-packages", "wandb", "mlruns",
        "lightning_logs", ".eggs", ".dkdbg", "bower_components", ".terraform", ".idea",
    }
)  # fmt: skip
#: Directories with build products, skipped only in the root: below it, these are ordinary names.
SKIP_ROOT_DIRS = frozenset({"build", "dist", "target"})
#: Directories with third-party code.
VENDORED = frozenset(
    {"third_party", "thirdparty", "third-party", "3rdparty", "vendor", "vendored", "external", "extern", "submodules", "deps"}
)  # fmt: skip

MAX_FILES = 20_000
#: Maximum entries of a directory to walk; larger directories hold data.
MAX_DIR_ENTRIES = 3_000
MAX_DEPTH = 9
MAX_DIRS = 10_000
MAX_TEXT_BYTES = 600_000
#: Maximum bytes of a lock file or notebook, which digests or pictures make large.
MAX_LOCK_BYTES = 6_000_000
#: Seconds after which no further files are read: the user waits, and a hostile repository may be endless.
MAX_WALK_S = 15.0


class Tree:
    """The files below a root, by POSIX path relative to it; those near the root come first.

    Attributes:
        root: absolute, on this machine.
        files: all files found, breadth first, sorted by name within a directory.
        dirs: all directories found, except the root.
        links: all symlinks found; only those to files of the repository are followed. Empty with `listed`.
        problems: texts about files that could not be read or understood; readers append to it.
        omitted: path of a file that was read only in part, or of a folder that was not walked -> reason.
    """

    def __init__(
        self, root: Path, *, ignore: frozenset[str] = frozenset(), listed: Iterable[str] | None = None
    ) -> None:
        """Find the files below a root.

        Args:
            root: absolute, on this machine.
            ignore: paths to leave out.
            listed: paths of the files, such as those that git lists; None to walk the folders.
        """
        self.root = root
        self.problems: list[str] = []
        self.links: list[str] = []
        self.omitted: dict[str, str] = {}
        self._until = time.monotonic() + MAX_WALK_S
        self._text: dict[str, str] = {}
        found, dirs = (
            _walk(root, self.problems, self.omitted, self.links)
            if listed is None
            else _listed(root, listed, self.problems)
        )
        found = [path for path in found if path not in ignore]
        self.files: tuple[str, ...] = tuple(found)
        self.dirs: tuple[str, ...] = tuple(dirs)
        self._file_set = frozenset(found)
        self._dir_set = frozenset(dirs) | {"."}
        self._by_name: dict[str, list[str]] = {}
        for path in found:
            self._by_name.setdefault(path.rsplit("/", 1)[-1], []).append(path)

    def has(self, path: str) -> bool:
        """Return whether there is a file at `path`, relative to the root."""
        return path in self._file_set

    def has_dir(self, path: str) -> bool:
        """Return whether there is a directory at `path`, relative to the root; `.` is the root."""
        return path in self._dir_set

    def real_dir(self, path: str) -> str | None:
        """Return the directory that `path` is or links to, relative to the root; None if the walk did not find it."""
        if self.has_dir(path):
            return path
        real, root = Path(os.path.realpath(self.root / path)), Path(os.path.realpath(self.root))
        found = real.relative_to(root).as_posix() if real.is_relative_to(root) else ""
        return found if self.has_dir(found) else None

    def named(self, name: str) -> tuple[str, ...]:
        """Return all files with this name, those near the root first."""
        return tuple(self._by_name.get(name, ()))

    def matching(self, pattern: re.Pattern[str]) -> tuple[str, ...]:
        """Return the files whose whole name matches `pattern`, those near the root first."""
        found = (path for name, paths in self._by_name.items() if pattern.fullmatch(name) for path in paths)
        return tuple(sorted(found, key=lambda path: (path.count("/"), path)))

    def text(self, path: str) -> str:
        """Return the text of a file with LF line endings; empty if it is missing, binary or unreadable."""
        if path not in self._text:
            self._text[path] = self._read(path)
        return self._text[path]

    def hold(self, path: str, text: str) -> None:
        """Store text from inside another file, such as a here-document, under a path that no file has."""
        self._text[path] = text

    def add_problem(self, problem: str) -> None:
        """Record a problem that does not prevent further reading."""
        if problem not in self.problems:
            self.problems.append(problem)

    def _read(self, path: str) -> str:
        if path not in self._file_set:
            return ""
        if time.monotonic() > self._until:
            self.add_problem(f"detection took longer than {MAX_WALK_S:g} s: not all files were read")
            return ""
        try:
            # The walk found a regular file. Meanwhile it may be a FIFO, which would block for ever.
            real = os.path.realpath(self.root / path)
            descriptor = os.open(real, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            with os.fdopen(descriptor, "rb") as stream:
                if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                    self.add_problem(f"{path}: it is not a regular file")
                    return ""
                max_bytes = MAX_LOCK_BYTES if path.endswith((".lock", ".ipynb")) else MAX_TEXT_BYTES
                raw = stream.read(max_bytes + 1)
        except OSError as error:
            self.add_problem(f"{path}: {error.strerror or error}")
            return ""
        text = decode(raw[:max_bytes])
        if len(raw) > max_bytes and text:
            self.omitted[path] = f"only its first {max_bytes / 1e6:g} MB were read"
        return text


def decode(raw: bytes) -> str:
    """Decode `raw` by its byte order mark, otherwise as UTF-8 or Latin-1, and convert line endings to LF.

    Return "" for binary content (a NUL byte, except in UTF-16).
    """
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        text = raw.decode("utf-16", errors="replace")
    elif b"\0" in raw[:8192]:
        return ""
    else:
        try:
            text = raw.decode("utf-8-sig")
        except UnicodeDecodeError:
            text = raw.decode("latin-1")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def inside(path: str) -> str | None:
    """Return a relative POSIX path without `.` and `..`; `.` for the root, None for a path outside the root."""
    found = posixpath.normpath(path)
    return None if found.startswith(("/", "../")) or found == ".." else found


def is_address(source: str) -> bool:
    """Return whether a build context, or the source of an ADD, is a URL or git repository instead of a path."""
    return re.match(r"[a-z+]+://|git@", source) is not None


def is_fixed(path: str) -> bool:
    """Return whether a path does not depend on its compose file's folder: absolute, `~...`, or a variable."""
    return path[:1] in {"/", "~", "$"}


def join(directory: str, path: str) -> str | None:
    """Return `path` below `directory`, both relative to the root; None if it is outside the root."""
    return inside(f"{directory}/{path}")


def parent(path: str) -> str:
    """Return the directory of a relative path; `.` for a file in the root."""
    return path.rsplit("/", 1)[0] if "/" in path else "."


def is_vendored(path: str) -> bool:
    """Return whether a path is in a directory of third-party code."""
    return not VENDORED.isdisjoint(path.lower().split("/")[:-1])


def _walk(
    root: Path, problems: list[str], omitted: dict[str, str], links: list[str]
) -> tuple[list[str], list[str]]:
    """Return the files and directories below the root, those near the root first.

    Raises:
        DkdbgError: the root is not a directory, or cannot be listed.
    """
    if not root.is_dir():
        raise DkdbgError(f"{root} is not a directory", hint="Give the folder of the repository.")
    files: list[str] = []
    dirs: list[str] = []
    level = [""]
    inside = Path(os.path.realpath(root))
    for depth in range(MAX_DEPTH):
        below: list[str] = []
        for directory in level:
            try:
                with os.scandir(root / directory) as entries:
                    every = sorted(entries, key=lambda entry: entry.name)
                    listed = every[:MAX_DIR_ENTRIES]
            except OSError as error:
                if depth == 0:
                    raise DkdbgError(
                        f"cannot read the folder {root}: {error.strerror or error}",
                        hint="Check its permissions, or run as the user who owns it.",
                    ) from error
                problems.append(f"{directory}: {error.strerror or error}")
                continue
            if len(every) > MAX_DIR_ENTRIES:
                omitted[directory or "."] = f"only its first {MAX_DIR_ENTRIES} entries were read"
            names = {entry.name for entry in listed}
            if depth and ("pyvenv.cfg" in names or "conda-meta" in names):
                continue
            for entry in listed:
                path = f"{directory}/{entry.name}" if directory else entry.name
                if not all(map(is_text, entry.name)):
                    problems.append(f"{printable(path)}: its name is not text")
                    continue
                try:
                    if entry.is_symlink():
                        links.append(path)
                    is_dir = entry.is_dir(follow_symlinks=False)
                    is_file = entry.is_file()
                    if is_file and entry.is_symlink() and not _stays(inside, path):
                        problems.append(f"{path}: a link that leads out of the repository")
                        continue
                    if not is_file and not entry.is_dir():
                        what = (
                            "a link that leads to no file"
                            if entry.is_symlink()
                            else "it is not a regular file"
                        )
                        problems.append(f"{path}: {what}")
                except OSError as error:
                    problems.append(f"{path}: {error.strerror or error}")
                    continue
                if is_dir and not _is_left_out(path, omitted):
                    dirs.append(path)
                    below.append(path)
                elif is_file:
                    files.append(path)
            if len(files) > MAX_FILES or len(dirs) > MAX_DIRS:
                problems.append(
                    f"more than {MAX_FILES} files or {MAX_DIRS} folders: the deeper ones were skipped"
                )
                return files, dirs
        level = below
    omitted.update((path, "folders this deep were not read") for path in level[:1])
    return files, dirs


def _is_left_out(path: str, omitted: dict[str, str]) -> bool:
    """Return whether to leave a folder out of the walk; record it in `omitted` if it holds build products."""
    if path in SKIP_ROOT_DIRS:
        omitted[path] = "build products were not read"
    name = path.rsplit("/", 1)[-1]
    return path in SKIP_ROOT_DIRS or name in SKIP_DIRS or name.endswith(".egg-info")


def _listed(root: Path, listed: Iterable[str], problems: list[str]) -> tuple[list[str], list[str]]:
    """Return those of the paths `listed` that are files of the repository, and their folders."""
    files: list[str] = []
    inside = Path(os.path.realpath(root))
    for path in sorted(listed, key=lambda path: (path.count("/"), path)):
        try:
            is_file = stat.S_ISREG((inside / path).stat().st_mode)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            problems.append(f"{printable(path)}: {error.strerror or error}")
            continue
        if len(files) == MAX_FILES:
            problems.append(f"more than {MAX_FILES} files: the deeper ones were skipped")
            break
        if is_file and not all(map(is_text, path)):
            problems.append(f"{printable(path)}: its name is not text")
        elif is_file and not _stays(inside, path):
            problems.append(f"{path}: a link that leads out of the repository")
        elif is_file:
            files.append(path)
    dirs = {str(each) for path in files for each in PurePosixPath(path).parents} - {"."}
    return files, sorted(dirs, key=lambda path: (path.count("/"), path))


def _stays(inside: Path, path: str) -> bool:
    """Return whether a link stays in the repository and outside git's own folder; `inside` is the resolved root."""
    real = Path(os.path.realpath(inside / path))
    return real.is_relative_to(inside) and ".git" not in real.relative_to(inside).parts
