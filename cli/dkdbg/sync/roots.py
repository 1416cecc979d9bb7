"""The local and the remote folder of a sync."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dkdbg.sync.remote.contact import PYTHONS
from dkdbg.sync.rules.rules import Rules

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, kw_only=True)
class Roots:
    """A pair of folders to sync.

    Attributes:
        local: existing local folder, absolute and resolved (`beneath.local_root`).
        remote: absolute path on the target.
        rules: rules of the local root.
        pythons: interpreters to try on the target.
    """

    local: str
    remote: str
    rules: Callable[[str], Rules] = Rules
    pythons: tuple[str, ...] = PYTHONS
