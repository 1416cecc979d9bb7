"""Attach as F5 does, and wait for a stop in the user's own code."""

from __future__ import annotations

import ast
import contextlib
import time
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import TYPE_CHECKING

from dkdbg.dap.debugger import Debugger
from dkdbg.errors import EXIT_TIMEOUT, DkdbgError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from dkdbg.dap.values import AttachOptions, Frame, Stop
    from dkdbg.proof.first_lines import FirstLines

#: Timeout in seconds for a stop in a function, after a stop in a module's own code.
FUNCTION_TIMEOUT_S = 60.0
#: Groups that pydevd lists among the variables of a scope.
_GROUPS = ("special variables", "function variables", "class variables", "protected variables")
_IDENTITY = (
    "[__import__('sys').executable, __import__('platform').python_version(), __import__('os').getuid()]"
)
#: Maximum stops in modules' own code while waiting for one in a function; a package may have hundreds of files.
_MAX_STOPS = 2000
#: Seconds between two calls of `check` or `is_idle`.
_CHECK_INTERVAL_S = 5.0
_MODULE = "<module>"
#: Maximum number of functions to stop at by name.
_MAX_NAMES = 300


@dataclass(frozen=True, kw_only=True)
class Stopped:
    """A stop in the user's own code.

    Attributes:
        path, line: position on this machine.
        function: name of the function; `<module>` for a module's own code.
        is_function: whether it is a function, not the body of a module or class.
        values: local variables, as text.
        process: name of the process.
        executable, python, uid: its interpreter, Python version and user id.
    """

    path: str
    line: int
    function: str
    is_function: bool = True
    values: dict[str, str] = field(default_factory=dict)
    process: str = ""
    executable: str = ""
    python: str = ""
    uid: int = -1


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """The result of an attach.

    Attributes:
        stopped: the best stop; None if nothing stopped.
        loaded: (module, file) of each loaded module whose file has the name of one of the user's files.
        why: why the wait ended.
        has_ended: whether all programs have ended.
    """

    stopped: Stopped | None
    loaded: tuple[tuple[str, str], ...]
    why: str
    has_ended: bool


def copy_of(
    options: AttachOptions, files: Sequence[FirstLines], *, timeout: float, check: Callable[[str], None]
) -> None:
    """Attach, and find functions with the user's names in files with the user's file names, wherever those files are.

    Args:
        timeout: maximum seconds to wait.
        check: called at the first such stop, with the file's path as the editor sees it; the program is stopped then.

    Raises:
        DkdbgError: the attach failed.
    """
    names = {name for each in files for name, _ in each.functions if not name.startswith("__")}
    stems = {PurePath(each.path).name for each in files}
    end = time.monotonic() + timeout
    with Debugger(replace(options, just_my_code=False)) as debugger:
        debugger.set_functions(sorted(names)[:_MAX_NAMES])
        debugger.attach()
        for _ in range(_MAX_STOPS):
            try:
                found = debugger.wait_stopped(max(0.1, end - time.monotonic()))
            except DkdbgError:
                return
            top = next(iter(debugger.stack(found, levels=1)), None)
            if top is not None and top.path is not None and PurePath(top.path).name in stems:
                check(top.path)
                return
            debugger.continue_(found)


def stop(
    options: AttachOptions,
    files: Sequence[FirstLines],
    *,
    timeout: float,
    check: Callable[[bool], bool],
    is_idle: Callable[[], bool],
) -> Attempt:
    """Attach, set breakpoints in the first lines, and return the first stop in a function, otherwise in a module.

    The program continues afterwards.

    Args:
        timeout: maximum seconds until the first stop.
        check: called at intervals before the first stop, and with True at the end; returns whether to give up.
        is_idle: called at intervals after the first stop; returns whether the program waits, for example for requests.

    Raises:
        DkdbgError: the attach failed.
    """
    best: Stopped | None = None
    loaded: tuple[tuple[str, str], ...] = ()
    why, has_ended = "", False
    own = {each.path: each.module for each in files}
    with Debugger(options) as debugger:
        for each in files:
            lines = {line for _, line in each.functions} | ({each.module} if each.module else set())
            debugger.set_breakpoints(each.path, sorted(lines))
        debugger.attach()
        end = time.monotonic() + timeout
        for _ in range(_MAX_STOPS):
            left = max(0.1, end - time.monotonic())
            try:
                found = debugger.wait_stopped(min(left, _CHECK_INTERVAL_S))
            except DkdbgError as error:
                why, has_ended = error.message, error.exit_code != EXIT_TIMEOUT
                is_last = has_ended or time.monotonic() >= end
                if is_last or (check(False) if best is None else is_idle()):
                    break
                continue
            top = next(iter(debugger.stack(found, levels=1)), None)
            if top is None:
                pass
            elif top.path in own:
                # A class that begins in the module's first line stops there again, in the frame of the class body.
                is_function = top.name != _MODULE and top.line != own[top.path]
                if best is None or is_function:
                    best = replace(_described(debugger, found, top), is_function=is_function)
                    loaded = _loaded(debugger, top, own)
                if best.is_function:
                    break
                end = time.monotonic() + FUNCTION_TIMEOUT_S
            elif best is None and check(False):
                why = f"it stopped in {top.path}, which is not one of your files"
                break
            debugger.continue_(found)
        if best is None:
            check(True)
    return Attempt(stopped=best, loaded=loaded, why=why, has_ended=has_ended)


def _loaded(debugger: Debugger, frame: Frame, own: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Return (module, file) of each loaded module whose file has the name of one of the user's files."""
    names = sorted({PurePath(each).name for each in own} - {"__init__.py", "__main__.py"})
    code = (
        "[(n, f) for n, f in [(n, getattr(m, '__file__', None)) for n, m in list(__import__('sys').modules.items())]"
        f" if isinstance(f, str) and f.rpartition('/')[2] in {names!r}]"
    )
    pairs = [each for each in _evaluated(debugger, code, frame) if isinstance(each, tuple) and len(each) == 2]
    return tuple(sorted((str(module), str(file)) for module, file in pairs))


def _evaluated(debugger: Debugger, expression: str, frame: Frame) -> list[object]:
    """Return the list that an expression evaluates to in the program; empty for other answers, which are untrusted."""
    errors = (DkdbgError, ValueError, TypeError, SyntaxError, MemoryError, RecursionError)
    with contextlib.suppress(*errors):
        found = ast.literal_eval(debugger.evaluate(expression, frame, context="clipboard"))
        return found if isinstance(found, list) else []
    return []


def _described(debugger: Debugger, stop: Stop, frame: Frame) -> Stopped:
    values = {
        name: " ".join(value.split())[:200]
        for name, value in debugger.local_values(frame).items()
        if name not in _GROUPS
    }
    match _evaluated(debugger, _IDENTITY, frame):
        case [str(executable), str(python), int(uid)]:
            pass
        case _:  # the program has replaced one of these modules
            executable, python, uid = "", "", -1
    return Stopped(
        path=frame.path or "", line=frame.line, function=frame.name, values=values, process=stop.session.name,
        executable=executable, python=python, uid=uid,
    )  # fmt: skip
