"""Asks a target without our agent which Pythons run there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dkdbg import process
from dkdbg.core import pythons

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dkdbg.core.pythons import PythonThere
    from dkdbg.core.target import Reach

#: Seconds for an answer.
_LIMIT = 60.0


def running_at(reach: Reach) -> Sequence[PythonThere]:
    """The Pythons there, oldest first; none where it has no shell. The target may have made them up.

    Raises:
        DkdbgError: it cannot be asked, or does not answer in time.
    """
    asked = process.read(reach.wrap(pythons.finding_words()), most=pythons.MOST, timeout=_LIMIT)
    return pythons.pythons_in(asked.stdout)
