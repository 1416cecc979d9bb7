"""The rule sources of one local root, in their current state."""

from __future__ import annotations

import os
from functools import cached_property, partial
from typing import TYPE_CHECKING

from dkdbg.errors import DkdbgError
from dkdbg.sync.beneath import Beneath, folders_above, read_file
from dkdbg.sync.receiver.problems import Refused
from dkdbg.sync.rules import gitrepo
from dkdbg.sync.rules.patterns import Patterns, dockerignore_lines, gitignore_lines
from dkdbg.sync.rules.standing import OUT, RUN_FOLDERS, RUNS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: Maximum bytes of a rule file to read.
MAX_RULE_BYTES = 4_000_000


class Sources:
    """The pattern lists of one root, and git's tracked paths.

    Args:
        root: the local root, absolute, without symlinks.
        ignore: `[sync] ignore` of dkdbg.toml.

    Attributes:
        sync: the patterns of dkdbg.toml.
        docker: those of .dockerignore.
        git: the defaults and git's, for the root folder, from strong to weak.
        reaching, docker_reaching: negated patterns, in parts, that may bring back content of an excluded
            folder.
        files: absolute paths outside the tree's own folders whose change changes the rules; `nested` adds some.
    """

    def __init__(self, root: str, ignore: Sequence[str]) -> None:
        self._root = root
        self._own = Beneath(root)
        self.sync = Patterns("[sync] ignore of dkdbg.toml", ((0, text) for text in ignore))
        self.docker = Patterns(".dockerignore", dockerignore_lines(_content(".dockerignore", self._own.read)))
        self.reaching = tuple(parts for parts in _brought_back(self.sync) if parts[0] != "**")
        self.docker_reaching = _brought_back(self.docker)
        repository = gitrepo.find(root)
        self._tracked = gitrepo.Tracked(root, (*OUT, *RUNS)) if repository else None
        self.files: tuple[str, ...] = repository.files if repository else ()
        self._nested: dict[str, gitrepo.Tracked] = {}
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
        """Return paths that git tracks though a rule of git or a default matches them; waits for git."""
        if self._known is None:
            nested = (path + each for path, one in self._nested.items() for each in one.paths)
            self._known = (self._tracked.paths if self._tracked else frozenset()).union(nested)
        return self._known

    @cached_property
    def tracked_folders(self) -> frozenset[str]:
        """Return the folders above `tracked`."""
        return frozenset(folder for path in self.tracked for folder in folders_above(path))

    def nested(self, path: str) -> tuple[Patterns, ...] | None:
        """Return git's lists in `path` if it is the top of a repository of its own, such as a submodule.

        The lists of the repository around it do not count there, as for git.
        """
        folder = os.path.join(self._root, path.rstrip("/"))
        repository = gitrepo.find(folder)
        if repository is None or repository.prefix or not repository.exists:
            return None
        self._nested[path] = gitrepo.Tracked(folder, (*OUT, *RUNS))
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
        return gitrepo.users_list(self._root)

    def _users_lines(self) -> list[tuple[int, str]]:
        """Return the user's own patterns; dotfiles are often symlinks."""
        return gitignore_lines(_content(self._users, partial(read_file, follow=True)))

    def gitignore(self, path: str) -> Patterns | None:
        """Return the patterns of the .gitignore in the folder `path` (empty or ending in `/`), None without one."""
        lines = gitignore_lines(_content(path + ".gitignore", self._own.read))
        return Patterns(path + ".gitignore", lines, cut=len(path), depth=path.count("/")) if lines else None

    def same_as(self, other: Sources) -> bool:
        """Tell whether both have the same patterns, and depend on the same files."""
        same = (self.files, self._texts()) == (other.files, other._texts())
        return same and self.tracked == other.tracked

    def _texts(self) -> list[list[tuple[str, str]]]:
        lists = (self.sync, self.docker, *self.git)
        return [[(rule.source, rule.text) for rule in one.rules] for one in lists]


def _brought_back(patterns: Patterns) -> tuple[tuple[str, ...], ...]:
    """Return the parts of the negated patterns that name a folder to enter."""
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
        DkdbgError: it is too large for a rule file. Its exclusions must not be sent, so it is not ignored.
    """
    try:
        return read(path, MAX_RULE_BYTES)
    except Refused as error:
        if not error.hint:
            return b""
        raise DkdbgError(f"{path}: {error.reason}", hint=error.hint) from error
    except OSError:
        return b""
