"""Which paths below the local root take part in sync, and which rule says so.

From weak to strong: what is out by default; git's ignore rules, where what git tracks is never ignored;
.dockerignore, with Docker's meaning; `[sync] ignore` of dkdbg.toml, the last word, where `!` brings back.
"""

from __future__ import annotations

import os
import re
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from dkdbg.sync import gitrepo
from dkdbg.sync.patterns import Patterns, Rule, dockerignore_lines, gitignore_lines

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from dkdbg.sync.patterns import Matcher

#: `[sync] max_size` when dkdbg.toml says nothing, in bytes.
MAX_SIZE = 100_000_000

#: Rule files inside the tree: a change of one changes what takes part.
RULE_FILES = frozenset({".gitignore", ".dockerignore"})

OUT = (
    ".git", ".hg", ".svn", ".dkdbg-sync/",
    ".venv/", "venv/", "conda-meta/",
    "__pycache__/", "*.pyc", "*.pyo", ".mypy_cache/", ".pytest_cache/", ".ruff_cache/", ".tox/", ".nox/", ".cache/",
    "node_modules/", ".ipynb_checkpoints/", ".DS_Store",
    "*.swp", "*.swx", "*~", ".#*", "#*#",
    "*.ckpt", "*.pt", "*.pth", "*.safetensors",
)  # fmt: skip
#: Folders of runs. Source can live under these names: Python files stay in, and a folder with tracked files is source.
RUNS = ("checkpoints/", "outputs/", "wandb/", "mlruns/", "lightning_logs/")
_SOURCE = (".py", ".pyi")
_RUNS = "defaults for run folders"
_ENVIRONMENT = Rule(
    "pyvenv.cfg, conda-meta",
    "defaults for virtual environments",
    0,
    0,
    False,
    True,
    False,
    re.compile("").match,
)


class Standing(NamedTuple):
    """What the rules say of one entry; what is below it starts from there.

    Attributes:
        git: the default or the rule of git that keeps it out.
        docker: the last rule of .dockerignore that matched it or a folder above; a negated one keeps it in.
        sync: the pattern of `[sync] ignore` that keeps it out.
        kept: the pattern of `[sync] ignore` that brought this very entry back.
    """

    git: Rule | None = None
    docker: Rule | None = None
    sync: Rule | None = None
    kept: Rule | None = None

    @property
    def out(self) -> Rule | None:
        """The rule that keeps it out, None when it takes part."""
        docker = self.docker if self.docker and not self.docker.negated else None
        return self.sync or self.git or docker


#: Takes part, no rule has matched.
IN = Standing()


class Verdict(NamedTuple):
    """Whether a path takes part, and the reason as a sentence."""

    takes_part: bool
    reason: str


class _Lists:
    """The pattern lists in force in one folder, with one cheap test for the many names that nothing matches."""

    def __init__(self, sync: Patterns, docker: Patterns, git: tuple[Patterns, ...]) -> None:
        self.sync, self.docker, self.git = sync, docker, git
        every = (sync, docker, *git)
        self.names: frozenset[str] = frozenset().union(*(one.names for one in every))
        self.suffixes: frozenset[str] = frozenset().union(*(one.suffixes for one in every))
        parts = [one.name_regex for one in every if one.name_regex]
        self.any_name: Matcher = re.compile("|".join(parts) or "(?!)", re.DOTALL).match
        self._every = every
        self._paths: dict[int, tuple[tuple[str, int, Matcher], ...]] = {}

    def paths_at(self, depth: int) -> tuple[tuple[str, int, Matcher], ...]:
        """(prefix, cut, matcher) of those lists whose patterns with a slash may match in a folder of this depth."""
        if depth not in self._paths:
            found = ((one, one.paths_at(depth)) for one in self._every)
            self._paths[depth] = tuple((one.prefix, one.cut, matches) for one, matches in found if matches)
        return self._paths[depth]


