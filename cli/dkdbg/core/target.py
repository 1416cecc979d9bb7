"""The base class of all targets: the operations that they offer to the verbs. No I/O.

`targets/registry.py` lists the kinds.
"""

# ruff: noqa: ARG002 - defaults ignore their arguments

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from dkdbg import hints
from dkdbg.agent.contract import DEFAULT_PORT, LOOPBACK
from dkdbg.errors import EXIT_USAGE, DkdbgError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from dkdbg.agent.contract import Deadline
    from dkdbg.core.address import Address
    from dkdbg.core.jobs import Queue
    from dkdbg.core.mapping import Workspace
    from dkdbg.core.plan import DebugService
    from dkdbg.core.pythons import PythonThere
    from dkdbg.core.sessions import SeenSession
    from dkdbg.core.target_values import AtEnd, CopyPlan, Once, Prepared, Start, Started, Trial


class Capability(Enum):
    """A property of some targets, which verbs test by `Capability.LOGS in target.capabilities`.

    The value completes the message "TARGET does not support ...".
    """

    #: A debug service that `dkdbg up` starts and `dkdbg down` stops.
    START = "being started and stopped from here"
    #: Can run another command with its image, mounts and environment: `dkdbg run`.
    ONE_OFF = "one-off commands"
    #: Can start a debug copy: `dkdbg up --on`. The original is never changed.
    COPY = "debug copies"
    #: Keeps the output of its program: `dkdbg logs`.
    LOGS = "logs"
    #: Can list its Pythons, with the user of each: `dkdbg attach --pid`.
    LIST_PROCESSES = "listing its processes"
    #: A container: the packages of its Pythons are its own, and vanish with it.
    CONTAINER = "containers"
    #: A shared machine behind a connection that may be cut; a program started there survives the cut.
    REMOTE = "connections that may be cut"
    #: If its address names no folder for the code, a folder is created.
    NEEDS_WORKDIR = "making a working directory"
    #: Its programs have workers that the cluster starts elsewhere.
    CLUSTER = "workers on other nodes"
    #: A batch job, which belongs to this user for a limited time.
    TIME_LIMITED = "time limits"
    #: An editor can attach to it, but no command can run on it.
    ATTACH_ONLY = "attaching only"


class Executor(ABC):
    """One container or node that `Target.find` has found.

    If it is gone, commands fail. They run in a successor only if that has the same name, like a StatefulSet's pod.

    Attributes:
        label: for display, such as `compose://app (shop-app-1)`.
    """

    label: str

    @abstractmethod
    def wrap(self, argv: Sequence[str], *, tty: bool = False) -> tuple[str, ...]:
        """Return the local command line that runs `argv` at the target, in the target's own folder and environment.

        Standard input, output and error are passed through byte for byte. The exit code is that of `argv`, and 126 or
        127 if `argv` cannot be executed or is missing.

        Args:
            argv: word by word.
            tty: whether the local standard input is a terminal; `argv` gets one too.
        """

    def explain(self, stderr: str) -> DkdbgError | None:
        """Return the error for a message of ssh, kubectl or the like; None if another program has written `stderr`.

        Args:
            stderr: end of the standard error of a command that ended before it answered.
        """
        return None

    def starting(self, relay: Sequence[str]) -> Sequence[str]:
        """Return the local command line that starts `agent relay WORD` with a keeper.

        The keeper is a remote process that outlives the connection.

        Args:
            relay: words of `agent relay WORD`; see `agent/relay/stdio.py` for words that can be added.
        """
        return self.wrap(relay)


@dataclass(frozen=True, kw_only=True)
class Local(Executor):
    """The `local:` target.

    Attributes:
        label: name for display.
    """

    label: str = "local"

    def wrap(self, argv: Sequence[str], *, tty: bool = False) -> tuple[str, ...]:
        """Return `argv` unchanged."""
        return tuple(argv)


#: Reason for waiting while the session of a certain `dkdbg run` does not exist.
RUN_ABSENT = "the program is being started, or has ended"


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """Address of a target's agent, seen from this machine.

    Attributes:
        address: host and port; None if unavailable now.
        why: what dkdbg waits for while nothing answers, as text.
        hint: what to type or change; may be empty.
    """

    address: tuple[str, int] | None
    why: str
    hint: str = ""

    @classmethod
    def failed(cls, error: Exception, *, label: str = "") -> Endpoint:
        """Return the endpoint of a target that cannot be reached.

        Its reason is the error's text, without `label: ` at the start.
        """
        why = str(error).splitlines()[0].removeprefix(f"{label}: ")
        return cls(address=None, why=why, hint=getattr(error, "hint", ""))


