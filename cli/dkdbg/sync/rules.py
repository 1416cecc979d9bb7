"""Which paths below the local root take part in sync, and which rule says so.

From weak to strong: what is out by default; git's ignore rules, where what git tracks is never ignored;
.dockerignore, with Docker's meaning; `[sync] ignore` of dkdbg.toml, the last word, where `!` brings back.
"""

from __future__ import annotations

import os
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from dkdbg.sync import gitrepo
from dkdbg.sync.level import Level, Lists
from dkdbg.sync.patterns import Patterns, Rule, dockerignore_lines, gitignore_lines
from dkdbg.sync.standing import ENVIRONMENT, IN, OUT, RUN_FOLDERS, RUNS, Standing

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: `[sync] max_size` when dkdbg.toml says nothing, in bytes.
MAX_SIZE = 100_000_000

#: In the root: a change of it may change the rules.
CONFIGURATION = "dkdbg.toml"


class Verdict(NamedTuple):
    """Whether a path takes part, and the reason as a sentence."""

    takes_part: bool
    reason: str


class Rules:
    """The rules of one local root, as they are now; make it anew when a rule file has changed.

    Args:
        root: the local root, absolute, without symlinks.
        ignore: `[sync] ignore` of dkdbg.toml.
        max_size: larger files stay out; bytes.

    Attributes:
        reaching, docker_reaching: negated patterns, in parts, that may bring back what is below a folder that is out.
        files: absolute paths outside the tree's own folders whose change changes the rules.
    """

    def __init__(self, root: str, *, ignore: Sequence[str] = (), max_size: int = MAX_SIZE) -> None:
        self.root, self.ignore, self.max_size = root, tuple(ignore), max_size
        sync = Patterns("[sync] ignore of dkdbg.toml", ((0, text) for text in self.ignore))
        docker = Patterns(".dockerignore", dockerignore_lines(_read(os.path.join(root, ".dockerignore"))))
        self.reaching = tuple(parts for parts in _brought_back(sync) if parts[0] != "**")
        self.docker_reaching = _brought_back(docker)
        repository = gitrepo.find(root)
        self._tracked = gitrepo.Tracked(root, (*OUT, *RUNS)) if repository else None
        self.files: tuple[str, ...] = repository.files if repository else ()
        git: list[Patterns] = [
            Patterns(RUN_FOLDERS, ((0, text) for text in RUNS)),
            Patterns("defaults", ((0, text) for text in OUT)),
        ]
        if repository:
            git.append(
                Patterns(
                    ".git/info/exclude", gitignore_lines(_read(repository.exclude)), prefix=repository.prefix
                )
            )
            for folder, prefix in repository.above:
                data = _read(os.path.join(folder, ".gitignore"))
                git.append(Patterns(os.path.join(folder, ".gitignore"), gitignore_lines(data), prefix=prefix))
        top = self.gitignore("")
        git += [top] if top else []
        self._texts = [[(rule.source, rule.text) for rule in one.rules] for one in (sync, docker, *git)]
        self._top = Level(self, "", IN, Lists(sync, docker, tuple(reversed(git))))

    @property
    def tracked(self) -> frozenset[str]:
        """Paths that git tracks though a rule of git or a default matches them."""
        return self._tracked.paths if self._tracked else frozenset()

    @cached_property
    def tracked_folders(self) -> frozenset[str]:
        """The folders above `tracked`."""
        return frozenset(folder for path in self.tracked for folder in _folders(path))

    def same_as(self, other: Rules) -> bool:
        """Whether both decide the same, as far as rules outside the folders of the tree go."""
        if self.max_size != other.max_size:
            return False
        return self._texts == other._texts and self.tracked == other.tracked

    def top(self) -> Level:
        """The rules inside the root folder."""
        return self._top

    def gitignore(self, path: str) -> Patterns | None:
        """The patterns of the .gitignore in the folder `path` (empty or ending in `/`), None when it has none."""
        lines = gitignore_lines(_read(os.path.join(self.root, path, ".gitignore")))
        return Patterns(path + ".gitignore", lines, cut=len(path), depth=path.count("/")) if lines else None

    def why(self, path: str) -> Verdict:
        """Whether `path`, relative to the root with `/`, takes part, and the rule that decides it.

        The size limit and what cannot be copied are not rules: `dkdbg.sync.scan` says those.
        """
        level = self._top
        parts = path.rstrip("/").split("/")
        for depth, name in enumerate(parts):
            here = os.path.join(self.root, level.path, name)
            last = depth == len(parts) - 1
            is_dir = not last or path.endswith("/") or (os.path.isdir(here) and not os.path.islink(here))
            standing = level.judge(name, is_dir)
            out = standing.out
            if last or (out and not level.visits(name, standing)):
                if is_dir and not out and level.enter(name, standing, _names(here)) is None:
                    out = ENVIRONMENT
                return _verdict(level.path + name, path.rstrip("/"), standing, out, self)
            inner = level.enter(name, standing, _names(here))
            if inner is None:
                return _verdict(level.path + name, path.rstrip("/"), standing, ENVIRONMENT, self)
            level = inner
        raise AssertionError("a path has a last part")


def _verdict(decided: str, path: str, standing: Standing, out: Rule | None, rules: Rules) -> Verdict:
    if out:
        of = "" if decided == path else f", which keeps {decided}/ out"
        return Verdict(False, f"left out by {out}{of}")
    if standing.kept:
        return Verdict(True, f"brought back by {standing.kept}")
    if standing.docker:
        return Verdict(True, f"brought back by {standing.docker}")
    if path in rules.tracked:
        return Verdict(True, "takes part: git tracks it")
    return Verdict(True, "takes part: no rule leaves it out")


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _folders(path: str) -> Iterator[str]:
    at = path.rfind("/")
    while at > 0:
        yield path[:at]
        at = path.rfind("/", 0, at)


def _brought_back(patterns: Patterns) -> tuple[tuple[str, ...], ...]:
    """The parts of those negated patterns that name a folder to look into."""
    found = []
    for rule in patterns.rules:
        body = rule.text[1:].rstrip("/")
        if rule.negated and "/" in body:
            found.append(tuple(body.lstrip("/").split("/")))
    return tuple(found)


def _read(path: str) -> bytes:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return b""
    with os.fdopen(fd, "rb") as file:
        try:
            return file.read()
        except OSError:
            return b""
