"""Decides which paths below the local root take part in sync, and by which rule.

The rules, from weak to strong, are the defaults, git's ignore rules (tracked paths are never ignored), .dockerignore
(with Docker's meaning), and `[sync] ignore` of dkdbg.toml, which overrides all others. `!` includes entries again.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from dkdbg.core import config
from dkdbg.core.config import SyncConfig
from dkdbg.errors import DkdbgError
from dkdbg.sync.beneath import read_file
from dkdbg.sync.receiver.problems import Refused
from dkdbg.sync.rules.level import Level, Lists
from dkdbg.sync.rules.patterns import ENVIRONMENT, IN, Standing
from dkdbg.sync.rules.sources import MAX_RULE_BYTES, Sources

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dkdbg.sync.rules.patterns import Rule


class Verdict(NamedTuple):
    """The decision whether a path takes part, and the reason as a sentence."""

    takes_part: bool
    reason: str


class Rules:
    """The current rules of one local root; make a new object when a rule file has changed.

    Args:
        root: the local root, absolute, without symlinks.
        ignore: `[sync] ignore` of dkdbg.toml.
        max_size: larger files stay out; bytes.

    Attributes:
        max_size: bytes.
        top: the rules inside the root folder.
    """

    def __init__(self, root: str, *, ignore: Sequence[str] = (), max_size: int = SyncConfig.max_size) -> None:
        self._root, self.max_size = root, max_size
        self._sources = sources = Sources(root, ignore)
        self.top = Level(sources, "", IN, Lists(sources.sync, sources.docker, sources.git))

    @property
    def files(self) -> tuple[str, ...]:
        """Return absolute paths of git's rule files that are not in the tree itself, such as info/exclude."""
        return self._sources.files

    def same_as(self, other: Rules) -> bool:
        """Return whether both have equal rules; .gitignore files in subfolders are not compared."""
        return self.max_size == other.max_size and self._sources.same_as(other._sources)

    def why(self, path: str) -> Verdict:
        """Return whether `path`, relative to the root with `/`, takes part, and the deciding rule.

        The size limit and kinds that cannot be copied are not rules: `dkdbg.sync.tree.scan` reports those.
        """
        level = self.top
        parts = path.rstrip("/").split("/")
        for depth, name in enumerate(parts):
            full_path = os.path.join(self._root, level.path, name)
            last = depth == len(parts) - 1
            is_dir = (
                not last or path.endswith("/") or (os.path.isdir(full_path) and not os.path.islink(full_path))
            )
            standing = level.judge(name, is_dir)
            out = standing.out
            if last or (out and not level.visits(name, standing)):
                if is_dir and not out and level.enter(name, standing, _names(full_path)) is None:
                    out = ENVIRONMENT
                return _verdict(level.path + name, path.rstrip("/"), standing, out, self._sources)
            inner = level.enter(name, standing, _names(full_path))
            if inner is None:
                return _verdict(level.path + name, path.rstrip("/"), standing, ENVIRONMENT, self._sources)
            level = inner
        raise AssertionError("a path has a last part")


def _verdict(decided: str, path: str, standing: Standing, out: Rule | None, sources: Sources) -> Verdict:
    if out:
        of = "" if decided == path else f", which keeps {decided}/ out"
        return Verdict(False, f"left out by {out}{of}")
    if standing.kept:
        return Verdict(True, f"included again by {standing.kept}")
    if standing.docker:
        return Verdict(True, f"included again by {standing.docker}")
    if path in sources.tracked:
        return Verdict(True, "synced: git tracks it")
    return Verdict(True, "synced: no rule leaves it out")


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


class ConfiguredRules:
    """Creates rules for `Scanner(rules=...)`.

    If dkdbg.toml becomes invalid later, the settings from before stay in force.

    Args:
        tell: called with a sentence when dkdbg.toml becomes invalid, and when it is valid again.
    """

    def __init__(self, tell: Callable[[str], None] = lambda _: None) -> None:
        self._tell = tell
        self._problem = ""
        self._last: config.SyncConfig | None = None

    def __call__(self, root: str) -> Rules:
        """Return the rules of `root`, with [sync] of its dkdbg.toml.

        Raises:
            DkdbgError: dkdbg.toml is invalid at the first call.
        """
        try:
            self._last = _read(os.path.join(root, config.FILE_NAME))
        except DkdbgError as error:
            if self._last is None:
                raise
            self._tell_problem(f"{error.message}; the previous [sync] settings stay in force")
        else:
            self._tell_problem("")
        return Rules(root, ignore=self._last.ignore, max_size=self._last.max_size)

    def _tell_problem(self, problem: str) -> None:
        if problem != self._problem:
            self._problem = problem
            self._tell(problem or f"{config.FILE_NAME} is valid again")


def _read(path: str) -> config.SyncConfig:
    try:
        return config.parse(config.decode(read_file(path, MAX_RULE_BYTES, follow=True))).sync
    except FileNotFoundError:
        return config.SyncConfig()
    except Refused as error:
        raise DkdbgError(f"cannot read {path}: {error.reason}", hint=error.hint) from error
    except OSError as error:
        raise DkdbgError(f"cannot read {path}: {error.strerror}") from error
