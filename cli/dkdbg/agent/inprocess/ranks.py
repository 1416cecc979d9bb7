"""Sets of ranks in text form: `0,3`, `all`, `failing`, `0-7:2`. Pure; the host, the agent and the hook read them.

With `failing`, ranks that crash are debugged from then on.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterable, List, Optional, Tuple

ALL = "all"
FAILING = "failing"
HINT = "write ranks separated by commas, such as 0,3 or 0-7 or 0-7:2 (every second one), or all, or failing"
#: FIRST, FIRST-LAST or FIRST-LAST:STEP. A number of more than seven digits is a mistake.
_FORM = re.compile(r"([0-9]{1,7})(?:-([0-9]{1,7})(?::([0-9]{1,7}))?)?")
#: Maximum characters of a set to quote in an error.
_MAX_QUOTED_CHARS = 60


def spans(numbers: Iterable[int]) -> List[Tuple[int, int]]:
    """Group ascending numbers into runs of consecutive ones; return the first and last number of each."""
    found: List[Tuple[int, int]] = []
    for number in numbers:
        if found and number == found[-1][1] + 1:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return found


class RankSetError(ValueError):
    """The text is not a set of ranks; `hint` has the valid forms."""

    def __init__(self, message: str, hint: str = HINT) -> None:
        super().__init__(message)
        self.hint = hint


class RankSet:
    """A set of ranks. Two compare equal only if they are written with the same spans.

    Args:
        spans: (first, last, step) each, the last rank included.
        everyone: whether all processes are selected, even those without a rank.
        failing: whether ranks that fail are selected from then on.
    """

    def __init__(
        self, spans: Iterable[Tuple[int, int, int]] = (), *, everyone: bool = False, failing: bool = False
    ) -> None:
        self.spans = () if everyone else tuple(sorted(set(spans)))
        self.everyone = everyone
        self.failing = failing and not everyone

    def contains(self, rank: Optional[int]) -> bool:
        """Tell whether a rank is in the set; None (a process without a rank) is only in `all`.

        This does not consider `failing`.
        """
        if self.everyone:
            return True
        if rank is None:
            return False
        return any(first <= rank <= last and (rank - first) % step == 0 for first, last, step in self.spans)

    def missing(self, present: Iterable[int], limit: int = 8) -> List[int]:
        """Return up to `limit` ranks of the set that are not among these; `all` and `failing` do not count."""
        existing = set(present)
        found: List[int] = []
        for first, last, step in self.spans:
            for rank in range(first, last + 1, step):
                if len(found) >= limit:
                    return sorted(found)
                if rank not in existing and rank not in found:
                    found.append(rank)
        return sorted(found)

    def __str__(self) -> str:
        if self.everyone:
            return ALL
        parts = [_written(*span) for span in self.spans]
        return ",".join(parts + [FAILING] * self.failing)

    def __repr__(self) -> str:
        return "RankSet(%s)" % self

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RankSet) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))


EVERYONE = RankSet(everyone=True)


def parse(text: str) -> RankSet:
    """Parse a set of ranks. Raises RankSetError: the text is not one; the message names the wrong part."""
    spans: List[Tuple[int, int, int]] = []
    items = [word.strip().lower() for word in text.split(",")]
    if not any(items):
        raise RankSetError("no ranks are named")
    for word in items:
        if word in (ALL, FAILING):
            continue
        match = _FORM.fullmatch(word)
        if match is None:
            raise RankSetError(
                "not a set of ranks: %s" % _quoted(text)
                if len(items) == 1
                else "%s in %s is not a rank" % (_quoted(word), _quoted(text))
            )
        first = int(match.group(1))
        last = first if match.group(2) is None else int(match.group(2))
        step = 1 if match.group(3) is None else int(match.group(3))
        if last < first:
            raise RankSetError(
                "%s ends before it begins" % _quoted(word),
                "write the lower rank first: %d-%d" % (last, first),
            )
        if step < 1:
            raise RankSetError("%s has a step of 0" % _quoted(word))
        spans.append((first, last, step))
    return RankSet(spans, everyone=ALL in items, failing=FAILING in items)


def _written(first: int, last: int, step: int) -> str:
    if first == last:
        return str(first)
    return "%d-%d" % (first, last) + (":%d" % step if step > 1 else "")


def _quoted(text: str) -> str:
    return repr(text if len(text) <= _MAX_QUOTED_CHARS else text[: _MAX_QUOTED_CHARS - 3] + "...")
