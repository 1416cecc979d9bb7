"""The rules inside one folder: which entries take part, and which folders to enter."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dkdbg.sync.rules.patterns import IN, RUN_FOLDERS, SOURCE, Patterns, Rule, Standing, matcher

if TYPE_CHECKING:
    from collections.abc import Collection

    from dkdbg.sync.rules.patterns import Matcher
    from dkdbg.sync.rules.sources import Sources


class Lists:
    """The pattern lists that apply in one folder, with a cheap test for names that no pattern matches."""

    def __init__(self, sync: Patterns, docker: Patterns, git: tuple[Patterns, ...]) -> None:
        self.sync, self.docker, self.git = sync, docker, git
        every = (sync, docker, *git)
        self.names: frozenset[str] = frozenset().union(*(one.names for one in every))
        self.suffixes: frozenset[str] = frozenset().union(*(one.suffixes for one in every))
        parts = [one.name_regex for one in every if one.name_regex]
        self.any_name: Matcher = matcher("|".join(parts) or "(?!)")
        self._every = every
        self._paths: dict[int, tuple[tuple[str, int, Matcher], ...]] = {}

    def paths_at(self, depth: int) -> tuple[tuple[str, int, Matcher], ...]:
        """Return (prefix, cut, matcher) of each list whose patterns with a slash may match at this depth.

        For prefix and cut see `Patterns`.
        """
        if depth not in self._paths:
            found = ((one, one.paths_at(depth)) for one in self._every)
            self._paths[depth] = tuple((one.prefix, one.cut, matches) for one, matches in found if matches)
        return self._paths[depth]


class Level:
    """The rules inside one folder.

    Attributes:
        path: the folder relative to the root, ending in `/`; empty for the root.
        standing: result of the rules for this folder.
    """

    __slots__ = ("_lists", "_paths", "_sources", "path", "standing")

    def __init__(self, sources: Sources, path: str, standing: Standing, lists: Lists) -> None:
        self._sources, self.path, self.standing, self._lists = sources, path, standing, lists
        self._paths = lists.paths_at(path.count("/"))

    def judge(self, name: str, is_dir: bool) -> Standing:
        """Return the result of the rules for the entry `name`; for a symlink `is_dir` is False."""
        path = self.path + name
        lists, above = self._lists, self.standing
        if above is IN and not (
            name in lists.names or name[name.rfind(".") :] in lists.suffixes or lists.any_name(name)
        ):
            for prefix, cut, matches in self._paths:
                if matches(prefix + path[cut:]):
                    break
            else:
                return IN
        sync = lists.sync.last(name, path, is_dir)
        if sync:
            return Standing(kept=sync) if sync.negated else Standing(sync=sync)
        if above.sync:
            return above
        docker = lists.docker.last(name, path, is_dir)
        if above.docker and (docker is None or docker.order < above.docker.order):
            docker = above.docker
        git = self._git(name, path, is_dir)
        return Standing(git=git, docker=docker) if git or docker else IN

    def _git(self, name: str, path: str, is_dir: bool) -> Rule | None:
        git = self.standing.git
        if git is None or git.source == RUN_FOLDERS:
            for patterns in self._lists.git:
                found = patterns.last(name, path, is_dir)
                if found:
                    git = None if found.negated else found
                    break
        if git is None or (name != ".git" and path in self._sources.tracked):
            return None
        if git.source == RUN_FOLDERS and (
            path in self._sources.tracked_folders if is_dir else name.endswith(SOURCE)
        ):
            return None
        return git

    def visits(self, name: str, standing: Standing) -> bool:
        """Return whether to enter the folder `name` of this folder, because something below it may take part."""
        out = standing.out
        if out is None:
            return True
        path, sources = self.path + name, self._sources
        if any(_reaches(pattern, path) for pattern in sources.reaching):
            return True
        if standing.sync:
            return False
        if standing.git:
            return standing.git.source == RUN_FOLDERS or (name != ".git" and path in sources.tracked_folders)
        return any(_reaches(pattern, path) for pattern in sources.docker_reaching)

    def enter(self, name: str, standing: Standing, names: Collection[str]) -> Level | None:
        """Return the rules inside the folder `name`, with entries `names`; None if the folder is not entered.

        Reads the .gitignore of the folder, and the rule files of git if the folder is the top of a repository.
        """
        path = f"{self.path}{name}/"
        if ("pyvenv.cfg" in names or "conda-meta" in names) and not standing.kept:
            return None
        lists = self._lists
        git = (".git" in names and self._sources.nested(path)) or lists.git
        if ".gitignore" in names and (own := self._sources.gitignore(path)):
            git = (own, *git)
        if git is not lists.git:
            lists = Lists(lists.sync, lists.docker, git)
        plain = standing.out is None and standing.docker is None
        return Level(self._sources, path, IN if plain else standing, lists)


def _reaches(pattern: tuple[str, ...], folder: str) -> bool:
    """Return whether `pattern` may match something below `folder`."""
    parts = folder.split("/")
    for part, wanted in zip(parts, pattern, strict=False):
        if wanted == "**":
            return True
        if not Patterns("", [(0, "/" + wanted)]).last(part, part, True):
            return False
    return len(parts) < len(pattern)
