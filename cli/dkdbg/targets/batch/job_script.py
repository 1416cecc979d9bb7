"""Write the script of a job to submit, and find it again later. Pure."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

#: Name of a folder with a job script: `job-`, or `held-` for a job held for commands, and 8 hex digits.
_TAG = re.compile(r"\b(job|held)-[0-9a-f]{8}\b")
#: Their place on the login node: below the home, which the nodes of a cluster share.
_BASE = '"${XDG_CACHE_HOME:-$HOME/.cache}/dkdbg"'
#: Script that creates a folder which only its user can enter, and removes folders of unknown jobs after an hour.
_PREPARE = """\
umask 077 && mkdir -p {base} && cd {base} && folder=$(pwd -P) || exit 1
known=$({jobs}) && for each in "$folder"/job-* "$folder"/held-*; do
  case $known in *"${{each##*/}}"*) ;; *) [ -z "$(find "$each" -maxdepth 0 -mmin +60 2>/dev/null)" ] || rm -rf "$each" ;; esac
done
mkdir "$folder/{tag}" && printf '\\n%s %s\\n' {mark} "$folder/{tag}"
"""


@dataclass(frozen=True, kw_only=True)
class Script:
    """A script on the login node.

    Attributes:
        path: its path.
        tag: name of its folder.
        name: name of the job.
        options: see Submission.
    """

    path: str
    tag: str
    name: str
    options: tuple[str, ...]


def preparing(tag: str, mark: str, jobs: str) -> str:
    """Return the script for `sh` that creates the folder `tag` and prints its path after `mark`.

    Args:
        jobs: script that lists this user's jobs, each with its tag.
    """
    return _PREPARE.format(base=_BASE, tag=tag, mark=mark, jobs=jobs)


def prepared(mark: str, tag: str, stdout: str) -> str:
    """Return the folder from the answer; empty without one, or if no script can hold its path."""
    path = stdout.rpartition(f"\n{mark} ")[2].partition("\n")[0] if f"\n{mark} " in stdout else ""
    fits = path.startswith("/") and path.endswith(f"/{tag}") and shlex.quote(path) == path
    return path if fits else ""


def filling(folder: str, size: int) -> str:
    """Return the script for `sh` that reads the agent, `size` bytes, and the job script from its standard input."""
    return f"umask 077 && cd {folder} && head -c {size} >agent.pyz && cat >job.sh && echo filled"


def tags_of(listing: str) -> dict[str, str]:
    """Return the job numbers by tag from the answer to `jobs`; each line begins with the number."""
    found = {}
    for line in listing.splitlines():
        tag = _TAG.search(line)
        if tag and line.split():
            found[tag[0]] = line.split()[0]
    return found
