"""What every place where a program can run offers to the verbs; what kinds there are, `targets/registry.py` knows. No I/O."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from dkdbg.core.address import Address
    from dkdbg.core.jobs import Queue
    from dkdbg.core.plan import DebugService
    from dkdbg.core.pythons import PythonThere
    from dkdbg.core.sessions import SeenSession
    from dkdbg.errors import DkdbgError


class Reach(Protocol):
    """What was found at a place: one container, one node. It stays the same one, also when it is gone.

    Attributes:
        label: for people, such as `compose://app (shop-app-1)`.
    """

    @property
    def label(self) -> str:
        """See the class."""

    def wrap(self, argv: Sequence[str], *, tty: bool = False) -> tuple[str, ...]:
        """The local command line that runs `argv` there, word by word, in the place's own folder and environment.

        Standard input, output and error are ours, byte for byte; its exit code is that of `argv`, and 126 or 127 when
        `argv` cannot be executed or is not there.

        Args:
            tty: our standard input is a terminal, and `argv` gets one too.
        """


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """Where the agent of a target is reached from this machine.

    Attributes:
        address: host and port; None when there is none now.
        why: what is waited for as long as nothing answers there, in words.
    """

    address: tuple[str, int] | None
    why: str


@dataclass(frozen=True, kw_only=True)
class Workspace:
    """Where the code lies on a place.

    Attributes:
        local: folder relative to the repository's root, `.` for the root itself.
        remote: absolute path on the place.
        why: where that was seen.
    """

    local: str
    remote: str
    why: str


class Changes(Protocol):
    """A source of news about places. Two places with equal ones (`==`, `hash`) are told by one."""

    def listen(self, changed: Callable[[], None]) -> None:
        """Call `changed` whenever something may have started or ended; return when the other side ends, or after `close`.

        Raises:
            DkdbgError: it cannot be listened to at all.
        """

    def close(self) -> None:
        """Let `listen` return; from any thread."""


class Target(Protocol):
    """A place, as an address names it: what runs there may be replaced at any time, or not be there yet.

    Made without I/O. Only `door` is called from several threads.

    Attributes:
        address: as typed.
        label: a short name for people.
        pause: seconds between two searches for a door that is not there, as long as `changes` tell nothing.
    """

    @property
    def address(self) -> Address:
        """See the class."""

    @property
    def label(self) -> str:
        """See the class."""

    @property
    def pause(self) -> float:
        """See the class."""

    def find(self) -> Reach:
        """Look for what the address names now; `wrap` and `agent` are about that from then on.

        Raises:
            DkdbgError: there is nothing, or nothing that a command can be run in.
        """

    def wrap(self, argv: Sequence[str], *, tty: bool = False) -> tuple[str, ...]:
        """As `Reach.wrap`, in what was found last, which is looked for when nothing was.

        Raises:
            DkdbgError: as `find`.
        """

    def agent(self) -> tuple[str, ...] | None:
        """The command line that runs the agent there, without its verb; None where it has to be brought first.

        Raises:
            DkdbgError: as `find`.
        """

    def workspace(self) -> Workspace:
        """Where the code lies there.

        Raises:
            DkdbgError: as `find`; or nothing says it.
        """

    def endpoint(self) -> Endpoint:
        """Look where the door is now. Never raises."""

    def changes(self) -> Changes | None:
        """What tells that `door` may be another; None when it has to be asked again and again."""

    def sessions(self) -> list[SeenSession]:
        """The sessions there, those that have ended too.

        Raises:
            DkdbgError: the place cannot be asked.
        """

    def close(self) -> None:
        """End what was opened for it, such as a tunnel."""


# -- what some places can do besides ---------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Start:
    """How a debug service is to be started.

    Attributes:
        service: as `init` planned it.
        token: gives the token of its debug port, empty for none; asked once the place is known to be there.
        port: on this machine, if it is free there.
        wait: seconds until an attach has to work.
    """

    service: DebugService
    token: Callable[[], str]
    port: int
    wait: int


@dataclass(frozen=True, kw_only=True)
class Started:
    """A debug service that an editor can attach to.

    Attributes:
        port: on 127.0.0.1 of this machine; None on an engine of another one, to which `dkdbg attach` leads.
        gpu: the way in which it got a GPU.
        token: whether its port asks for one.
        name: of the container, pod or job; None when that is not known.
        engine: the address of an engine of another machine; empty for one of this.
        ports: the program's own: (port inside, `host:port` here) of each that is published.
        idle: whether no program runs in it.
    """

    port: int | None
    gpu: str
    token: bool
    name: str | None
    engine: str = ""
    ports: tuple[tuple[int, str], ...] = ()
    idle: bool = False


@runtime_checkable
class Startable(Protocol):
    """A place that can be started and ended from here: `dkdbg up` and `dkdbg down`."""

    def up(self, wanted: Start, *, report: Callable[[str], None], moved: Callable[[int], None]) -> Started:
        """Start the debug service and return when an attach will work.

        Args:
            report: takes one line of progress.
            moved: called with the port before the start when it is not `wanted.port`.

        Raises:
            DkdbgError: whatever hindered it, with cause and next step.
        """

    def replaced(self) -> Sequence[str]:
        """Return the files, paths there, that are mounted by themselves and of which the former one is there.

        An editor that saves by a rename, and git, put another file in the place of the one that is mounted.
        """

    def start_again(self) -> None:
        """Start what runs there again, with all mounts made anew.

        Raises:
            DkdbgError: it cannot be started.
        """

    def down(self, service: DebugService, *, everything: bool) -> str:
        """Stop and remove the debug service, or all that belongs to it; say what is down.

        Raises:
            DkdbgError: it cannot be stopped.
        """


@runtime_checkable
class Foreign(Protocol):
    """A place that may be there without an agent of dkdbg: `dkdbg attach` says what it has found instead."""

    def foreign(self) -> Sequence[str]:
        """Lines for a person: what is there, and what to type; nothing where an agent runs, or may come. Never raises."""


@runtime_checkable
class Enterable(Protocol):
    """A place whose Pythons run without an agent of dkdbg, and may be entered: `dkdbg attach`."""

    @property
    def is_meant(self) -> bool:
        """Whether who names the place means what runs in it now; else it may be what is about to be started."""

    def pythons(self) -> Sequence[PythonThere]:
        """Those there; none where an agent of dkdbg runs.

        Raises:
            DkdbgError: it cannot be asked.
        """

    def within(self, user: str) -> Reach:
        """The place as one of its users: `uid:gid`, empty for the usual one.

        Raises:
            DkdbgError: it is not there or not running.
        """

    def code_at(self, folder: str) -> tuple[str, str] | None:
        """Where a folder of the place lies on this machine: the folders here and there; None when nothing says it.

        Raises:
            DkdbgError: it is not there or not running.
        """


@runtime_checkable
class Repeatable(Protocol):
    """A place that can be made once more, with its program under the agent: what is left where nobody may enter it."""

    def recreation(self, words: Sequence[str]) -> tuple[str, tuple[str, ...]]:
        """The line for a shell that does so, empty for none, and the variables that the new one does not get.

        Args:
            words: command line of the Python that was meant.

        Raises:
            DkdbgError: it is not there or not running.
        """


@runtime_checkable
class Logged(Protocol):
    """A place that keeps what its program prints: `dkdbg logs`."""

    def logs(self, *, follow: bool, lines: int | None) -> tuple[str, ...]:
        """The local command line that prints it, the program's standard output and error.

        Args:
            follow: go on with what comes, until it ends.
            lines: that many from the end; None for all.

        Raises:
            DkdbgError: there is nothing that has printed, or it cannot be asked.
        """


@runtime_checkable
class OneOff(Protocol):
    """A place whose image, mounts and environment another command than its own can be run in: `dkdbg run`."""

    def once(self, wanted: Once, *, report: Callable[[str], None]) -> Prepared:
        """Have everything ready that such a run needs.

        Args:
            report: takes one line of progress.

        Raises:
            DkdbgError: it cannot be, with cause and next step.
        """


@dataclass(frozen=True, kw_only=True)
class Once:
    """How another command is to be run in a debug service.

    Attributes:
        command: word by word.
        port: on this machine, if it is free there.
        wait: seconds that the command waits for an editor before its first line.
        ranks: which are debugged; empty for what the service says.
        tty: our standard input and output are a terminal.
        service, token: as in Start.
    """

    service: DebugService
    token: Callable[[], str]
    command: tuple[str, ...]
    port: int
    wait: int
    ranks: str
    tty: bool


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A run that can begin.

    Attributes:
        argv, environment: of the local command line that runs it.
        port: of its debug port on 127.0.0.1.
        tell: passes a signal on to the command; False where it has not begun.
        cleaning: the local command line that takes away what is left when it has ended.
        is_met: whether F5 attaches to it there, in the place of what F5 would start.
    """

    argv: tuple[str, ...]
    environment: Mapping[str, str]
    port: int
    tell: Callable[[int], bool]
    cleaning: tuple[str, ...]
    is_met: bool = True


