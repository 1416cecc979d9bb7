"""The base class of all targets: what each offers to the verbs. No I/O.

`targets/registry.py` knows which kinds there are.
"""

# ruff: noqa: ARG002 - defaults ignore their arguments

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Protocol

from dkdbg import hints
from dkdbg.agent.contract import DEFAULT_PORT, LOOPBACK
from dkdbg.errors import EXIT_USAGE, DkdbgError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from dkdbg.core.address import Address
    from dkdbg.core.jobs import Queue
    from dkdbg.core.plan import DebugService
    from dkdbg.core.pythons import PythonThere
    from dkdbg.core.sessions import SeenSession
    from dkdbg.core.target_values import CopyPlan, Once, Prepared, Start, Started


class Capability(Enum):
    """A property that some targets have. A verb asks `Capability.LOGS in target.capabilities`, and nothing else.

    The value completes "... does not support".
    """

    #: A debug service that `dkdbg up` starts and `dkdbg down` ends.
    START = "being started and stopped from here"
    #: Another command than its own can be run with its image, mounts and environment: `dkdbg run`.
    ONE_OFF = "one-off commands"
    #: A debug copy of it can be started: `dkdbg up --on`. The original is never changed.
    COPY = "debug copies"
    #: It keeps the output of its program: `dkdbg logs`.
    LOGS = "logs"
    #: Its Pythons can be listed, with the user of each: `dkdbg attach --pid`.
    LIST_PROCESSES = "listing its processes"
    #: A container: the packages of its Pythons are its own, and go with it.
    CONTAINER = "containers"
    #: On a shared machine, behind a connection that may be cut; a program started there outlives the cut.
    REMOTE = "connections that may be cut"
    #: Its address may name no folder for the code. Then one is made there.
    NEEDS_WORKDIR = "making a working directory"
    #: Its programs have workers that the cluster starts elsewhere.
    CLUSTER = "workers on other nodes"
    #: A batch job: the target is this user's for a limited time.
    TIME_LIMITED = "time limits"
    #: An editor can attach to it, and no command can be run there.
    ATTACH_ONLY = "attaching only"


class Reach(ABC):
    """One container or node that `Target.find` has found. It stays the same one, also when it is gone.

    Attributes:
        label: for people, such as `compose://app (shop-app-1)`.
    """

    label: str

    @abstractmethod
    def wrap(self, argv: Sequence[str], *, tty: bool = False) -> tuple[str, ...]:
        """Return the local command line that runs `argv` there, in the target's own folder and environment.

        Standard input, output and error are ours, byte for byte; its exit code is that of `argv`, and 126 or 127 when
        `argv` cannot be executed or is not there.

        Args:
            argv: word by word.
            tty: our standard input is a terminal, and `argv` gets one too.
        """

    def explain(self, said: str) -> DkdbgError | None:
        """Return the error that a message of ssh, kubectl or the like means; None when the message is not theirs.

        Args:
            said: the end of the standard error of a command that has ended before it answered.
        """
        return None

    def starting(self, relay: Sequence[str]) -> Sequence[str]:
        """Return the local command line that runs `agent relay WORD` for the first time, whose keeper outlives the connection.

        Args:
            relay: that command line, word by word; see `agent/relay/stdio.py` for what can be added.
        """
        return self.wrap(relay)


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
    """Where the code lies on a target.

    Attributes:
        local: folder relative to the repository's root, `.` for the root itself.
        remote: absolute path on the target.
        why: where that was seen.
    """

    local: str
    remote: str
    why: str


class Changes(Protocol):
    """A source of news about targets. Two targets with equal ones (`==`, `hash`) are told by one."""

    def listen(self, changed: Callable[[], None]) -> None:
        """Call `changed` whenever something may have started or ended; return when the other side ends, or after `close`.

        Raises:
            DkdbgError: it cannot be listened to at all.
        """

    def close(self) -> None:
        """Let `listen` return; from any thread."""


