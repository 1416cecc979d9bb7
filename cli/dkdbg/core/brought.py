"""Find the agent at a target: a file that `dkdbg run` has sent, or the agent's file that one of its processes runs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from dkdbg.agent.relay import wire

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Path of an agent that `dkdbg run` sent.
_BROUGHT = re.compile(r"/.*/agent-[0-9a-f]{32}\.pyz")
#: Path of an agent that `init` mounted or `dkdbg run` brought (agent/state/kept.py).
_AGENT = re.compile(r"/[^\s\x00-\x1f\x7f]*/agent(-[0-9a-f]{32})?\.pyz")
#: Script that prints possible paths of agents in the command lines of a target's processes. Needs only `sh` and
#: `tr`. Prints no other words of the command lines, because they may be secrets.
_FIND = r"""
for each in /proc/[0-9]*; do tr '\0' '\n' <"$each/cmdline" | while read -r word; do
  case $word in
    /*/agent.pyz | /*/agent-*.pyz) echo "$word" ;;
    agent.pyz | */agent.pyz) cd -P "$each/cwd" && echo "$(pwd)/$word" ;;
  esac
done; done 2>/dev/null
echo looked
"""
#: Script that prints this user's agents on a machine with other users: files that the user's processes run, and files
#: that `dkdbg run` sent. The paths are run later, so only our own user's files are accepted. The command lines of other
#: users' processes are not even read, because such a read can block. A folder that others can write is skipped: a link
#: in it can be changed later. Another user may have created the runtime folder in /tmp first, or put a link in its
#: place, so the folder must have the type, mode and owner that `open_runtime_dir` gives it. One `ls` reads all three at
#: once, because the folder could be exchanged between two commands.
LISTING = r"""
set --
for each in /proc/[0-9]*; do [ -O "$each/cmdline" ] && set -- "$@" "$each/cmdline"; done
for each in $(grep -ls 'agent[-0-9a-f]*\.pyz' "$@" 2>/dev/null </dev/null); do
  tr '\0' '\n' <"$each" | while read -r word; do
    case $word in
      agent.pyz | */agent.pyz | */agent-*.pyz) ;;
      *) continue ;;
    esac
    cd -P "${each%/*}/cwd" && cd -P "$(dirname -- "$word")" || continue
    word=$(pwd -P)/${word##*/}
    case $(LC_ALL=C ls -ldn .) in d???????w[!tT]*) continue ;; esac # others may write
    [ ! -L "$word" ] && [ -O "$word" ] && [ -O . ] && printf '%s\n' "$word"
  done
done 2>/dev/null
dir=${DKDBG_RUNTIME_DIR:-/tmp/dkdbg-$(id -u)}
set -- $(LC_ALL=C ls -ldn -- "$dir" 2>/dev/null) # mode, links, uid
case ${1:-}:${3:-} in d???--?--?*:"$(id -u)")
  for each in "$dir"/agent-*.pyz; do [ ! -L "$each" ] && [ -O "$each" ] && printf '%s\n' "$each"; done
esac
exit 0
"""


def is_brought(path: str) -> bool:
    """Return whether a path has the form of an agent's file that `dkdbg run` has sent."""
    return _BROUGHT.fullmatch(path) is not None


def relay_words(agent: Sequence[str], word: str, *more: str) -> tuple[str, ...]:
    """Return the remote command line that runs the remote end of a relay, or reports that the agent's file is gone.

    The keeper, the remote process that outlives a connection, locks the file while it runs (`agent/state/kept.py`). So
    a missing file means that no keeper runs.

    Args:
        agent: remote command line of the agent; its last word is the agent's file.
        word, more: see `agent/relay/stdio.py`.
    """
    script = f'[ -e "$0" ] && exec "$@"; echo "{word}{wire.GONE.decode()}"'
    return ("sh", "-c", script, agent[-1], *agent, "relay", word, *more)


def finding_words() -> tuple[str, ...]:
    """Return the remote command line that lists the agents running at a target."""
    return ("sh", "-c", _FIND)


def agent_in(stdout: str) -> str | None:
    """Return the path of the agent's file from the output of `finding_words`; None if it lists no agent.

    Args:
        stdout: output of an untrusted target, so run the path only at that target.
    """
    return next((line for line in stdout.splitlines()[:100] if _AGENT.fullmatch(line)), None)


def has_looked(stdout: str) -> bool:
    """Return whether the output of `finding_words` is complete: kubectl exits with 0 even when its stream breaks."""
    return stdout.endswith("looked\n")


def is_agent(path: str) -> bool:
    """Return whether a path has the form of an agent's file, sent or mounted."""
    return is_brought(path) or _AGENT.fullmatch(path) is not None