class Changes(ABC):
    """A source of events about targets. Targets whose sources are equal (`==`, `hash`) share one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_closed = False
        self._end: Callable[[], None] | None = None

    @abstractmethod
    def _open(self) -> tuple[Iterable[object], Callable[[], None]]:
        """Return the events, each a possible change, and a function that ends their iteration; any thread may call it.

        Raises:
            DkdbgError: listening is impossible; reading the events may raise it too.
        """

    def listen(self, changed: Callable[[], None]) -> None:
        """Call `changed` once at the start, then on each event; return when the source ends, or after `close`.

        Raises:
            DkdbgError: listening is impossible.
        """
        events, end = self._open()
        try:
            with self._lock:
                if self._is_closed:
                    return
                self._end = end
            changed()  # there may have been changes before `_open`
            for _ in events:
                changed()
        except (OSError, ValueError) as error:  # also raised after `close`
            if not self._is_closed:
                raise DkdbgError(f"{self} cannot be read: {error}") from error
        finally:
            end()

    def close(self) -> None:
        """Make `listen` return; call it from any thread."""
        with self._lock:
            self._is_closed = True
            if self._end is not None:
                self._end()


class Target(ABC):
    """A target named by an address; what runs there may be replaced at any time, or not exist yet.

    Construction does no I/O. Only `endpoint` is called from several threads. By default, a method that needs a
    capability raises DkdbgError, or returns the right answer for a target without the capability.

    Attributes:
        address: as typed.
        pause: seconds between two polls for a missing endpoint while `changes` report nothing.
        capabilities: see `Capability`.
        is_meant: whether its address means only the program that runs now, not a later one.
        run: ID of the `dkdbg run` that started the session to use as `endpoint`; empty for the newest session.
    """

    pause: float = 3.0
    capabilities: frozenset[Capability] = frozenset()
    is_meant = False
    run = ""

    def __init__(self, address: Address) -> None:
        self.address = address

    @property
    def label(self) -> str:
        """A short name for display."""
        return self.address.label

    @abstractmethod
    def endpoint(self) -> Endpoint:
        """Return the agent's current endpoint. Never raises."""

    def changes(self) -> Changes | None:
        """Return the source of events about `endpoint`; None if it has to be polled."""
        return None

    def close(self) -> None:  # noqa: B027 - most open nothing
        """Close its connections, such as a tunnel."""

    # -- commands there: all targets but ATTACH_ONLY -----------------------------------------------------------------

    def find(self) -> Executor:
        """Find the container or node that the address names now; `wrap` and `agent` refer to it from then on.

        Raises:
            DkdbgError: nothing was found, or no command can run in it.
        """
        raise self.refusal()

    def wrap(self, argv: Sequence[str], *, tty: bool = False) -> tuple[str, ...]:
        """Call `Executor.wrap` of the last `find`'s result; call `find` first if needed.

        Raises:
            DkdbgError: as `find`.
        """
        raise self.refusal()

    def agent(self) -> tuple[str, ...] | None:
        """Return the remote command line of the agent, without its verb; None if the agent has to be sent first.

        Raises:
            DkdbgError: as `find`.
        """
        raise self.refusal()

    def running_agent(self) -> tuple[str, ...]:
        """Return the result of `agent`. Raises DkdbgError: as `agent`; or there is no agent."""
        found = self.agent()
        if found is None:
            raise DkdbgError(
                f"no dkdbg agent runs on {self.label}",
                hint=f"dkdbg ps {self.address} shows what runs there",
            )
        return found

    def workspace(self) -> Workspace:
        """Return the location of the code on the target. Raises DkdbgError: as `find`; or the location is unknown."""
        raise self.refusal()

    def sessions(self) -> list[SeenSession]:
        """Return the target's sessions, including those that have ended.

        Raises:
            DkdbgError: the target cannot be queried.
        """
        raise self.refusal()

    def listen_address(self, port: int | None = None) -> tuple[str, int]:
        """Return the host and port that an agent on the target must listen on so that `endpoint` finds it.

        Port 0 means any free port.
        """
        return LOOPBACK, port or (0 if Capability.REMOTE in self.capabilities else DEFAULT_PORT)

    def each(self) -> Sequence[Target]:
        """Return the targets that this one stands for now, such as one per rank of a job.

        If other targets are returned, this one is closed. If it cannot be queried now, return only this target, whose
        endpoint reports the reason.

        Raises:
            DkdbgError: a later query cannot succeed either.
        """
        return [self]

    def advice(self) -> Sequence[str]:
        """Return lines for a user: the target's programs without an agent, and commands to type. Never raises."""
        return ()

    def deadlines(self) -> Sequence[Deadline]:
        """Return the target's time limits that keep running while a program is held and that its agent cannot see.

        They are known only after a query of the target, such as `endpoint` or `sessions`. Never raises.
        """
        return ()

    def recreation(self, argv: Sequence[str]) -> tuple[str, tuple[str, ...]]:
        """Return the shell line that recreates the container under the agent, and the variables that the new one lacks.

        The line is empty if the container cannot be recreated.

        Args:
            argv: command line of the selected Python.

        Raises:
            DkdbgError: it is missing or not running.
        """
        return "", ()

    # -- ATTACH_ONLY -------------------------------------------------------------------------------------------------

    def refusal(self) -> DkdbgError:
        """Return the error for running a command on the target, with what to type instead."""
        return DkdbgError(f"{self.address}: no command can be run there", exit_code=EXIT_USAGE)

    # -- START -------------------------------------------------------------------------------------------------------

    def up(self, wanted: Start, *, report: Callable[[str], None], moved: Callable[[int], None]) -> Started:
        """Start the debug service and return when an attach will work.

        Args:
            report: prints one line of progress.
            moved: called before the start with the actual port, if it is not `wanted.port`.

        Raises:
            DkdbgError: it cannot be started, with cause and next step.
        """
        raise self._unsupported(Capability.START)

    def replaced(self) -> Sequence[str]:
        """Return the remote paths of single-file mounts that show an old file, because the local one was replaced.

        Git, and editors that save by renaming, replace a file; the mount keeps the old one.
        """
        return ()

    def start_again(self) -> None:
        """Restart the debug service with all mounts renewed. Raises DkdbgError: it cannot be started."""
        raise self._unsupported(Capability.START)

    def down(self, service: DebugService, *, everything: bool) -> str:
        """Stop and remove the debug service, or the whole project; return a description of what was stopped.

        Args:
            everything: whether to stop the whole project, as `dkdbg down --all` does.

        Raises:
            DkdbgError: it cannot be stopped.
        """
        raise self._unsupported(Capability.START)

    # -- ONE_OFF -----------------------------------------------------------------------------------------------------

    def once(self, wanted: Once, *, report: Callable[[str], None]) -> Prepared:
        """Prepare a run of another command.

        Args:
            report: prints one line of progress.

        Raises:
            DkdbgError: it cannot be prepared, with cause and next step.
        """
        raise self._unsupported(Capability.ONE_OFF)

    def trial(self, wanted: Once, *, report: Callable[[str], None], at_end: AtEnd) -> Trial:
        """Start a second run of the debug service's program for `dkdbg verify`; leave running programs alone.

        Args:
            report: prints one line of progress.
            at_end: registers a cleanup function; they are called at the end, in reverse order. Each removes one object
                that the start creates (the image stays), or raises DkdbgError. It is registered before the object is
                created, because a signal may end the start at any point.

        Raises:
            DkdbgError: it cannot be started, with cause and next step.
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
            command: program to run instead of the original's; empty for the original's.
            wait: seconds that the program waits for an editor.
            overlay: manifest of the copy, used unchanged; None to copy the original's.
            replace: whether to replace an existing copy.

        Raises:
            DkdbgError: there is nothing to copy, or a copy exists already.
        """
        raise self._unsupported(Capability.COPY)

    def make_copy(self, *, report: Callable[[str], None], limit: float) -> tuple[str, ...]:
        """Start the planned copy and return the addresses to attach to, once an attach will work.

        Args:
            report: prints one line of progress.
            limit: timeout in seconds.

        Raises:
            DkdbgError: the copy cannot be made (then nothing of it is left), or does not start.
        """
        raise self._unsupported(Capability.COPY)

    def remove_copy(self) -> str:
        """Remove the copy, if it exists, and return a description of what was removed.

        Raises:
            DkdbgError: it cannot be removed.
        """
        raise self._unsupported(Capability.COPY)

    # -- LOGS --------------------------------------------------------------------------------------------------------

    def logs(self, *, follow: bool, lines: int | None) -> tuple[str, ...]:
        """Return the local command line that prints the program's standard output and error.

        Args:
            follow: continue with new output until it ends.
            lines: number of lines from the end; None for all.

        Raises:
            DkdbgError: there is no output, or the target cannot be queried.
        """
        raise self._unsupported(Capability.LOGS)

    # -- LIST_PROCESSES ----------------------------------------------------------------------------------------------

    def pythons(self) -> Sequence[PythonThere]:
        """Return the target's Python processes; empty if an agent of dkdbg runs.

        Raises DkdbgError: the target cannot be queried.
        """
        raise self._unsupported(Capability.LIST_PROCESSES)

    def within(self, user: str) -> Executor:
        """Return an executor that runs commands as `user`, `uid:gid`; the usual user if it is empty.

        Raises:
            DkdbgError: it is missing or not running.
        """
        raise self._unsupported(Capability.LIST_PROCESSES)

    def code_at(self, folder: str) -> tuple[str, str] | None:
        """Return the (local, remote) pair of folders that contains a folder of the target; None if unknown.

        Raises:
            DkdbgError: it is missing or not running.
        """
        return None

    # -- REMOTE ------------------------------------------------------------------------------------------------------

    def lost(self) -> str:
        """Return why the connection to a command was cut; empty if the command ended, or may have ended, normally."""
        return ""

    def again(self, *, silent: bool, limit: float) -> Executor:
        """Find the same host again after its connection was cut; from any thread, without asking for a password.

        Args:
            silent: whether the connection went silent: a shared connection is then replaced, too.
            limit: timeout in seconds.

        Raises:
            DkdbgError: it cannot be reached now.
        """
        return self.find()

    # -- NEEDS_WORKDIR -----------------------------------------------------------------------------------------------

    @property
    def names_workdir(self) -> bool:
        """Return whether the target has a folder for the code already, so that none has to be created."""
        return True

    def in_workdir(self, folder: str) -> Target:
        """Return the same target in an existing folder.

        Args:
            folder: absolute path.

        Raises:
            DkdbgError: no address can name the folder.
        """
        raise self._unsupported(Capability.NEEDS_WORKDIR)

    def planned_workdir(self, name: str) -> Workspace:
        """Return the folder that `with_workdir` uses; create nothing.

        Raises:
            DkdbgError: the target cannot be reached.
        """
        return self.workspace()

    def with_workdir(self, name: str) -> Target:
        """Return the same target in the folder of its address, or else in dkdbg's own; create a missing folder.

        Args:
            name: name of dkdbg's folder: ASCII letters, digits, `.`, `_` and `-`.

        Raises:
            DkdbgError: the target cannot be reached, or the folder cannot be created.
        """
        return self

    # -- CLUSTER -----------------------------------------------------------------------------------------------------

    @property
    def driver(self) -> Target:
        """The target on which programs are started. Raises DkdbgError: no such target exists."""
        return self

    def worker_flags(self, workers: str | None) -> tuple[str, ...]:
        """Return the flags that make the agent's `launch` debug workers too.

        Args:
            workers: shell patterns of the workers to debug, separated by commas; None for all.

        Raises:
            DkdbgError: `workers` is given, but the target's programs have no workers.
        """
        if workers is None:
            return ()
        raise DkdbgError(
            f"{self.label} has no Ray workers",
            hint="--workers is for a Ray cluster: --on ray+ssh://NODE",
            exit_code=EXIT_USAGE,
        )

    # -- TIME_LIMITED ------------------------------------------------------------------------------------------------

    def over(self) -> Sequence[str]:
        """Return a remote command line that exits with 0 once the target's time is over; empty without a time limit.

        Raises:
            DkdbgError: the time limit is unknown now.
        """
        return ()

    def _unsupported(self, capability: Capability) -> DkdbgError:
        return DkdbgError(f"{self.address} does not support {capability.value}", exit_code=EXIT_USAGE)


