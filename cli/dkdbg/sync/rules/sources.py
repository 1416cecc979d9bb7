"""Where the rules of one local root are written, read as they are now."""

from __future__ import annotations

import os
from functools import cached_property
from typing import TYPE_CHECKING

from dkdbg.errors import DkdbgError
from dkdbg.sync.beneath import Beneath, read_file
from dkdbg.sync.receiver.problems import Refused
from dkdbg.sync.relative import folders_above
from dkdbg.sync.rules import gitrepo
from dkdbg.sync.rules.patterns import Patterns, dockerignore_lines, gitignore_lines
from dkdbg.sync.rules.standing import OUT, RUN_FOLDERS, RUNS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: Bytes of a rule file that are read.
LIMIT = 4_000_000


class Sources:
    """The pattern lists of one root, and what git tracks.

    Args:
        root: the local root, absolute, without symlinks.
        ignore: `[sync] ignore` of dkdbg.toml.

    Attributes:
        sync: the patterns of dkdbg.toml.
        docker: those of .dockerignore.
        git: the defaults and git's, for the root folder, from strong to weak.
        reaching, docker_reaching: negated patterns, in parts, that may bring back what is below a folder that is out.
        files: absolute paths outside the tree's own folders whose change changes the rules.
    """

    def __init__(self, root: str, ignore: Sequence[str]) -> None:
        self._own = Beneath(root)
        self.sync = Patterns("[sync] ignore of dkdbg.toml", ((0, text) for text in ignore))
        self.docker = Patterns(".dockerignore", dockerignore_lines(_content(".dockerignore", self._own.read)))
        self.reaching = tuple(parts for parts in _brought_back(self.sync) if parts[0] != "**")
        self.docker_reaching = _brought_back(self.docker)
        repository = gitrepo.find(root)
        self._tracked = gitrepo.Tracked(root, (*OUT, *RUNS)) if repository else None
        self.files: tuple[str, ...] = repository.files if repository else ()
        git = [
            Patterns(RUN_FOLDERS, ((0, text) for text in RUNS)),
            Patterns("defaults", ((0, text) for text in OUT)),
        ]
        if repository:
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
        """Paths that git tracks though a rule of git or a default matches them; waits for git."""
        return self._tracked.paths if self._tracked else frozenset()

    @cached_property
    def tracked_folders(self) -> frozenset[str]:
        """The folders above `tracked`."""
        return frozenset(folder for path in self.tracked for folder in folders_above(path))

    def gitignore(self, path: str) -> Patterns | None:
        """The patterns of the .gitignore in the folder `path` (empty or ending in `/`), None when it has none."""
        lines = gitignore_lines(_content(path + ".gitignore", self._own.read))
        return Patterns(path + ".gitignore", lines, cut=len(path), depth=path.count("/")) if lines else None

    def same_as(self, other: Sources) -> bool:
        """Whether both say the same, and would be changed by the same files."""
        same = (self.files, self._texts()) == (other.files, other._texts())
        return same and self.tracked == other.tracked

    def _texts(self) -> list[list[tuple[str, str]]]:
        lists = (self.sync, self.docker, *self.git)
        return [[(rule.source, rule.text) for rule in one.rules] for one in lists]


def _brought_back(patterns: Patterns) -> tuple[tuple[str, ...], ...]:
    """The parts of those negated patterns that name a folder to look into."""
    found = []
    for rule in patterns.rules:
        body = rule.text[1:].rstrip("/")
        if rule.negated and "/" in body:
            found.append(tuple(body.lstrip("/").split("/")))
    return tuple(found)


def _content(path: str, read: Callable[[str, int], bytes]) -> bytes:
    """What a rule file says; nothing when it is missing, unreadable, a symlink (as for git), or no file.

    Raises:
        DkdbgError: it is too large to be one. What it leaves out must not be sent, so it is not passed over.
    """
    try:
        return read(path, LIMIT)
    except Refused as error:
        if not error.hint:
            return b""
        raise DkdbgError(f"{path}: {error.reason}", hint=error.hint) from error
    except OSError:
        return b""