@dataclass(frozen=True, kw_only=True)
class CopyPlan:
    """A debug copy of something that runs, as it would be made.

    Attributes:
        original, name: of the two, for people.
        before, after: the original and the copy, as documents.
        decisions: (what, why) of each difference.
        notes: what a person should know before.
    """

    original: str
    name: str
    before: object
    after: object
    decisions: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]


@runtime_checkable
class Copyable(Protocol):
    """A place of which a copy can be started with the agent under its program; the original is never changed."""

    def plan_copy(
        self, command: Sequence[str], *, wait: int, overlay: Path | None = None, replace: bool = False
    ) -> CopyPlan:
        """What `make_copy` would make; nothing is changed.

        Args:
            command: another program than the original's; empty for that.
            wait: seconds that the program waits for an editor.
            overlay: the copy's manifest, which is taken as it is; None to copy what is there.
            replace: in the place of a copy that is there.

        Raises:
            DkdbgError: there is nothing to copy, or there is a copy already.
        """

    def make_copy(self, *, report: Callable[[str], None], limit: float) -> tuple[str, ...]:
        """Start what was planned and return when an attach will work: the addresses to attach to.

        Args:
            report: takes one line of progress.
            limit: seconds.

        Raises:
            DkdbgError: it cannot be made, and nothing is left of it; or it does not start.
        """

    def remove_copy(self) -> str:
        """Remove the copy, if there is one, and say what is down.

        Raises:
            DkdbgError: it cannot be removed.
        """


