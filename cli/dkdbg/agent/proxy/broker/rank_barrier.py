"""The gate: an attach to a running job of several ranks stops all of them at the same iteration. No I/O.

The ranks are armed one after another: each imports debugpy and gets its breakpoints. The first armed one stops, the
others pass that line before their breakpoints are there, and hang in the next collective. So after an attach the stops
at breakpoints are held here, and no editor hears of them, until every rank is armed. Then, when all are held, all are
told. When only some are, and nothing moves, those pass the line once: a rank that waits for them in a collective comes
to the line with them the next time. With a collective in each iteration no rank can be further than the next one, so
that all are held in the same iteration, whatever the times are; letting pass is for progress only.

Some breakpoints are not for all ranks (`if rank == 0:`): after a limit those that are there stop, and it is said who
did not come. A condition of the breakpoint's own is such a word of the user's, and is not held up.

The ranks of one job may be those of several agents. Then the client of the root session, which has one with each of
them, decides for all: it is told of each change (`dkdbgGate`), and asks for what is to be done by the same name. What
it has not heard of yet does not count: a request to let pass names the change that it knows.
"""

from __future__ import annotations

from dkdbg.agent.dap import messages
from dkdbg.agent.dap.messages import as_dict, as_list
from dkdbg.agent.proxy.broker import rank_timeouts
from dkdbg.agent.state.job import Share

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Dict, Iterable, List, Set

    from dkdbg.agent.dap.messages import Message
    from dkdbg.agent.proxy.broker.connection import Action, Connection

#: Seconds for which one who decides for all may say nothing before we decide: longer than it ever waits itself.
LED_LIMIT = rank_timeouts.ARM_LIMIT + rank_timeouts.LONGEST_GATHER


class RankBarrier:
    """Open, until `gather`; open again when all have gathered.

    Args:
        clock: seconds, only forward.
        name_of: what a process is, by its pid.
        tell: returns what tells the client of the root session of an event.
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
        self._armed: Set[int] = set()
        self._held: Dict[int, Connection] = {}
        self._stops: Dict[int, bytes] = {}
        self._threads: Dict[int, int] = {}
        self._passing: Set[int] = set()
        self._over = False
        self._led = False
        self._heard = 0.0
        self._share = Share(0, ())
        self._number = 0
        self._told: Message = {}

    @property
    def is_closed(self) -> bool:
        """Whether stops are held back."""
        return bool(self._unarmed or self._armed)

    def close(self, keys: Iterable[int]) -> None:
        """Hold back the stops of these running ranks until all of them are armed and held."""
        wanted, self._led = set(keys), False
        if len(wanted) < 2:
            return
        self._unarmed |= wanted - self._armed
        self._over = False
        self._timeouts = rank_timeouts.RankTimeouts(self._clock)

    def close_for_job(self, keys: Iterable[int], share: Share) -> List[Action]:
        """Do so until the client of the root session says that all ranks of all agents are.

        Args:
            share: what these are of their job.
        """
        self._unarmed |= set(keys) - self._armed
        self._over, self._led, self._share, self._told = False, True, share, {}
        self._heard = self._clock()
        return self._report()

    def configured(self, key: int) -> List[Action]:
        """A rank is armed: it has its breakpoints and is traced."""
        if key not in self._unarmed:
            return []
        self._unarmed.discard(key)
        self._armed.add(key)
        self._timeouts.armed()
        return self.settle()

    def left(self, key: int) -> None:
        """A rank has ended, cannot be debugged, or its client has left it: nobody waits for it any more."""
        for ranks in (self._unarmed, self._armed, self._passing):
            ranks.discard(key)
        self._forget_stop(key)

    def holds_back(self, connection: Connection, name: object, content: Message, body: bytes) -> bool:
        """Tell whether the client is not to hear of an event of the adapter, now or ever.

        Args:
            name, content: the event's. body: the message.
        """
        key = connection.key
        if key not in self._unarmed and key not in self._armed:
            return False
        if name == "continued":
            return key in self._passing  # it was not told of the stop either
        if name in ("exited", "terminated"):
            self.left(key)
        thread = content.get("threadId")
        if name != "stopped" or not isinstance(thread, int):
            return False
        if content.get("reason") != "breakpoint" or _has_conditions(connection):
            self._over = True  # it does not come to the others, and nobody passes a line for it
            return False
        self._passing.discard(key)
        self._held[key], self._stops[key], self._threads[key] = connection, body, thread
        self._timeouts.moved()
        return True

    def settle(self) -> List[Action]:
        """Look at what has come, and at the time; return what to do."""
        if not self.is_closed:
            return self._report()
        if self._over:
            return self.open()
        if self._led:
            return self._report() or (self.open() if self._clock() - self._heard > LED_LIMIT else [])
        verdict = self._timeouts.verdict(len(self._unarmed), len(self._armed), len(self._held))
        if verdict == rank_timeouts.PASS:
            return self._let_pass()
        if verdict == rank_timeouts.GIVE_UP:
            return self._give_up()
        return self.open() if verdict == rank_timeouts.OPEN else []

    def led(self, wanted: Message) -> List[Action]:
        """Do what the client of the root session asks for, which knows of the ranks of other agents."""
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
        """Tell of each stop that is held back, and hold back no more."""
        found = [(self._held[key], self._stops[key]) for key in sorted(self._held)]
        self._over = self._over or self.is_closed
        self._unarmed, self._armed = set(), set()
        self._held, self._stops, self._threads, self._passing = {}, {}, {}, set()
        told = [action for connection, body in found for action in connection.phase.stopped(body)]
        return [*told, *self._report()]

    def _report(self) -> List[Action]:
        """Tell the client of the root session how far it is, if that is new."""
        if not self._led:
            return []
        said: Message = {
            "unarmed": len(self._unarmed),
            "armed": len(self._armed),
            "held": len(self._held),
            "over": self._over,
            "world": self._share.world,
            "ranks": sorted(self._share.ranks),
            "missing": self._missing()[: rank_timeouts.NAMED + 1],
        }
        if said == self._told:
            return []
        self._told, self._heard = said, self._clock()
        self._number += 1  # several threads send, and an older word may come after a newer one
        return self._tell(messages.event(messages.BARRIER, number=self._number, **said))

    def _let_pass(self) -> List[Action]:
        found = [(key, one, self._threads[key]) for key, one in sorted(self._held.items())]
        self._passing.update(self._held)
        for key in list(self._held):
            self._forget_stop(key)
        return [*(action for _, one, thread in found for action in one.go_on(thread)), *self._report()]

    def _give_up(self) -> List[Action]:
        said = rank_timeouts.without_others(self._missing(), len(self._unarmed), self._timeouts.limit)
        return [*self._say(said), *self.open()]

    def _missing(self) -> List[str]:
        """Return the names of those that are waited for."""
        return sorted(self._name_of(key) for key in self._unarmed or self._armed - set(self._held))

    def _say(self, text: str) -> List[Action]:
        line = messages.say(text)
        return [one.to_client(line) for _, one in sorted(self._held.items())]

    def _forget_stop(self, key: int) -> None:
        for each in (self._held, self._stops, self._threads):
            each.pop(key, None)


def _has_conditions(connection: Connection) -> bool:
    """Tell whether each breakpoint that a client has set has a condition: it chooses ranks and times by itself."""
    points = [
        as_dict(point)
        for command, arguments, _ in connection.settings.all()
        if command == "setBreakpoints"
        for point in as_list(arguments.get("breakpoints"))
    ]
    return bool(points) and all(point.get("condition") or point.get("hitCondition") for point in points)
