"""Rank barrier: an attach to a running job stops all its ranks at the same iteration. No I/O.

The ranks are armed one after another: each imports debugpy and gets its breakpoints. Without the barrier, the
first armed rank stops, the others pass that line before their breakpoints are set, and hang in the next
collective. So after an attach the stops at breakpoints are withheld from the editor until every rank is armed.
When all ranks are stopped, all stops are reported. When only some ranks are stopped and nothing changes, these
are continued once: a rank that waits for them in a collective then reaches the line together with them. With a
collective in each iteration no rank can be more than one iteration ahead of another, so all ranks stop in the
same iteration, regardless of timing. Letting ranks pass the line only ensures progress.

Some breakpoints are not for all ranks (`if rank == 0:`). So the barrier opens if no rank has stopped a moment after
all were armed: later stops are reported at once. Ranks are let pass only once; if others are still missing after that,
or after a timeout, the stops are reported with the names of the missing ranks. A conditional breakpoint selects ranks
explicitly, so its stop is not withheld.

The ranks of one job may have several agents. Then the client, which has a root session with each of them, decides for
all ranks: it gets an event for each change (`dkdbgGate`), and sends its decision as a request of that name. A request
to pass carries the number of the last change that the client knows, and is ignored if there was a newer change.
"""

from __future__ import annotations

from dkdbg.agent.dap import messages
from dkdbg.agent.dap.messages import as_dict, as_list
from dkdbg.agent.proxy.broker import rank_timeouts
from dkdbg.agent.state.job import Share

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Dict, Iterable, List, Set, Tuple

    from dkdbg.agent.dap.messages import Message
    from dkdbg.agent.proxy.broker.connection import Action, Connection

#: Seconds without a decision of the client before the agent decides: longer than the client's own timeouts.
LED_TIMEOUT_S = rank_timeouts.ARM_TIMEOUT_S + rank_timeouts.MAX_GATHER_TIMEOUT_S
PASSED = "continued once at a breakpoint that not all ranks had yet, so that all stop at the same iteration"


