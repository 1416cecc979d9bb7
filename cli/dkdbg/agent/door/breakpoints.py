"""Which files have breakpoints: a process that executes none of them need not join at once. No I/O.

What the editor wants is learnt from the sessions of processes: some clients set nothing in the root session.
"""

from __future__ import annotations

import re

from dkdbg.agent.dap import messages
from dkdbg.agent.dap.messages import as_dict
from dkdbg.agent.door.connection import HOLDING, ROOT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterable, List, Optional, Set, Tuple

    from dkdbg.agent.dap.messages import Message
    from dkdbg.agent.door.connection import Connection

#: Who opens the session of one process when a person asks for it: until then nobody knows its breakpoints.
_ON_ITS_PORT = "dkdbg-ports"
#: What may be wanted of a process besides: a stop where nobody catches an exception; what it prints.
UNCAUGHT = "uncaught"
#: And a SystemExit among them: one that says of a failure, or any.
EXITS = "exits"
EVERY_EXIT = "every-exit"
OUTPUT = "output"
#: Files that Python executes as such; templates have breakpoints too.
_EXECUTED = re.compile(r"(\.pyw?|[\\/][^.\\/]+|^<\w+>)$", re.IGNORECASE)
#: What debugpy imports may lie there: a process that is in the middle of importing it cannot join.
_STANDARD_LIBRARY = re.compile(r"[\\/]lib[\\/]python3[^\\/]*[\\/](?!(site|dist)-packages)", re.IGNORECASE)


def wanted(holders: Iterable[Connection]) -> Optional[Tuple[Set[str], Set[str]]]:
    """Return the files with breakpoints, and what else is wanted, as UNCAUGHT is; None when that is not all.

    Then each process has to join when it starts: a breakpoint by a function's name, a filter for raised exceptions, a
    client of which nobody knows what it wants.

    Args:
        holders: who holds a session.

    Returns:
        Paths as the client has them, and as its mappings make them.
    """
    files: Set[str] = set()
    more: Set[str] = set()
    knows = False
    for one in holders:
        if one.phase.name != HOLDING or one.leaving:
            continue
        if one.key == ROOT:
            client = one.introduction
            if client.get("clientID") == _ON_ITS_PORT or not messages.opens_sessions(client):
                return None
        elif one.configured:
            knows = True
            more.update(() if one.arguments.get("redirectOutput") is False else (OUTPUT,))
        for command, arguments, _ in one.settings.all():
            if command == "setFunctionBreakpoints" and arguments.get("breakpoints"):
                return None
            if command == "setExceptionBreakpoints":
                filters = _filters(arguments)
                if filters is None:
                    return None
                more.update(filters)
                more.update(_exits(one.arguments) if UNCAUGHT in filters else ())
            if command == "setBreakpoints" and arguments.get("breakpoints"):
                path = as_dict(arguments.get("source")).get("path")
                if not isinstance(path, str) or "\n" in path or not _EXECUTED.search(path):
                    return None
                files.add(path)
                files.update(_mapped(path, one.arguments))
    if not knows or any(_STANDARD_LIBRARY.search(path) for path in files):
        return None
    if not files and UNCAUGHT not in more:
        return None  # it wants to see the processes
    return files, more


def _exits(attach: Message) -> Tuple[str, ...]:
    """Return what debugpy makes of `breakOnSystemExit`: exit codes, ranges of them; without it all but 0 and None."""
    codes = attach.get("breakOnSystemExit")
    if not isinstance(codes, list):
        return (EXITS,)
    return (EVERY_EXIT,) if codes else ()


def _filters(arguments: Message) -> Optional[List[str]]:
    """Return the filters, if it is only that for uncaught exceptions; None for anything else."""
    options, names = arguments.get("filterOptions") or [], arguments.get("filters") or []
    if not isinstance(options, list) or not isinstance(names, list) or arguments.get("exceptionOptions"):
        return None
    names = [*names, *(as_dict(each).get("filterId") for each in options)]
    return names if all(name == UNCAUGHT for name in names) else None


def _mapped(path: str, attach: Message) -> List[str]:
    """Return the path where the program runs, for each mapping that fits it."""
    pairs = attach.get("pathMappings")
    found = []
    for pair in [attach, *(pairs if isinstance(pairs, list) else [])]:
        local, remote = as_dict(pair).get("localRoot"), as_dict(pair).get("remoteRoot")
        if isinstance(local, str) and isinstance(remote, str) and local and remote:
            root = local.rstrip("/\\").lower()
            if path.lower().startswith(root) and path[len(root) :][:1] in ("/", "\\"):
                found.append(remote.rstrip("/") + path[len(root) :].replace("\\", "/"))
    return found
