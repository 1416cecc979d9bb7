"""Run git so that a repository's configuration cannot run a program. No other module runs git.

The author of a repository also controls its configuration: `.git` in an unpacked archive, or a bare repository in a
subfolder of a clone, which git uses when started there. Therefore

- no command reads contents (`status`, `diff`, `add`): that would run the filters of `.gitattributes`, and no option
  turns filters off;
- options turn off hooks, the file system monitor, pagers, signatures, submodules and fetching. They override every
  configuration file, and an older git ignores options that it does not know;
- git is never started in or below a bare repository, because `safe.bareRepository` needs git 2.38.

The user's own configuration (safe.directory, core.excludesFile) applies.
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

#: Timeout in seconds: git may block for ever, for example on a .gitignore that is a FIFO.
_TIMEOUT_S = 30.0
#: An empty core.fsmonitor turns the monitor off in every version; `false` is the name of a program before git 2.36.
_OPTIONS = (
    "core.fsmonitor=", f"core.hooksPath={os.devnull}", "safe.bareRepository=explicit", "core.pager=cat",
    "diff.external=", "submodule.recurse=false", "log.showSignature=false", "protocol.allow=never",
    "core.sshCommand=false", "core.gitProxy=", "core.askPass=", "credential.helper=", "core.editor=false",
)  # fmt: skip
#: GIT_ variables to keep: they describe git's installation and the user's settings. The others describe a repository.
_KEPT_VARIABLES = (
    "GIT_CONFIG_", "GIT_EXEC_PATH", "GIT_CEILING_DIRECTORIES", "GIT_DISCOVERY_ACROSS_FILESYSTEM",
)  # fmt: skip
_SET_VARIABLES = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_PAGER": "cat",
    "GIT_ALLOW_PROTOCOL": "none",  # overrides protocol.ext.allow of a repository, which lets a fetch run a program
    "GIT_NO_LAZY_FETCH": "1",
}
#: Names of git's own folder, as `folded` returns them; the second is its short (8.3) name on Windows.
FOLDERS = frozenset({".git", "git~1"})


def folded(name: str) -> str:
    """Return a name as HFS+ or NTFS compare it: lower case, without invisible characters, `:STREAM` and final dots."""
    shown = name if name.isascii() else "".join(each for each in name if unicodedata.category(each) != "Cf")
    return shown.casefold().partition(":")[0].rstrip(" .")


def ask(folder: Path, verb: Literal["ls-files", "check-attr", "config"], *arguments: str) -> str | None:
    """Return git's output in `folder`, with file names decoded by `os.fsdecode`; None if git fails.

    Args:
        folder: absolute, on this machine.
        verb: a command that only reads the index, attribute files or settings.
    """
    if in_bare_repository(folder):
        return None
    options: list[str] = []
    for option in _OPTIONS:
        options += ["-c", option]
    argv = ["git", "--no-pager", "--no-optional-locks", *options, verb, *arguments]
    try:
        done = process.run(argv, cwd=folder, env=environment(os.environ), timeout=_TIMEOUT_S, names=True)
    except (DkdbgError, OSError):
        return None
    return done.stdout if done.code == 0 else None


def environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return `environ` for git: without the variables by which a hook or an outer git chooses a repository."""
    kept = {
        name: value
        for name, value in environ.items()
        if not name.startswith("GIT_") or name.startswith(_KEPT_VARIABLES)
    }
    return {**kept, **_SET_VARIABLES}


def in_bare_repository(folder: Path) -> bool:
    """Return whether git, started in `folder`, would find a bare repository before a checkout (folder with `.git`)."""
    for each in (folder, *folder.parents):
        if os.path.lexists(each / "HEAD") and any(
            os.path.lexists(each / name) for name in ("objects", "commondir")
        ):
            return True
        if os.path.lexists(each / ".git"):
            return False
    return False


def tracks(folder: Path, path: str) -> bool | None:
    """Return whether git tracks `path` (relative to `folder`, case ignored); None if git does not answer."""
    output = ask(folder, "ls-files", "-z", "--cached", "--", f":(icase,literal){path}")
    return None if output is None else bool(output)


def ignored(folder: Path, names: Sequence[str]) -> tuple[str, ...]:
    """Return those of `names` that exist, are untracked and are ignored by git."""
    if not names:
        return ()
    output = ask(folder, "ls-files", "--others", "--ignored", "--exclude-standard", "-z", "--", *names)
    return tuple(name for name in (output or "").split("\0") if name)


def attributes(folder: Path, path: str, *names: str) -> dict[str, str]:
    """Return the git attributes of `path`: `set`, `unset`, `unspecified` or a value; empty if git does not answer."""
    output = ask(folder, "check-attr", "-z", *names, "--", path)
    parts = (output or "").split("\0")
    return dict(zip(parts[1::3], parts[2::3], strict=False))
