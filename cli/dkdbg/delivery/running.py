"""List the Pythons that run on a target without an agent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dkdbg import process
from dkdbg.core import pythons

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dkdbg.core.pythons import PythonThere
    from dkdbg.core.target import Reach

#: Timeout of the answer in seconds.
_TIMEOUT_S = 60.0


def running_at(reach: Reach) -> Sequence[PythonThere]:
    """Return the Pythons there, oldest first; empty if the target has no shell. The list is untrusted.

    Raises:
        DkdbgError: the target cannot be queried, or does not answer in time.
    """
    asked = process.read(reach.wrap(pythons.finding_words()), most=pythons.MOST, timeout=_TIMEOUT_S)
    return pythons.pythons_in(asked.stdout)
