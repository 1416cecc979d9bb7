"""The agent that runs at a target: where `dkdbg run` has brought it, and which one runs, by the target's processes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from dkdbg.agent.relay import wire

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Where `dkdbg run` brings one.
_BROUGHT = re.compile(r"/.*/agent-[0-9a-f]{32}\.pyz")
#: Where `init` mounts one, and where `dkdbg run` brings one (agent/state/kept.py).
_AGENT = re.compile(r"/[^\s\x00-\x1f\x7f]*/agent(-[0-9a-f]{32})?\.pyz")
#: Nothing but `sh` and `tr`; prints words of command lines that may be an agent's file, and no others: they may hold secrets.
_FIND = r"""
for each in /proc/[0-9]*/cmdline; do tr '\0' '\n' <"$each"; done 2>/dev/null | while read -r word; do
  case $word in /*/agent.pyz | /*/agent-*.pyz) echo "$word" ;; esac
done
echo looked
"""


def is_brought(path: str) -> bool:
    """Whether `dkdbg run` brings an agent to such a path."""
    return _BROUGHT.fullmatch(path) is not None


def relay_words(agent: Sequence[str], word: str, *more: str) -> tuple[str, ...]:
    """The command line that, run at a target, is a relay's far end, or says that the agent's file is gone.

    A keeper holds that file as long as it lives (`agent/state/kept.py`): without the file there is no keeper either.

    Args:
        agent: runs the agent there; its last word is the agent's file.
        word, more: see `agent/relay/stdio.py`.
    """
    script = f'[ -e "$0" ] && exec "$@"; echo "{word}{wire.GONE.decode()}"'
    return ("sh", "-c", script, agent[-1], *agent, "relay", word, *more)


def finding_words() -> tuple[str, ...]:
    """The command line that, run at a target, says which agents run there."""
    return ("sh", "-c", _FIND)


def agent_in(said: str) -> str | None:
    """The path of the agent's file there that such a command has found; None when it has found none.

    Args:
        said: its output, which the target may have made up: it names what is run there, and nowhere else.
    """
    return next((line for line in said.splitlines()[:100] if _AGENT.fullmatch(line)), None)


def has_looked(said: str) -> bool:
    """Whether such a command has run to its end: kubectl ends with 0 too when its stream breaks."""
    return said.endswith("looked\n")


def is_agent(path: str) -> bool:
    """Whether an agent may run from such a path, brought or mounted."""
    return _AGENT.fullmatch(path) is not None
