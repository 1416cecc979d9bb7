"""A process that starts while an editor is attached, and waits to join until it is about to execute a breakpoint.

Joining costs 0.1 to 0.2 s of CPU, which a program that starts many short Pythons pays for each. Loaded by the hook in
such a process. It is told by Python's audit events (PEP 578), before its first line, of each file that is executed, of
functions that came by pickle, and of an exception that nobody catches; nothing is traced. The agent asks a process
that lives for longer to join anyway.

What does not wait: the program itself, the ranks of a launcher, children of a process that has joined by fork, and
everything when a breakpoint could be anywhere (`wanted` in door/breakpoints.py).
"""

# debugpy has no types, and this is where it is imported.
# ruff: noqa: ANN401
# mypy: disable-error-code="import-not-found"

from __future__ import annotations

import os
import sys
import threading
from _json import encode_basestring_ascii as quoted

from . import exits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, ClassVar, FrozenSet, List, Optional, Sequence, Tuple

    from .member import Member

#: Origins (see contract.py) of processes that have executed nothing yet.
STARTED = ("spawned:", "xdist:")
#: Names that so many packages have a file of that the folder counts too.
SHARED = ("__init__.py", "__main__.py")


class _State:
    """What this process waits for.

    Attributes:
        member: this process, None when it does not wait.
        version: of the file that it waits by. files: keys of those with breakpoints. more: what else is wanted.
        joiner: the thread that is joining. layers: streams whose `write` is shadowed, with what shadows it.
        hooked: audit hooks cannot be removed: there is one for good.
        looks_for_exits: whether a file that names SystemExit is one to join for.
    """

    member: Optional[Member] = None
    version = 0
    files: FrozenSet[str] = frozenset()
    more: FrozenSet[str] = frozenset()
    joiner = 0
    layers: ClassVar[List[Tuple[Any, Any]]] = []
    hooked = False
    looks_for_exits = False


def version(member: Member, rank_names: Sequence[str]) -> int:
    """Return by which version of the agent's file this process may wait; 0: it has to join at once.

    Args:
        rank_names: environment variables by which launchers number their ranks.
    """
    found = _read(member.directory)
    if member.origin.startswith("rank:"):
        return 0
    if member.origin and not member.origin.startswith(STARTED):  # forked: it has executed what its parent has
        waits = _State.member is not None and not member.joined and found[0] == _State.version
        _State.member = None
        return found[0] if waits else 0
    if not found[0] or not _is_child(member.directory, rank_names):
        return 0
    return found[0]


def begin(member: Member, version: int) -> bool:
    """Wait from now on; return whether it may, as the file has not changed since `version`."""
    found = _read(member.directory)
    if found[0] != version:
        return False
    _State.version, _State.more, _State.files = found
    _State.joiner, _State.member = 0, member
    if not _State.hooked:
        _State.hooked = True
        sys.addaudithook(_look)
        _watch_threads()
    if "output" in _State.more:
        _watch_output()
    _State.looks_for_exits = not _State.more.isdisjoint(("exits", "every-exit"))
    if _State.looks_for_exits:
        exits.watch(_join_unless_joined, every="every-exit" in _State.more)
        # A worker of multiprocessing executes the script that it came from, but not what ends it.
        _State.looks_for_exits = "--multiprocessing-fork" not in member.words
    return True


def _look(event: str, args: Tuple[Any, ...]) -> None:
    if event in {"exec", "code.__new__", "sys.excepthook"}:
        member = _State.member
        if member is None or _State.joiner == threading.get_ident():
            return
        try:
            if event == "sys.excepthook":
                _uncaught(member, args[1:4])
            elif _has_breakpoints(args[1] if event == "code.__new__" else args[0].co_filename) or (
                _State.looks_for_exits and event == "exec" and exits.may_raise(args[0])
            ):
                _join(member)
        except Exception as error:  # it would be the program's
            member.say("waiting: %r" % (error,))


def _has_breakpoints(path: str) -> bool:
    name = os.path.basename(path).lower()
    if name not in _State.files and name not in SHARED and not os.path.islink(path):
        return False
    if exits.is_of_standard_library(path):
        return False  # the program's own file of the same name is meant
    return bool({name, _key(path), _key(os.path.realpath(path))} & _State.files)


def _key(path: str) -> str:
    """A relative path is one below the working folder."""
    return key(os.path.abspath(path).lower().split(os.sep))