def see_ended(address: str, _ran: bool) -> str:
    """Return the hint for a target without a running session."""
    return f"dkdbg ps --all {address} shows ended sessions"


@dataclass(frozen=True, kw_only=True)
class Kind:
    """Registration of one kind of target: the `KIND` of a module of `targets/`.

    Attributes:
        target: returns the target at an address of this kind; its second argument is the repository's resolved
            root. No I/O. Raises DkdbgError for an address that is invalid for this kind.
        named: returns the target that a name without a scheme refers to now, or None.
        sessions: returns all sessions of this kind that are visible from this machine, for `dkdbg ps`, including those
            that have ended; each carries the address of its target. Raises DkdbgError when they cannot be listed.
        queue: returns the queue for jobs at an address of this kind that names no job; None for a kind without
            jobs. Raises DkdbgError for an invalid address.
        inner: returns the address of the target through which a target of this kind is reached; None for a kind
            that is reached directly. Raises DkdbgError for an invalid address.
        around: takes the place of `target` for a kind that is reached through other kinds. Its second argument creates
            these inner targets; the returned target closes them.
        begin: returns the hint for an address without a running session; its second argument is whether a session
            has run there before.
    """

    target: Callable[[Address, Path], Target]
    named: Callable[[str, Path], Target | None] = lambda _name, _root: None
    sessions: Callable[[], list[SeenSession]] = list
    queue: Callable[[Address], Queue] | None = None
    inner: Callable[[Address], Address] | None = None
    around: Callable[[Address, Callable[[], Target]], Target] | None = None
    begin: Callable[[str, bool], str] = lambda address, _ran: hints.RUN_THERE(target=address)
