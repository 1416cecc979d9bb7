"""A job that is to be submitted, and how its script is found again. Pure."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

#: What our folders of job scripts are called: `job-`, or `held-` for one that is held for commands, and 8 hex digits.
_TAG = re.compile(r"\b(job|held)-[0-9a-f]{8}\b")
#: Where they lie on the login node: below the home, which the nodes of a cluster share.
_BASE = '"${XDG_CACHE_HOME:-$HOME/.cache}/dkdbg"'
#: A folder is made that only its user enters. Those of jobs that are not known any more go, after an hour.
_PREPARE = """\
umask 077 && mkdir -p {base} && cd {base} && folder=$(pwd -P) || exit 1
known=$({jobs}) && for each in "$folder"/job-* "$folder"/held-*; do
  case $known in *"${{each##*/}}"*) ;; *) [ -z "$(find "$each" -maxdepth 0 -mmin +60 2>/dev/null)" ] || rm -rf "$each" ;; esac
done
mkdir "$folder/{tag}" && printf '\\n%s %s\\n' {mark} "$folder/{tag}"
"""


@dataclass(frozen=True, kw_only=True)
class Script:
    """A script that lies on the login node.

    Attributes:
        path: of it.
        tag: the name of its folder.
        name: of the job.
        options: see Submission.
    """

    path: str
    tag: str
    name: str
    options: tuple[str, ...]


def preparing(tag: str, mark: str, jobs: str) -> str:
    """The text for `sh` that makes the folder `tag` and prints its path after `mark`.

    Args:
        jobs: the text that lists this user's jobs, each with its tag.
    """
    return _PREPARE.format(base=_BASE, tag=tag, mark=mark, jobs=jobs)


def prepared(mark: str, tag: str, said: str) -> str:
    """The folder; empty when there is none, or one whose path no script can hold."""
    path = said.rpartition(f"\n{mark} ")[2].partition("\n")[0] if f"\n{mark} " in said else ""
    fits = path.startswith("/") and path.endswith(f"/{tag}") and shlex.quote(path) == path
    return path if fits else ""


def filling(folder: str, size: int) -> str:
    """The text for `sh` that takes the agent, `size` bytes, and the script from its standard input."""
    return f"umask 077 && cd {folder} && head -c {size} >agent.pyz && cat >job.sh && echo filled"


def tags_of(listing: str) -> dict[str, str]:
    """By tag, the numbers of the jobs in the answer to `jobs`: lines that begin with the number."""
    found = {}
    for line in listing.splitlines():
        tag = _TAG.search(line)
        if tag and line.split():
            found[tag[0]] = line.split()[0]
    return found