def key(parts: List[str]) -> str:
    """Return by what a file is known however it is reached: its name, with its folder's where many have that name.

    Args:
        parts: of its path, in lower case. Also those of the agent's file of breakpoints.
    """
    return "/".join(parts[-2:]) if parts[-1] in SHARED else parts[-1]


def _join(member: Member) -> bool:
    """Join, or be joined by the agent's wish a moment ago, and wait for the editor's breakpoints."""
    _State.joiner = threading.get_ident()
    _watch_output_no_more()
    try:
        answer = member.join(True)
        member.say(answer)
        if not answer.startswith(("joined", "already joined")):
            return False
        _State.member = None
        if answer == "already joined":
            from . import join

            join.until_configured(member.directory)
        else:
            member.waits = 0
            member.announce()  # the agent asks, and knows it then
    finally:
        _State.joiner = 0
    return True


def _join_unless_joined() -> None:
    member = _State.member
    if member is None or member.joined or _State.joiner == threading.get_ident():
        return
    try:
        _join(member)
    except Exception as error:  # it would be the program's
        member.say("waiting: %r" % (error,))


def _uncaught(member: Member, failure: Any) -> None:
    if member.joined or "uncaught" not in _State.more or failure[2] is None:
        return  # pydevd sees it, or nobody wants to
    if not issubclass(failure[0], (SystemExit, KeyboardInterrupt)) and _join(member):
        from . import crash

        crash.stop(failure)


def _watch_threads() -> None:
    """Look at exceptions that nobody catches in a thread too; there is no audit event of them."""

    def excepthook(details: Any) -> None:
        member = _State.member
        if member is not None:
            try:
                _uncaught(member, (details.exc_type, details.exc_value, details.exc_traceback))
            except Exception as error:
                member.say("waiting: %r" % (error,))
        former(details)

    former, threading.excepthook = threading.excepthook, excepthook


def _watch_output() -> None:
    """Join at the first print, where it goes to the same place as the parent's: the editor shows it."""
    for number, stream in ((1, sys.__stdout__), (2, sys.__stderr__)):
        try:
            own, parents = os.fstat(number), os.stat("/proc/%d/fd/%d" % (os.getppid(), number))
            if stream is None or (own.st_dev, own.st_ino) != (parents.st_dev, parents.st_ino):
                continue  # somebody reads it, or wants it in a file
            for layer in (stream, stream.buffer):
                if "write" not in layer.__dict__:
                    layer.write = _joining(layer)  # type: ignore[method-assign]
        except (OSError, AttributeError):
            continue


def _joining(layer: Any) -> Any:
    original = layer.write

    def write(data: Any) -> Any:
        if layer.__dict__.get("write") is not write:  # called by what has taken its place (output.py)
            return original(data)
        _watch_output_no_more()
        member = _State.member
        if member is not None and _State.joiner != threading.get_ident():
            try:
                _join(member)
            except Exception as error:
                member.say("waiting: %r" % (error,))
        return layer.write(data)

    _State.layers.append((layer, write))
    return write


def _watch_output_no_more() -> None:
    while _State.layers:
        layer, write = _State.layers.pop()
        if layer.__dict__.get("write") is write:
            del layer.write


def _read(directory: str) -> Tuple[int, FrozenSet[str], FrozenSet[str]]:
    try:
        with open(directory + "/breakpoints", encoding="utf-8", errors="surrogateescape") as source:
            lines: List[str] = source.read().splitlines()
        return int(lines[0]), frozenset(lines[1].split()), frozenset(lines[2:])
    except (OSError, ValueError, IndexError):
        return 0, frozenset(), frozenset()


def _is_child(directory: str, rank_names: Sequence[str]) -> bool:
    """Whether a Python process of the session has started this one, and not as another rank than itself."""
    pid = os.getppid()
    for _ in range(32):
        if pid <= 1:
            return False
        try:
            with open("%s/p/%d.json" % (directory, pid)) as source:
                parent = source.read()
        except OSError:
            pid = _parent(pid)
            continue
        pairs = [
            "%s:%s" % (quoted(name), quoted(os.environ[name])) for name in rank_names if name in os.environ
        ]
        return all(pair in parent for pair in pairs)
    return False


def _parent(pid: int) -> int:
    try:
        with open("/proc/%d/stat" % pid, "rb") as source:
            return int(source.read().rpartition(b")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        return 0