class Level:
    """The rules inside one folder.

    Attributes:
        path: the folder relative to the root, ending in `/`; empty for the root.
        standing: the folder's own.
    """

    __slots__ = ("_lists", "_paths", "_rules", "path", "standing")

    def __init__(self, rules: Rules, path: str, standing: Standing, lists: _Lists) -> None:
        self._rules, self.path, self.standing, self._lists = rules, path, standing, lists
        self._paths = lists.paths_at(path.count("/"))

    def judge(self, name: str, is_dir: bool) -> Standing:
        """The standing of the entry `name` of this folder; a symlink is not a folder."""
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
        if git is None or git.source == _RUNS:
            for patterns in self._lists.git:
                found = patterns.last(name, path, is_dir)
                if found:
                    git = None if found.negated else found
                    break
        if git is None or (name != ".git" and path in self._rules.tracked):
            return None
        if git.source == _RUNS and (
            path in self._rules.tracked_folders if is_dir else name.endswith(_SOURCE)
        ):
            return None
        return git

    def visits(self, name: str, standing: Standing) -> bool:
        """Whether the folder `name` of this folder has to be looked into: something below it may take part."""
        out = standing.out
        if out is None:
            return True
        path, rules = self.path + name, self._rules
        if any(_reaches(pattern, path) for pattern in rules.reaching):
            return True
        if standing.sync:
            return False
        if standing.git:
            return standing.git.source == _RUNS or (name != ".git" and path in rules.tracked_folders)
        return any(_reaches(pattern, path) for pattern in rules.docker_reaching)

    def enter(self, name: str, standing: Standing, names: Collection[str]) -> Level | None:
        """The rules inside the folder `name`, whose entries are called `names`; None when it stays out.

        Reads the .gitignore of the folder when it has one.
        """
        path = f"{self.path}{name}/"
        if ("pyvenv.cfg" in names or "conda-meta" in names) and not standing.kept:
            return None
        lists = self._lists
        if ".gitignore" in names:
            own = self._rules.gitignore(path)
            if own:
                lists = _Lists(lists.sync, lists.docker, (own, *lists.git))
        plain = standing.out is None and standing.docker is None
        return Level(self._rules, path, IN if plain else standing, lists)


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
        sync = Patterns("[sync] ignore of dkdbg.toml", enumerate(self.ignore, 1))
        docker = Patterns(".dockerignore", dockerignore_lines(_read(os.path.join(root, ".dockerignore"))))
        self.reaching = tuple(parts for parts in _brought_back(sync) if parts[0] != "**")
        self.docker_reaching = _brought_back(docker)
        repository = gitrepo.find(root)
        self._tracked = gitrepo.Tracked(root, (*OUT, *RUNS)) if repository else None
        self.files: tuple[str, ...] = repository.files if repository else ()
        git: list[Patterns] = [
            Patterns(_RUNS, ((0, text) for text in RUNS)),
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
        self._top = Level(self, "", IN, _Lists(sync, docker, tuple(reversed(git))))

    @property
    def tracked(self) -> frozenset[str]:
        """Paths that git tracks though a rule of git or a default matches them."""
        return self._tracked.paths if self._tracked else frozenset()

    @cached_property
    def tracked_folders(self) -> frozenset[str]:
        """The folders above `tracked`."""
        return frozenset(folder for path in self.tracked for folder in _folders(path))

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
                    out = _ENVIRONMENT
                return _verdict(level.path + name, path.rstrip("/"), standing, out, self)
            inner = level.enter(name, standing, _names(here))
            if inner is None:
                return _verdict(level.path + name, path.rstrip("/"), standing, _ENVIRONMENT, self)
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


def _reaches(pattern: tuple[str, ...], folder: str) -> bool:
    """Whether `pattern` may match something below `folder`."""
    parts = folder.split("/")
    for part, wanted in zip(parts, pattern, strict=False):
        if wanted == "**":
            return True
        if not Patterns("", [(0, "/" + wanted)]).last(part, part, True):
            return False
    return len(parts) < len(pattern)


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