class Target(ABC):
    """A target, as an address names it: what runs there may be replaced at any time, or not be there yet.

    Made without I/O. Only `endpoint` is called from several threads. Without an override, a method that needs a
    capability raises DkdbgError, or returns the answer that is right without it.

    Attributes:
        address: as typed.
        pause: seconds between two looks for an endpoint that is not there, as long as `changes` tell nothing.
        capabilities: see `Capability`.
        is_meant: whether its address means the program that runs now; else it may mean the one about to be started.
    """

    pause: float = 3.0
    capabilities: frozenset[Capability] = frozenset()
    is_meant = False

    def __init__(self, address: Address) -> None:
        self.address = address

    @property
    def label(self) -> str:
        """A short name for people."""
        return self.address.label

    @abstractmethod
    def endpoint(self) -> Endpoint:
        """Look where the agent is reached now. Never raises."""

    def changes(self) -> Changes | None:
        """Return what tells that `endpoint` may be another; None when it has to be asked again and again."""
        return None

    def close(self) -> None:  # noqa: B027 - most open nothing
        """End what was opened for it, such as a tunnel."""

    # -- commands there: all targets but ATTACH_ONLY -----------------------------------------------------------------

    def find(self) -> Reach:
        """Look for what the address names now; `wrap` and `agent` are about that from then on.

        Raises:
            DkdbgError: there is nothing, or nothing that a command can be run in.
        """
        raise self.refusal()

    def wrap(self, argv: Sequence[str], *, tty: bool = False) -> tuple[str, ...]:
        """As `Reach.wrap`, in what was found last, which is looked for when nothing was.

        Raises:
            DkdbgError: as `find`.
        """
        raise self.refusal()

    def agent(self) -> tuple[str, ...] | None:
        """Return the command line that runs the agent there, without its verb; None where it has to be brought first.

        Raises:
            DkdbgError: as `find`.
        """
        raise self.refusal()

    def workspace(self) -> Workspace:
        """Return where the code lies there.

        Raises:
            DkdbgError: as `find`; or nothing says it.
        """
        raise self.refusal()

    def sessions(self) -> list[SeenSession]:
        """Return the sessions there, those that have ended too.

        Raises:
            DkdbgError: the target cannot be asked.
        """
        raise self.refusal()

    def listen_address(self) -> tuple[str, int]:
        """Return the host and port that an agent there has to listen on for `endpoint` to lead to it; port 0 for any free one.

        Raises:
            DkdbgError: as `find`.
        """
        return LOOPBACK, 0 if Capability.REMOTE in self.capabilities else DEFAULT_PORT

    def each(self) -> Sequence[Target]:
        """Return the targets that it stands for now, such as one for each rank of a job, instead of it, which is closed.

        A target that cannot be asked is itself: its endpoint says why.

        Raises:
            DkdbgError: it can never be asked in this way.
        """
        return [self]

    def advice(self) -> Sequence[str]:
        """Return lines for a user: what runs there without an agent, and what to type. Never raises."""
        return ()

    def recreation(self, words: Sequence[str]) -> tuple[str, tuple[str, ...]]:
        """Return the shell line that makes it once more, with its program under the agent, and the variables that the new one lacks.

        The line is empty where it cannot be made again.

        Args:
            words: command line of the Python that was meant.

        Raises:
            DkdbgError: it is not there or not running.
        """
        return "", ()

    # -- ATTACH_ONLY -------------------------------------------------------------------------------------------------

    def refusal(self) -> DkdbgError:
        """Return the error that says why no command can be run there, with what to type instead."""
        return DkdbgError(f"{self.address}: no command can be run there", exit_code=EXIT_USAGE)

    # -- START -------------------------------------------------------------------------------------------------------

    def up(self, wanted: Start, *, report: Callable[[str], None], moved: Callable[[int], None]) -> Started:
        """Start the debug service and return when an attach will work.

        Args:
            report: takes one line of progress.
            moved: called with the port before the start when it is not `wanted.port`.

        Raises:
            DkdbgError: it cannot be started, with cause and next step.
        """
        raise self._unsupported(Capability.START)

    def replaced(self) -> Sequence[str]:
        """Return the single files, paths there, that are mounted and whose source is another file now.

        An editor that saves by a rename, and git, put another file in the place of the one that is mounted.
        """
        return ()

    def start_again(self) -> None:
        """Restart what runs there, with all mounts made anew.

        Raises:
            DkdbgError: it cannot be started.
        """
        raise self._unsupported(Capability.START)

    def down(self, service: DebugService, *, everything: bool) -> str:
        """Stop and remove the debug service, or all that belongs to it; say what is down.

        Raises:
            DkdbgError: it cannot be stopped.
        """
        raise self._unsupported(Capability.START)

    # -- ONE_OFF -----------------------------------------------------------------------------------------------------

    def once(self, wanted: Once, *, report: Callable[[str], None]) -> Prepared:
        """Prepare a run of another command.

        Args:
            report: takes one line of progress.

        Raises:
            DkdbgError: it cannot be prepared, with cause and next step.
        """
        raise self._unsupported(Capability.ONE_OFF)

    # -- COPY --------------------------------------------------------------------------------------------------------

    def plan_copy(
        self,
        command: Sequence[str],
        *,
        wait: int,
        overlay: Path | None = None,
        replace: bool = False,
    ) -> CopyPlan:
        """Return the plan that `make_copy` carries out; change nothing.

        Args:
            command: another program than the original's; empty for that.
            wait: seconds that the program waits for an editor.
            overlay: the copy's manifest, which is taken as it is; None to copy what is there.
            replace: in the place of a copy that is there.

        Raises:
            DkdbgError: there is nothing to copy, or there is a copy already.
        """
        raise self._unsupported(Capability.COPY)

    def make_copy(self, *, report: Callable[[str], None], limit: float) -> tuple[str, ...]:
        """Start what was planned and return when an attach will work: the addresses to attach to.

        Args:
            report: takes one line of progress.
            limit: seconds.

        Raises:
            DkdbgError: it cannot be made, and nothing is left of it; or it does not start.
        """
        raise self._unsupported(Capability.COPY)

    def remove_copy(self) -> str:
        """Remove the copy, if there is one, and say what is down.

        Raises:
            DkdbgError: it cannot be removed.
        """
        raise self._unsupported(Capability.COPY)

    # -- LOGS --------------------------------------------------------------------------------------------------------

    def logs(self, *, follow: bool, lines: int | None) -> tuple[str, ...]:
        """Return the local command line that prints the program's standard output and error.

        Args:
            follow: go on with what comes, until it ends.
            lines: that many from the end; None for all.

        Raises:
            DkdbgError: there is nothing that has printed, or it cannot be asked.
        """
        raise self._unsupported(Capability.LOGS)

    # -- LIST_PROCESSES ----------------------------------------------------------------------------------------------

    def pythons(self) -> Sequence[PythonThere]:
        """Return the Pythons there; none where an agent of dkdbg runs.

        Raises:
            DkdbgError: it cannot be asked.
        """
        raise self._unsupported(Capability.LIST_PROCESSES)

    def within(self, user: str) -> Reach:
        """Return the target as one of its users: `uid:gid`, empty for the usual one.

        Raises:
            DkdbgError: it is not there or not running.
        """
        raise self._unsupported(Capability.LIST_PROCESSES)

    def code_at(self, folder: str) -> tuple[str, str] | None:
        """Return where a folder of the target lies on this machine: the folders here and there; None when nothing says it.

        Raises:
            DkdbgError: it is not there or not running.
        """
        return None

    # -- REMOTE ------------------------------------------------------------------------------------------------------

    def lost(self) -> str:
        """Return why a command there was ended by a cut; empty when it ended itself, or may have."""
        return ""

    def again(self, *, silent: bool, limit: float) -> Reach:
        """Return the same host after a connection was cut; from any thread, and without asking for a password.

        Args:
            silent: nothing came through the connection any more: one that is shared is made anew too.
            limit: seconds.

        Raises:
            DkdbgError: it cannot be reached now.
        """
        return self.find()

    # -- NEEDS_WORKDIR -----------------------------------------------------------------------------------------------

    @property
    def names_workdir(self) -> bool:
        """Whether the target has a folder for the code without one being made."""
        return True

    def in_workdir(self, folder: str) -> Target:
        """Return the same target in a folder that is there.

        Args:
            folder: absolute.

        Raises:
            DkdbgError: no address can name it.
        """
        raise self._unsupported(Capability.NEEDS_WORKDIR)

    def planned_workdir(self, name: str) -> Workspace:
        """Return the folder that `with_workdir` uses; make nothing.

        Raises:
            DkdbgError: the target cannot be reached.
        """
        return self.workspace()

    def with_workdir(self, name: str) -> Target:
        """Return the same target in the folder of its address, else in one of dkdbg's, which is made if need be.

        Args:
            name: of dkdbg's folder: ASCII letters, digits, `.`, `_` and `-`.

        Raises:
            DkdbgError: the target cannot be reached, or the folder cannot be made.
        """
        return self

    # -- CLUSTER -----------------------------------------------------------------------------------------------------

    @property
    def driver(self) -> Target:
        """The target where a program is started.

        Raises:
            DkdbgError: there is none.
        """
        return self

    def worker_flags(self, workers: str | None) -> tuple[str, ...]:
        """Return the flags with which the agent's `launch` has workers debugged too.

        Args:
            workers: which, by shell patterns with commas; None for all.

        Raises:
            DkdbgError: some are named, and its programs have none.
        """
        if workers is None:
            return ()
        raise DkdbgError(
            f"{self.label} has no workers that are started elsewhere",
            hint="--workers is for a Ray cluster: --on ray+ssh://NODE",
            exit_code=EXIT_USAGE,
        )

    # -- TIME_LIMITED ------------------------------------------------------------------------------------------------

    def over(self) -> Sequence[str]:
        """Return the words that end with 0, run there, once its time is over; none where it has no limit.

        Raises:
            DkdbgError: that is not known now.
        """
        return ()

    def _unsupported(self, capability: Capability) -> DkdbgError:
        return DkdbgError(f"{self.address} does not support {capability.value}", exit_code=EXIT_USAGE)


