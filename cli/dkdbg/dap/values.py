"""Values that a debugger sends and receives; every path is on the local side, as an editor sees it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dkdbg.agent.contract import LOOPBACK

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dkdbg.dap.client import Body, Session


@dataclass(frozen=True, kw_only=True)
class AttachOptions:
    """The options of a launch.json entry.

    Attributes:
        host, port: address of the adapter, from here.
        path_mappings: (local root, remote root), absolute; the first match wins.
        just_my_code: whether to skip library code in stepping and exceptions.
        sub_process: whether to debug Python child processes, too.
        start_debugging: whether to request the protocol's `startDebugging` instead of debugpy's `debugpyAttach`.
        extra: further attach arguments, such as a token or `subProcessId`.
    """

    host: str = LOOPBACK
    port: int
    path_mappings: tuple[tuple[str, str], ...] = ()
    just_my_code: bool = True
    sub_process: bool = True
    start_debugging: bool = True
    extra: Mapping[str, object] = field(default_factory=dict)

    def arguments(self) -> Body:
        """Return the body of the attach request; its `connect` makes child sessions use the same port."""
        return {
            "name": "dkdbg",
            "type": "debugpy",
            "request": "attach",
            "connect": {"host": self.host, "port": self.port},
            "pathMappings": [
                {"localRoot": local, "remoteRoot": remote} for local, remote in self.path_mappings
            ],
            "justMyCode": self.just_my_code,
            "subProcess": self.sub_process,
            **self.extra,
        }


@dataclass(frozen=True, kw_only=True)
class Breakpoint:
    """A requested breakpoint: line from 1; `condition` is a Python expression, empty for none."""

    line: int
    condition: str = ""


@dataclass(frozen=True, kw_only=True)
class BreakpointSet:
    """The breakpoint that a process has set: its actual line, or in `message` why it is not verified."""

    session: Session
    line: int
    is_verified: bool
    message: str = ""


@dataclass(frozen=True, kw_only=True)
class Stop:
    """A thread that stopped.

    Attributes:
        session: the process.
        thread_id: the adapter's number of the thread.
        reason: `breakpoint`, `step`, `exception`, `pause`, `entry`, ... as in the protocol.
        text: more detail, such as the type of the exception; may be empty.
    """

    session: Session
    thread_id: int
    reason: str
    text: str = ""


@dataclass(frozen=True, kw_only=True)
class Frame:
    """A frame of a stopped thread; `path` is None if the adapter knows no file, `line` counts from 1."""

    session: Session
    id: int
    name: str
    path: str | None
    line: int


@dataclass(frozen=True, kw_only=True)
class Scope:
    """A group of variables of a frame, such as `Locals`; `reference` is for `variables`."""

    session: Session
    name: str
    reference: int


@dataclass(frozen=True, kw_only=True)
class Variable:
    """A variable as text; `reference` is not 0 if it has children."""

    session: Session
    name: str
    value: str
    type: str
    reference: int


@dataclass(frozen=True, kw_only=True)
class Output:
    """A piece of output of a process or the adapter; `category` is `stdout`, `stderr`, `console`, ..."""

    session: Session
    category: str
    text: str
