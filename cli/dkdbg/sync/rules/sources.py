"""The current rule sources of one local root, among them git's rule files and tracked paths."""

from __future__ import annotations

import os
import stat
import threading
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from dkdbg.errors import DkdbgError
from dkdbg.repository import git
from dkdbg.sync.beneath import Beneath, folders_above, read_file
from dkdbg.sync.receiver.problems import Refused
from dkdbg.sync.rules.patterns import OUT, RUN_FOLDERS, RUNS, Patterns, dockerignore_lines, gitignore_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

#: Maximum bytes of a rule file to read.
MAX_RULE_BYTES = 4_000_000
#: Maximum bytes of a file that names a folder, such as `.git` of a worktree; a path cannot be longer.
_MAX_LINE_BYTES = 1 << 15


class Sources:
    """The pattern lists of one root, and git's tracked paths.

    Args:
        root: the local root, absolute, without symlinks.
        ignore: `[sync] ignore` of dkdbg.toml.

    Attributes:
        sync: the patterns of dkdbg.toml.
        docker: the patterns of .dockerignore.
        git: git's patterns for the root folder and the defaults, from strong to weak.
        reaching, docker_reaching: negated patterns, split at `/`, that may bring back content of an excluded folder.
        files: absolute paths of git's rule files outside the tree; `nested` adds those of nested repositories.
    """

    def __init__(self, root: str, ignore: Sequence[str]) -> None:
        self._root = root
        self._own = Beneath(root)
        self.sync = Patterns("[sync] ignore of dkdbg.toml", ((0, text) for text in ignore))
        self.docker = Patterns(".dockerignore", dockerignore_lines(_content(".dockerignore", self._own.read)))
        self.reaching = tuple(parts for parts in _brought_back(self.sync) if parts[0] != "**")
        self.docker_reaching = _brought_back(self.docker)
        repository = _repository_at(root)
        self._tracked = Tracked(root, (*OUT, *RUNS)) if repository else None
        self.files: tuple[str, ...] = repository.files if repository else ()
        self._nested: dict[str, Tracked] = {}
        self._known: frozenset[str] | None = None
        self._defaults = (
            Patterns(RUN_FOLDERS, ((0, text) for text in RUNS)),
            Patterns("defaults", ((0, text) for text in OUT)),
        )
        git = [*self._defaults]
        if repository:
            self.files += (self._users,)
            git.append(Patterns(self._users, self._users_lines(), prefix=repository.prefix))
            exclude = gitignore_lines(_content(repository.exclude, read_file))
            git.append(Patterns(".git/info/exclude", exclude, prefix=repository.prefix))
            for folder, prefix in repository.above:
                file = os.path.join(folder, ".gitignore")
                git.append(Patterns(file, gitignore_lines(_content(file, read_file)), prefix=prefix))
        top = self.gitignore("")
        git += [top] if top else []
        self.git = tuple(reversed(git))

    @property
    def tracked(self) -> frozenset[str]:
        """Wait for git, and return the paths that it tracks although a rule of git or a default matches them."""
        if self._known is None:
            nested = (path + each for path, one in self._nested.items() for each in one.paths)
            self._known = (self._tracked.paths if self._tracked else frozenset()).union(nested)
        return self._known

    @cached_property
    def tracked_folders(self) -> frozenset[str]:
        """Return the folders above `tracked`."""
        return frozenset(folder for path in self.tracked for folder in folders_above(path))

    def nested(self, path: str) -> tuple[Patterns, ...] | None:
        """Return git's lists for `path` if it is the top of a nested repository, such as a submodule; otherwise None.

        As in git, the lists of the outer repository do not apply in a nested one.
        """
        folder = os.path.join(self._root, path.rstrip("/"))
        repository = _repository_at(folder)
        if repository is None or repository.prefix or not repository.exists:
            return None
        self._nested[path] = Tracked(folder, (*OUT, *RUNS))
        self._known = None
        vars(self).pop("tracked_folders", None)
        self.files += repository.files
        cut, depth = len(path), path.count("/")
        exclude = gitignore_lines(_content(repository.exclude, read_file))
        return (
            Patterns(f"{path}.git/info/exclude", exclude, cut=cut, depth=depth),
            Patterns(self._users, self._users_lines(), cut=cut, depth=depth),
            *reversed(self._defaults),
        )

    @cached_property
    def _users(self) -> str:
        return _users_list(self._root)

    def _users_lines(self) -> list[tuple[int, str]]:
        """Return the patterns of core.excludesFile; follow symlinks, which dotfiles often are."""
        return gitignore_lines(_content(self._users, partial(read_file, follow=True)))

    def gitignore(self, path: str) -> Patterns | None:
        """Return the patterns of the .gitignore in the folder `path` (empty or ending in `/`), None without one."""
        lines = gitignore_lines(_content(path + ".gitignore", self._own.read))
        return Patterns(path + ".gitignore", lines, cut=len(path), depth=path.count("/")) if lines else None

    def same_as(self, other: Sources) -> bool:
        """Return whether both have the same patterns, rule files and tracked paths."""
        same = (self.files, self._texts()) == (other.files, other._texts())
        return same and self.tracked == other.tracked

    def _texts(self) -> list[list[tuple[str, str]]]:
        lists = (self.sync, self.docker, *self.git)
        return [[(rule.source, rule.text) for rule in one.rules] for one in lists]