class RankBarrier:
    """The barrier of an agent's ranks: open until `close`, and again when all of them are stopped.

    Args:
        clock: seconds, monotonic.
        name_of: returns the name of a process.
        tell: returns the actions that send an event to the client of the root session.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        name_of: Callable[[int], str],
        tell: Callable[[bytes], List[Action]] = lambda _: [],
    ) -> None:
        self._clock = clock
        self._name_of = name_of
        self._tell = tell
        self._timeouts = rank_timeouts.RankTimeouts(clock)
        self._unarmed: Set[int] = set()
        #: Sessions of the armed ranks, by key. A former editor's session may end while the next editor's ranks are armed.
        self._armed: Dict[int, Connection] = {}
        #: Withheld stops: the connection, the event and the stopped thread, by the key of the process.
        self._held: Dict[int, Tuple[Connection, bytes, int]] = {}
        self._passing: Set[int] = set()
        self._over = False
        self._led = False
        self._heard = 0.0
        self._share = Share(0, ())
        self._number = 0
        self._last_report: Message = {}

    @property
    def is_closed(self) -> bool:
        """Return whether stops are withheld."""
        return bool(self._unarmed or self._armed)

    def close(self, keys: Iterable[int]) -> None:
        """Withhold the stops of these running ranks until all of them are armed and stopped."""
        wanted, self._led = set(keys), False
        if len(wanted) < 2:
            return
        self._expect(wanted)
        self._over = False
        self._timeouts = rank_timeouts.RankTimeouts(self._clock)

    def close_for_job(self, keys: Iterable[int], share: Share) -> List[Action]:
        """Withhold the stops until the client of the root session decides for the ranks of all agents of the job."""
        self._expect(keys)
        self._over, self._led, self._share, self._last_report = False, True, share, {}
        self._heard = self._clock()
        return self._report()

    def _expect(self, keys: Iterable[int]) -> None:
        self._armed = {key: one for key, one in self._armed.items() if not one.leaving}
        for key in set(keys) - set(self._armed):
            self.left(key)
            self._unarmed.add(key)

    def configured(self, connection: Connection) -> List[Action]:
        """Note that the rank of this session is armed: it has its breakpoints and is traced."""
        if connection.key not in self._unarmed:
            return []
        self._unarmed.discard(connection.key)
        self._armed[connection.key] = connection
        self._timeouts.armed()
        return self.settle()

    def released(self, connection: Connection) -> None:
        """Stop waiting for the rank of a session that has ended, unless the session is a former editor's."""
        if not connection.configured or self._armed.get(connection.key) is connection:
            self.left(connection.key)

    def left(self, key: int) -> None:
        """Stop waiting for a rank that has ended, cannot be debugged, or was detached."""
        self._unarmed.discard(key)
        self._passing.discard(key)
        self._armed.pop(key, None)
        self._held.pop(key, None)

    def holds_back(self, connection: Connection, name: object, content: Message, body: bytes) -> bool:
        """Tell whether to withhold an event of the adapter from the client; `body` is the message, kept for later."""
        key = connection.key
        if connection.leaving or (key not in self._unarmed and key not in self._armed):
            return False
        if name == "continued":
            return key in self._passing  # the client has not been sent the stop either
        if name in ("exited", "terminated"):
            self.left(key)
        thread = content.get("threadId")
        if name != "stopped" or not isinstance(thread, int):
            return False
        if content.get("reason") != "breakpoint" or _has_conditions(connection):
            self._over = True  # this stop is shown at once, and ends the barrier
            return False
        self._passing.discard(key)
        self._held[key] = connection, body, thread
        self._timeouts.moved()
        return True

    def settle(self) -> List[Action]:
        """Return the actions that are due now: report, let the stopped ranks pass, or report all stops."""
        if not self.is_closed:
            return self._report()
        if self._over:
            return self.open()
        if self._led:
            return self._report() or (self.open() if self._clock() - self._heard > LED_TIMEOUT_S else [])
        verdict = self._timeouts.verdict(len(self._unarmed), len(self._armed), len(self._held))
        if verdict == rank_timeouts.PASS:
            return self._let_pass()
        if verdict == rank_timeouts.GIVE_UP:
            return self._give_up()
        return self.open() if verdict == rank_timeouts.OPEN else []

    def led(self, wanted: Message) -> List[Action]:
        """Carry out a decision of the client of the root session, which knows the ranks of other agents."""
        if not self._led:
            return []
        self._heard = self._clock()
        if wanted.get("do") == rank_timeouts.PASS:
            return self._let_pass() if wanted.get("number") == self._number else []
        if wanted.get("do") != rank_timeouts.OPEN:
            return []
        why = wanted.get("why")
        return [*(self._say(why) if isinstance(why, str) and why else []), *self.open()]

    def open(self) -> List[Action]:
        """Report all withheld stops, and withhold no more."""
        found = [self._held[key] for key in sorted(self._held)]
        line = messages.say(PASSED)
        passed = [self._armed[key].to_client(line) for key in sorted(self._passing) if key in self._armed]
        self._over = self._over or self.is_closed
        self._unarmed, self._armed, self._passing, self._held = set(), {}, set(), {}
        stops = [action for connection, body, _ in found for action in connection.phase.stopped(body)]
        return [*passed, *stops, *self._report()]

    def _report(self) -> List[Action]:
        """Report the state to the client of the root session, if it has changed."""
        if not self._led:
            return []
        report: Message = {
            "unarmed": len(self._unarmed),
            "armed": len(self._armed),
            "held": len(self._held),
            "over": self._over,
            "world": self._share.world,
            "ranks": sorted(self._share.ranks),
            "missing": self._missing()[: rank_timeouts.MAX_NAMED + 1],
        }
        if report == self._last_report:
            return []
        self._last_report, self._heard = report, self._clock()
        self._number += 1  # several threads send, so an older event may arrive after a newer one
        return self._tell(messages.event(messages.BARRIER, number=self._number, **report))

    def _let_pass(self) -> List[Action]:
        found = [self._held[key] for key in sorted(self._held)]
        self._passing.update(self._held)
        self._held = {}
        return [*(action for one, _, thread in found for action in one.go_on(thread)), *self._report()]

    def _give_up(self) -> List[Action]:
        warning = rank_timeouts.without_others(self._missing(), len(self._unarmed), self._timeouts.waited)
        return [*self._say(warning), *self.open()]

    def _missing(self) -> List[str]:
        """Return the names of the ranks that the barrier waits for."""
        return sorted(self._name_of(key) for key in self._unarmed or set(self._armed) - set(self._held))

    def _say(self, text: str) -> List[Action]:
        line = messages.say(text)
        return [self._held[key][0].to_client(line) for key in sorted(self._held)]


def _has_conditions(connection: Connection) -> bool:
    """Tell whether all breakpoints of a client are conditional, and thus select ranks explicitly."""
    points = [
        as_dict(point)
        for command, arguments, _ in connection.settings.all()
        if command == "setBreakpoints"
        for point in as_list(arguments.get("breakpoints"))
    ]
    return bool(points) and all(point.get("condition") or point.get("hitCondition") for point in points)
