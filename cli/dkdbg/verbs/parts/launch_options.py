"""Options about ranks and threads, for verbs that start or attach: `--ranks SET`, and keys of dkdbg.toml."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dkdbg.agent.contract import CONTINUE_ALL
from dkdbg.agent.inprocess import ranks
from dkdbg.core.ranks import rank_set
from dkdbg.targets import registry

if TYPE_CHECKING:
    from pathlib import Path


def continues_of(root: Path) -> str:
    """Return what continuing one rank does to the others (`all`, `one`) by dkdbg.toml; empty if it does not say.

    Raises:
        DkdbgError: dkdbg.toml is invalid.
    """
    chosen = registry.configuration(root).continues
    return "" if chosen == CONTINUE_ALL else chosen


def launch_flags(root: Path) -> tuple[str, ...]:
    """Return the agent's flags that dkdbg.toml sets for a program: --continue and --beats.

    Raises:
        DkdbgError: dkdbg.toml is invalid.
    """
    chosen = registry.configuration(root)
    continues = ("--continue", chosen.continues) if chosen.continues != CONTINUE_ALL else ()
    return (*continues, *(("--beats", chosen.beats) if chosen.beats else ()))


def ranks_of(root: Path, typed: str | None) -> str:
    """Return the ranks to debug; empty if neither the option nor dkdbg.toml chooses any.

    Args:
        root: the repository's root.
        typed: value of the option; None if it was not typed.

    Raises:
        DkdbgError: `typed` is not a set of ranks, or dkdbg.toml is invalid.
    """
    if typed is None:
        chosen = registry.configuration(root).ranks
        return "" if chosen == ranks.ALL else chosen
    return str(rank_set(typed))