def _none_named(_name: str, _root: Path) -> None:
    return None


def _no_sessions() -> list[SeenSession]:
    return []


def _run_there(address: str, _ran: bool) -> str:
    return hints.RUN_THERE(target=address)


def see_ended(address: str, _ran: bool) -> str:
    """Return the hint for targets on which nothing can be run."""
    return f"dkdbg ps --all {address} shows those that have ended"


@dataclass(frozen=True, kw_only=True)
class Kind:
    """What a module of `targets/` tells the registry, as its `KIND`.

    Attributes:
        target: the target at an address of this kind, relative to the repository's root, resolved; no I/O.
            Raises DkdbgError when the address makes no sense for this kind.
        named: the target that a name without a scheme means now; None when there is none.
        sessions: all sessions of this kind that can be seen from this machine, for `dkdbg ps`, those that have ended
            too; each carries the address of its target. Raises DkdbgError when they cannot be listed.
        queue: where jobs are submitted at an address of this kind that names no job; None for what has no jobs.
            Raises DkdbgError when the address makes no sense.
        inner: the address of the target from which one of this kind is reached; None for what is reached directly.
            Raises DkdbgError when the address makes no sense.
        around: the target at an address of this kind, made instead of by `target`, around
            those at `inner` that its second argument makes, and that it closes.
        begin: the hint where no session is running at an address, and whether one has run there.
    """

    target: Callable[[Address, Path], Target]
    named: Callable[[str, Path], Target | None] = _none_named
    sessions: Callable[[], list[SeenSession]] = _no_sessions
    queue: Callable[[Address], Queue] | None = None
    inner: Callable[[Address], Address] | None = None
    around: Callable[[Address, Callable[[], Target]], Target] | None = None
    begin: Callable[[str, bool], str] = _run_there
