"""Values that a verb and a target exchange: how to start a debug service, run a one-off command, make a debug copy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dkdbg.core.plan import DebugService


@dataclass(frozen=True, kw_only=True)
class Start:
    """How a debug service is to be started.

    Attributes:
        service: as `init` planned it.
        token: gives the token of its debug port, empty for none; asked once the target is known to be there.
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
