"""`--ranks SET` of the verbs that start or attach, and what dkdbg.toml says where nobody types it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dkdbg.agent.contract import CONTINUE_ALL
from dkdbg.agent.inprocess import ranks
from dkdbg.errors import EXIT_USAGE, DkdbgError
from dkdbg.targets import registry

if TYPE_CHECKING:
    from pathlib import Path


def continues_of(root: Path) -> str:
    """Return what dkdbg.toml says that continuing one rank does to the others, empty where it does not.

    Raises:
        DkdbgError: dkdbg.toml is wrong.
    """
    said = registry.configuration(root).continues
    return "" if said == CONTINUE_ALL else said


def ranks_of(root: Path, typed: str | None) -> str:
    """Return which ranks are debugged, empty where nobody says it.

    Args:
        root: the repository's root. typed: the option's value, None without it.

    Raises:
        DkdbgError: it is no set of ranks, or dkdbg.toml is wrong.
    """
    if typed is None:
        said = registry.configuration(root).ranks
        return "" if said == ranks.ALL else said
    try:
        return str(ranks.parse(typed))
    except ranks.RankSetError as error:
        raise DkdbgError(f"--ranks: {error}", hint=error.hint, exit_code=EXIT_USAGE) from error