@runtime_checkable
class Apart(Protocol):
    """A place with a network of its own: an agent that listens on its loopback cannot be reached from here."""

    def listens_on(self) -> str:
        """The address that an agent there has to listen on, so that `door` is one from this machine.

        Raises:
            DkdbgError: as `find`.
        """


@runtime_checkable
class Contained(Protocol):
    """A place that is a container: what its Pythons load is its own, and goes with it."""

    is_container: bool


@runtime_checkable
class Relaying(Protocol):
    """A place whose door may be reached by a relay, which asks the agent there where its newest session listens."""

    def is_relayed(self) -> bool:
        """Whether it is: then an agent there may listen on any port, also beside another one.

        Raises:
            DkdbgError: as `find`.
        """


@runtime_checkable
class Far(Protocol):
    """A place on a machine that others use too, behind a connection that may be cut."""

    def lost(self) -> str:
        """Why a command there ended with 255 although it did not end by itself; empty when it did, or may have."""

    def again(self, *, silent: bool, limit: float) -> Reach:
        """The same host after a connection was cut; from any thread, and nobody is asked for a password.

        Args:
            silent: no word came through it any more: what is shared is to be made anew too.
            limit: seconds.

        Raises:
            DkdbgError: it cannot be reached now.
        """


@runtime_checkable
class Roomy(Protocol):
    """A place that has no folder for the code until one is made.

    Attributes:
        names_folder: whether its address names one.
    """

    @property
    def names_folder(self) -> bool:
        """See the class."""

    def at(self, folder: str) -> Target:
        """The same place in a folder that is there.

        Args:
            folder: absolute.

        Raises:
            DkdbgError: no address can name it.
        """

    def room(self, name: str) -> Workspace:
        """The folder of its address, else the one of ours that `with_folder` would make.

        Raises:
            DkdbgError: the place cannot be reached.
        """

    def with_folder(self, name: str) -> Target:
        """The same place in the folder of its address, else in one of ours; it is made there if need be.

        Args:
            name: of our folder: ASCII letters, digits, `.`, `_` and `-`.

        Raises:
            DkdbgError: the place cannot be reached, or the folder cannot be made.
        """