def _brought_back(patterns: Patterns) -> tuple[tuple[str, ...], ...]:
    """Return the negated patterns that contain a folder, split at `/`."""
    found = []
    for rule in patterns.rules:
        body = rule.text[1:].rstrip("/")
        if rule.negated and "/" in body:
            found.append(tuple(body.lstrip("/").split("/")))
    return tuple(found)


def _content(path: str, read: Callable[[str, int], bytes]) -> bytes:
    """Return a rule file's content.

    Empty when it is missing, unreadable, a symlink (as for git), or not a file.

    Raises:
        DkdbgError: it is too large. Ignoring it would send files that it excludes.
    """
    try:
        return read(path, MAX_RULE_BYTES)
    except Refused as error:
        if not error.hint:
            return b""
        raise DkdbgError(f"{path}: {error.reason}", hint=error.hint) from error
    except OSError:
        return b""


class Repository(NamedTuple):
    """The repository around a root.

    Attributes:
        exists: whether git would accept it as a repository, judging by its HEAD.
        prefix: the root relative to the top of the repository, ending in `/`; empty when it is the top.
        above: (folder, path from it to the root ending in `/`) of the folders from the top to the root's parent.
        exclude: absolute path of info/exclude.
        files: absolute paths that determine the rules: the index, info/exclude, and .gitignore of the folders above.
    """

    exists: bool
    prefix: str
    above: tuple[tuple[str, str], ...]
    exclude: str
    files: tuple[str, ...]


def _repository_at(root: str) -> Repository | None:
    """Return the repository around `root`, an absolute path; reads files only."""
    above: list[tuple[str, str]] = []
    folder = root
    while True:
        dot_git = os.path.join(folder, ".git")
        if os.path.lexists(dot_git):
            break
        parent = os.path.dirname(folder)
        if parent == folder:
            return None
        folder = parent
        above.insert(0, (folder, os.path.relpath(root, folder) + "/"))
    git_dir = _pointed_to(dot_git, folder)
    common = _line(os.path.join(git_dir, "commondir"))
    common_dir = os.path.normpath(os.path.join(git_dir, common)) if common else git_dir
    exclude = os.path.join(common_dir, "info", "exclude")
    return Repository(
        exists=os.path.lexists(os.path.join(git_dir, "HEAD")),
        prefix=above[0][1] if above else "",
        above=tuple(above),
        exclude=exclude,
        files=(
            os.path.join(git_dir, "index"),
            exclude,
            *(os.path.join(folder, ".gitignore") for folder, _ in above),
        ),
    )


class Tracked:
    """Paths below `root` that git tracks although its rules or one of `patterns` match them; empty without git.

    A git process matches the index (20 ms for 10,000 files) while the caller already reads the tree.
    """

    def __init__(self, root: str, patterns: Iterable[str]) -> None:
        options = ["-z", "--cached", "--ignored", "--exclude-standard"]
        for pattern in patterns:
            options += ["-x", pattern]
        self._paths: frozenset[str] = frozenset()
        self._asking = threading.Thread(target=self._ask, args=(options, root), daemon=True)
        self._asking.start()

    @property
    def paths(self) -> frozenset[str]:
        """Return the paths relative to the root; waits for git."""
        self._asking.join()
        return self._paths

    def _ask(self, options: list[str], root: str) -> None:
        output = git.ask(Path(root), "ls-files", *options)
        self._paths = frozenset(output.split("\0")[:-1] if output else ())


def _users_list(root: str) -> str:
    """Return the path of core.excludesFile, or git's default for it."""
    named = git.ask(Path(root), "config", "--null", "--path", "--get", "core.excludesFile")
    if named is not None:
        return os.path.join(root, named.removesuffix("\0"))
    return os.path.join(os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config"), "git", "ignore")


def _pointed_to(dot_git: str, folder: str) -> str:
    """Return `.git` itself, or the folder that the file `.git` of a worktree or submodule names."""
    if os.path.isdir(dot_git):
        return dot_git
    text = _line(dot_git)
    return os.path.normpath(os.path.join(folder, text.removeprefix("gitdir:").strip())) if text else dot_git


def _line(path: str) -> str:
    """Return the first line of a small regular file, else "": reading a FIFO would block for ever."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        with open(fd, "rb") as file:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                return ""
            return os.fsdecode(file.readline(_MAX_LINE_BYTES).rstrip(b"\n"))
    except OSError:
        return ""
