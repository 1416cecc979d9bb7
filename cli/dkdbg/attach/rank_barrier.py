"""Rank barrier for a job whose ranks have several agents: collects the agents' reports and decides for all. No I/O.

Each agent withholds the stops of its ranks (see dkdbg.agent.proxy.broker.rank_barrier) and reports each change.
If several agents have ranks of one job, this module decides when to show the stops, by the rules of a single agent.

Delays between the agents are harmless: no rank can pass the next collective alone, so once all ranks are stopped,
they are in the same iteration. PASS, which continues the stopped ranks once, only prevents a deadlock.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dkdbg.agent.proxy.broker import rank_timeouts
from dkdbg.agent.state.job import Share
from dkdbg.attach import from_targets
from dkdbg.attach.actions import named

if TYPE_CHECKING:
    from collections.abc import Callable

    from dkdbg.agent.dap.messages import Message

#: Seconds between two checks while stops are withheld.
INTERVAL_S = 0.05
#: Timeout in seconds from an agent's attach response to its first report; older agents send no reports.
FIRST_REPORT_TIMEOUT_S = 15.0
#: Maximum number of ranks that one agent may report.
MAX_RANKS = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Report:
    """Last report of an agent.

    Attributes:
        number: number of the report, which grows with each change. unarmed, armed, held: number of ranks that have no
            breakpoints yet, that have them, and that are stopped.
        over: whether the agent has ended its barrier by showing a stop. share: the agent's share of the job's ranks.
        missing: names of the missing ranks.
    """

    number: int = 0
    unarmed: int = 0
    armed: int = 0
    held: int = 0
    over: bool = False
    share: Share = field(default_factory=lambda: Share(0, ()))
    missing: tuple[str, ...] = ()

    @property
    def is_closed(self) -> bool:
        """Return whether the agent withholds stops."""
        return bool(self.unarmed or self.armed)


class JobBarrier:
    """Barrier over the agents behind one editor.

    Args:
        clock: returns monotonic seconds.

    Attributes:
        coming: agents whose ranks may still join: found but not attached yet, or not searched for yet.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._reports: dict[str, Report] = {}
        self._silent: dict[str, float] = {}
        self._asked: dict[str, float] = {}
        self._opened: set[str] = set()
        self._timeouts: dict[frozenset[str], tuple[rank_timeouts.RankTimeouts, int, int]] = {}
        self._apart: frozenset[str] = frozenset()
        self.coming: frozenset[str] = frozenset()

    @property
    def is_closed(self) -> bool:
        """Return whether any agent withholds stops: check again after INTERVAL_S."""
        return any(report.is_closed for report in self._reports.values())

    def expect(self, upstream: str) -> None:
        """Expect reports of an agent to which the editor is attaching."""
        self.forget(upstream)
        self._asked[upstream] = self._clock()
        self._silent[upstream] = float("inf")

    def attached(self, upstream: str) -> None:
        """Note that an agent has answered the attach."""
        if upstream in self._silent:
            self._silent[upstream] = self._clock() + FIRST_REPORT_TIMEOUT_S

    def forget(self, upstream: str) -> None:
        """Forget an agent that is gone."""
        for each in (self._reports, self._silent, self._asked):
            each.pop(upstream, None)
        self._opened.discard(upstream)

    def hear(self, upstream: str, report: Message) -> None:
        """Store an agent's report; malformed fields count as empty."""
        number, former = _count(report.get("number")), self._reports.get(upstream)
        if upstream not in self._asked or (former is not None and number < former.number):
            return
        self._silent.pop(upstream, None)
        self._opened.discard(upstream)
        numbers, names = report.get("ranks"), report.get("missing")
        ranks = [each for each in numbers if isinstance(each, int)] if isinstance(numbers, list) else []
        missing = names[: rank_timeouts.MAX_NAMED + 1] if isinstance(names, list) else []
        self._reports[upstream] = Report(
            number=number, unarmed=_count(report.get("unarmed")), armed=_count(report.get("armed")),
            held=_count(report.get("held")), over=report.get("over") is True,
            share=Share(_count(report.get("world")), ranks[:MAX_RANKS]), missing=tuple(map(from_targets.name, missing)),
        )  # fmt: skip

    def apart(self) -> str:
        """Return a warning, once, about agents that may have ranks of one job but do not report its number of ranks."""
        found = {
            upstream
            for upstream, report in self._reports.items()
            if report.is_closed and report.share.ranks and not report.share.world
        }
        if len(found) < 2 or found <= self._apart:
            return ""
        self._apart |= found
        first = sorted(found)[: rank_timeouts.MAX_NAMED]
        more = f" and {len(found) - len(first)} more" if len(found) > len(first) else ""
        return (
            f"the ranks of {', '.join(first)}{more} stop per target, not together: "
            "the number of ranks in their job is unknown (torchrun sets WORLD_SIZE)"
        )

    def decide(self) -> list[tuple[str, dict[str, Any]]]:
        """Return the requests that are due now, as (agent's name, arguments)."""
        now = self._clock()
        self._silent = {upstream: end for upstream, end in self._silent.items() if end > now}
        groups = self._groups()
        self._timeouts = {group: self._timeouts[group] for group in groups if group in self._timeouts}
        return [asked for group in groups for asked in self._decide(group)]

    def _decide(self, group: frozenset[str]) -> list[tuple[str, dict[str, Any]]]:
        reports = {upstream: self._reports[upstream] for upstream in sorted(group)}
        if not any(each.is_closed for each in reports.values()):
            self._timeouts.pop(group, None)
            return []
        if any(each.over for each in reports.values()):
            return self._open(reports)
        late = self._expected_in(reports)
        unarmed = sum(each.unarmed for each in reports.values()) + len(late)
        armed, held = (
            sum(each.armed for each in reports.values()),
            sum(each.held for each in reports.values()),
        )
        since = min(self._asked[upstream] for upstream in reports)
        one, before, were_held = self._timeouts.get(
            group, (rank_timeouts.RankTimeouts(self._clock, since), unarmed, 0)
        )
        if unarmed < before:
            one.armed()
        if held > were_held:
            one.moved()
        self._timeouts[group] = one, unarmed, held
        verdict = one.verdict(unarmed, armed, held)
        if verdict == rank_timeouts.OPEN:
            return self._open(reports)
        if verdict == rank_timeouts.GIVE_UP:
            return self._open(
                reports, rank_timeouts.without_others(self._missing(reports, late), unarmed, one.waited)
            )
        if verdict != rank_timeouts.PASS:
            return []
        self._timeouts[group] = one, unarmed, 0
        return [
            (upstream, {"do": rank_timeouts.PASS, "number": each.number})
            for upstream, each in reports.items()
            if each.held
        ]

    def _open(self, reports: dict[str, Report], why: str = "") -> list[tuple[str, dict[str, Any]]]:
        asked: dict[str, Any] = {"do": rank_timeouts.OPEN, **({"why": why} if why else {})}
        todo = [
            upstream for upstream, each in reports.items() if each.is_closed and upstream not in self._opened
        ]
        self._opened.update(todo)
        return [(upstream, asked) for upstream in todo]

    def _groups(self) -> list[frozenset[str]]:
        """Group the agents by job."""
        groups: list[list[str]] = []
        for upstream, report in sorted(self._reports.items()):
            mine = (
                group
                for group in groups
                if all(report.share.belongs_to(self._reports[other].share) for other in group)
            )
            group = next(mine, None)
            if group is None:
                groups.append([upstream])
            else:
                group.append(upstream)
        return [frozenset(group) for group in groups]

    def _expected_in(self, reports: dict[str, Report]) -> list[str]:
        """Return the agents without a report that may hold the missing ranks."""
        world = max(each.share.world for each in reports.values())
        reported = sum(len(each.share.ranks) for each in reports.values())
        return sorted({*self._silent, *self.coming}) if reported < world else []

    def _missing(self, reports: dict[str, Report], late: list[str]) -> list[str]:
        several = len(self._asked) > 1
        unarmed = late or any(each.unarmed for each in reports.values())
        return [
            named(upstream, name, self._asked) if several else name
            for upstream, each in reports.items()
            if each.unarmed or not unarmed
            for name in each.missing
        ] + late


def _count(value: object) -> int:
    return min(max(value, 0), MAX_RANKS) if isinstance(value, int) and not isinstance(value, bool) else 0