@runtime_checkable
class Several(Protocol):
    """A place that stands for several, such as a job on many nodes with a session for each of its ranks."""

    def each(self) -> Sequence[Target]:
        """The places that it stands for now, instead of it, which is closed; itself alone while there is one.

        A place that cannot be asked is itself: its door says why.

        Raises:
            DkdbgError: it can never be asked in this way.
        """


@runtime_checkable
class Spreading(Protocol):
    """A place whose programs have workers elsewhere, such as a cluster."""

    @property
    def drivers(self) -> Target:
        """The place where a program is started.

        Raises:
            DkdbgError: there is none.
        """

    def flags(self, workers: str) -> tuple[str, ...]:
        """What the agent's `launch` is told so that workers are debugged too.

        Args:
            workers: which, by shell patterns with commas.
        """

    def each(self) -> Sequence[Target]:
        """As `Several.each`."""


@runtime_checkable
class Outliving(Protocol):
    """A far place where a program can go on when the connection is cut through which it was started.

    Attributes:
        outlives_cuts: whether that is so.
    """

    outlives_cuts: bool

    def again(self, *, silent: bool, limit: float) -> Reach:
        """As `Far.again`."""


@runtime_checkable
class Leased(Protocol):
    """A place that is ours for a while, such as a node for the time of a job."""

    def over(self) -> Sequence[str]:
        """The words that end with 0, run there, when that while is over.

        Raises:
            DkdbgError: nobody knows now.
        """


@runtime_checkable
class Stepwise(Protocol):
    """A reach where all that a command has started may end with its connection."""

    def starting(self, relay: Sequence[str]) -> Sequence[str]:
        """The local command line that runs `agent relay WORD` there for the first time, whose keeper outlives the connection.

        Args:
            relay: that command line, word by word; see `agent/relay/stdio.py` for what can be added.
        """


@runtime_checkable
class Explaining(Protocol):
    """A reach whose program, such as ssh or kubectl, says in its own words why nothing runs there."""

    def explain(self, said: str) -> DkdbgError | None:
        """The error that those words mean, with cause and next step; None when they are not the program's.

        Args:
            said: the end of its standard error, of a command that has ended before it answered.
        """


# -- a kind of places ------------------------------------------------------------------------------------------------


def _none_named(_name: str, _root: Path) -> None:
    return None


def _no_sessions() -> list[SeenSession]:
    return []


@dataclass(frozen=True, kw_only=True)
class Kind:
    """What a module of `places/` tells the registry, as its `KIND`.

    Attributes:
        target: the target at an address of this kind, relative to the repository's root, resolved; no I/O.
            Raises DkdbgError when the address makes no sense for this kind.
        named: the place that a name without a scheme means now; None when there is none.
        sessions: all sessions of this kind that can be seen from this machine, for `dkdbg ps`, those that have ended
            too; each carries the address of its place. Raises DkdbgError when they cannot be listed.
        queue: where jobs are submitted at an address of this kind that names no job; None for what has no jobs.
            Raises DkdbgError when the address makes no sense.
        inner: the address of the place from which one of this kind is reached; None for what is reached by itself.
            Raises DkdbgError when the address makes no sense.
        around: the place at an address of this kind, made instead of by `target`, around
            those at `inner` that its second argument makes, and that it closes.
    """

    target: Callable[[Address, Path], Target]
    named: Callable[[str, Path], Target | None] = _none_named
    sessions: Callable[[], list[SeenSession]] = _no_sessions
    queue: Callable[[Address], Queue] | None = None
    inner: Callable[[Address], Address] | None = None
    around: Callable[[Address, Callable[[], Target]], Target] | None = None
