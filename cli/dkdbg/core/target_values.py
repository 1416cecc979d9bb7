"""Values that a verb and a target exchange: parameters of a debug service, a one-off command, and a debug copy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dkdbg.core.plan import DebugService

    #: Registers a cleanup function, to be called at the end of a trial; see `Target.trial`.
    AtEnd = Callable[[Callable[[], None]], object]


@dataclass(frozen=True, kw_only=True)
class Start:
    """Parameters for starting a debug service.

    Attributes:
        service: the debug service as `init` planned it.
        token: returns the token of its debug port, empty for none; called once the target is known to exist.
        port: local port to use if it is free.
        wait: seconds until an attach must work.
    """

    service: DebugService
    token: Callable[[], str]
    port: int
    wait: int


@dataclass(frozen=True, kw_only=True)
class Started:
    """A debug service that an editor can attach to.

    Attributes:
        port: port on 127.0.0.1 of this machine; None for an engine on another machine, which `dkdbg attach` reaches.
        gpu: how it got a GPU.
        token: whether its port requires one.
        name: name of the container, pod or job; None if unknown.
        engine: address of an engine on another machine; empty for a local one.
        ports: published ports of the program: (port inside, `host:port` on this machine).
        idle: whether it runs no program.
    """

    port: int | None
    gpu: str
    token: bool
    name: str | None
    engine: str = ""
    ports: tuple[tuple[int, str], ...] = ()
    idle: bool = False


@dataclass(frozen=True, kw_only=True)
class Once:
    """Parameters for running another command in a debug service.

    Attributes:
        command: word by word; empty for the service's own.
        port: local port to use if it is free.
        wait: seconds that the command waits for an editor before its first line.
        ranks: ranks to debug; empty for the service's own setting.
        tty: whether the local standard input and output are a terminal.
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
    """A prepared run.

    Attributes:
        argv, environment: the local command line that runs it, and its environment.
        port: its debug port on 127.0.0.1; 0 where the engine is on another machine.
        tell: passes a signal on to the command; returns False if it has not begun.
        cleaning: the local command line that removes leftovers after the run's end.
        is_met: whether F5 attaches to this run, on its port, instead of to the program that F5 would start.
        name: name of its container.
        program: words of the program under the agent.
        gpu: how it gets a GPU, and why.
        stdin_text: the standard input of `argv` and of `needs`; empty to inherit dkdbg's.
        needs: the local command line that starts the services that the run depends on; empty if all of them run.
    """

    argv: tuple[str, ...]
    environment: Mapping[str, str]
    port: int
    tell: Callable[[int], bool]
    cleaning: tuple[str, ...]
    is_met: bool = True
    name: str = ""
    program: tuple[str, ...] = ()
    gpu: tuple[str, str] = ("none", "")
    stdin_text: str = ""
    needs: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A run of the program for `dkdbg verify`, in addition to what runs on the target.

    Attributes:
        address: address of its target, as any verb accepts it.
        port: its debug port on 127.0.0.1; 0 if only the target's endpoint leads to it.
        program: words of the program under the agent.
        gpu: how it gets a GPU, and why.
        ready: waits at most the given number of seconds until an attach works; returns False if the program ends
            first.
        session: returns the id of its session once it is ready; empty if there is only one.
        ended: returns its exit code; None while it runs.
        probe: runs a shell script in the same image, without the program, and returns its output. Empty outside
            containers, where other users may own the programs that the script would run.
        output: returns the end of what the program and the agent have printed.
        entrypoint: returns the ENTRYPOINT of its image; empty without an image.
    """

    address: str
    port: int
    program: tuple[str, ...]
    gpu: tuple[str, str]
    ready: Callable[[float], bool]
    session: Callable[[], str]
    ended: Callable[[], int | None]
    output: Callable[[], str]
    probe: Callable[[str], str]
    entrypoint: Callable[[], tuple[str, ...]] = tuple


@dataclass(frozen=True, kw_only=True)
class CopyPlan:
    """Plan of a debug copy of a workload.

    Attributes:
        original, name: names of the original and the copy, for display.
        before, after: the manifests of the original and of the copy, as parsed documents.
        decisions: (what, why) of each difference.
        notes: remarks for the user to read before the copy starts.
    """

    original: str
    name: str
    before: object
    after: object
    decisions: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]
