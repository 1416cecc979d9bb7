"""The only module that runs git, and never so that a repository's own configuration runs a program.

Whoever made a repository wrote its configuration too: in an unpacked archive that of `.git`, in a clone that of a bare
repository in a subfolder, which git takes for the one to ask when it is started there. So

- nothing is asked that looks at contents (`status`, `diff`, `add`): the filters of `.gitattributes` would run, and no
  option turns those off;
- hooks, the file system monitor, pagers, signatures, submodules and fetching are off by options, which go before every
  file of configuration; what an older git does not know it ignores;
- a folder that is a bare repository, or lies in one, is not asked at all: `safe.bareRepository` came with git 2.38.

What the user's own configuration says (safe.directory, core.excludesFile) counts.
"""

from __future__ import annotations

import os
import unicodedata
from typing import TYPE_CHECKING, Literal

from dkdbg import process
from dkdbg.errors import DkdbgError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

#: Seconds: a repository can have git wait for ever, by a FIFO for a list of patterns.
_LIMIT = 30.0
#: An empty core.fsmonitor is off for every git; before 2.36 `false` would be the name of a program.
_OPTIONS = (
    "core.fsmonitor=", f"core.hooksPath={os.devnull}", "safe.bareRepository=explicit", "core.pager=cat",
    "diff.external=", "submodule.recurse=false", "log.showSignature=false", "protocol.allow=never",
    "core.sshCommand=false", "core.gitProxy=", "core.askPass=", "credential.helper=", "core.editor=false",
)  # fmt: skip
#: Of the environment, what says how git is installed or configured by its user; the rest is about one repository.
_KEPT = (
    "GIT_CONFIG_", "GIT_EXEC_PATH", "GIT_CEILING_DIRECTORIES", "GIT_DISCOVERY_ACROSS_FILESYSTEM",
)  # fmt: skip
_SET = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_PAGER": "cat",
    "GIT_ALLOW_PROTOCOL": "none",  # before protocol.ext.allow and the like of a repository, which would fetch
    "GIT_NO_LAZY_FETCH": "1",
}
#: Git's own folder, as `folded` has it; the second is its short name on Windows.
FOLDERS = frozenset({".git", "git~1"})


def folded(name: str) -> str:
    """Return a name as some file system reads it: without case, invisible characters, a stream's name, dots at its end."""
    shown = name if name.isascii() else "".join(each for each in name if unicodedata.category(each) != "Cf")
    return shown.casefold().partition(":")[0].rstrip(" .")


def ask(folder: Path, verb: Literal["ls-files", "check-attr"], *words: str) -> str | None:
    """Return what git says in `folder`, names as `os.fsdecode` has them; None when it refuses.

    Args:
        folder: absolute, local side.
        verb: one that reads the index, or files of attributes, alone.
        words: the verb's own.
    """
    if in_bare_repository(folder):
        return None
    options: list[str] = []
    for option in _OPTIONS:
        options += ["-c", option]
    argv = ["git", "--no-pager", "--no-optional-locks", *options, verb, *words]
    try:
        done = process.run(argv, cwd=folder, env=environment(os.environ), timeout=_LIMIT, names=True)
    except (DkdbgError, OSError):
        return None
    return done.stdout if done.code == 0 else None


def environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment that git gets: none of what a hook or an outer git says about its own repository."""
    kept = {
        name: value
        for name, value in environ.items()
        if not name.startswith("GIT_") or name.startswith(_KEPT)
    }
    return {**kept, **_SET}


def in_bare_repository(folder: Path) -> bool:
    """Whether git, started in `folder`, would meet a repository without a `.git` first."""
    for each in (folder, *folder.parents):
        if os.path.lexists(each / "HEAD") and any(
            os.path.lexists(each / name) for name in ("objects", "commondir")
        ):
            return True
        if os.path.lexists(each / ".git"):
            return False
    return False


def tracks(folder: Path, path: str) -> bool | None:
    """Return whether git tracks `path`, relative to `folder`, in whatever case; None when it does not say."""
    said = ask(folder, "ls-files", "-z", "--cached", "--", f":(icase,literal){path}")
    return None if said is None else bool(said)


def ignored(folder: Path, names: Sequence[str]) -> tuple[str, ...]:
    """Return which of these files, that are there and that git does not follow, its patterns leave out."""
    if not names:
        return ()
    said = ask(folder, "ls-files", "--others", "--ignored", "--exclude-standard", "-z", "--", *names)
    return tuple(name for name in (said or "").split("\0") if name)


def attributes(folder: Path, path: str, *names: str) -> dict[str, str]:
    """Return what git's attributes say of `path`: `set`, `unset`, `unspecified` or a value; empty when git does not say."""
    said = ask(folder, "check-attr", "-z", *names, "--", path)
    parts = (said or "").split("\0")
    return dict(zip(parts[1::3], parts[2::3], strict=False))
