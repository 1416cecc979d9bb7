"""`dkdbg.breakpoint()`: stop at this line, in any process or thread below the agent, when an editor is attached.

The hook loads this module at the first call. On any error the program continues; DKDBG_DEBUG=1 shows the error. Outside
of a session, nothing happens.
"""

# debugpy is untyped.
# ruff: noqa: ANN401
# mypy: disable-error-code="no-untyped-call, import-not-found"

from __future__ import annotations

import os
import sys
import time

from . import session
from .session import editor_is_attached, endpoint, record, say

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType, ModuleType
    from typing import Any, Optional

#: Seconds between two checks for an editor.
INTERVAL_S = 0.05

#: True once a wait has timed out. After that, breakpoints do not wait: one in a loop would delay each iteration.
_ran_out = False


def breakpoint(*_args: object, **_kwargs: object) -> None:  # noqa: A001 - the name is the built-in's
    """Stop at the caller's line. Without an editor, wait DKDBG_BREAKPOINT_WAIT seconds for one, then continue."""
    set_trace(frame=sys._getframe(1))


def set_trace(
    addr: Optional[str] = None,
    port: Optional[int] = None,
    timeout: Optional[float] = None,
    frame: Optional[FrameType] = None,
    **_kwargs: object,
) -> None:
    """Stop at the caller's line, as `breakpoint()` does.

    With a port, wait for a pdb client over TCP if no editor is attached.

    Args:
        addr: address to listen on for pdb, loopback by default.
        port: TCP port for pdb (`nc ADDR PORT`).
        timeout: seconds to wait for a client; the session's by default.
        frame: where to stop instead of the caller's frame.
    """
    address = "%s:%d" % (addr or "127.0.0.1", port) if port else os.environ.get("DKDBG_PDB", "")
    seconds = _seconds(os.environ.get("DKDBG_BREAKPOINT_WAIT", "")) if timeout is None else float(timeout)
    _stop(frame or sys._getframe(1), seconds, address, there=bool(port))


#: Another name for it, from OpenPAI's documentation of paipdb.
settrace = set_trace


def find_spec(name: str) -> Any:
    """Return the spec of `dkdbg`, `dkdbg.pai` or `paipdb` for the hook's finder."""
    import importlib.util
    from importlib.machinery import ModuleSpec

    from . import standard

    if name == "dkdbg":
        return ModuleSpec(name, _Loader(), is_package=True)  # type: ignore[arg-type]
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "pai.py")
    return importlib.util.spec_from_file_location(name, path, loader=standard.loader(name, path))


class _Loader:
    """Loader that creates `dkdbg` from this module."""

    def create_module(self, spec: Any) -> None:
        """Use Python's default."""

    def exec_module(self, module: Any) -> None:
        module.breakpoint, module.set_trace, module.settrace = breakpoint, set_trace, settrace


def _stop(frame: FrameType, seconds: float, pdb_address: str, *, there: bool = False) -> None:
    directory = os.environ.get("DKDBG_SESSION_DIR", "")
    if not directory or not os.path.isdir(directory):
        return
    from . import choosing

    if choosing.runs_free(directory):
        return
    try:
        if pdb_address and not editor_is_attached(directory):
            from .pdb import socket_pdb

            socket_pdb.stop(frame, pdb_address, seconds, there=there)
        elif _editor_comes(directory, seconds, frame):
            reason = connect(directory)
            if reason:
                say("no stop at %s: %s" % (place(frame.f_code.co_filename, frame.f_lineno), reason))
            else:
                import pydevd

                pydevd.settrace(
                    suspend=True,
                    trace_only_current_thread=True,
                    patch_multiprocessing=False,
                    notify_stdin=False,
                    stop_at_frame=frame,
                )
    except Exception as error:
        if os.environ.get("DKDBG_DEBUG"):
            say("breakpoint: %r" % (error,))


def _editor_comes(directory: str, seconds: float, frame: FrameType) -> bool:
    global _ran_out  # noqa: PLW0603
    if editor_is_attached(directory):
        _ran_out = False
        return True
    if _ran_out:
        return False
    where = place(frame.f_code.co_filename, frame.f_lineno)
    if seconds > 0:
        limit = "" if seconds == float("inf") else ", up to %g s" % seconds
        say("breakpoint at %s: waiting for a debugger on %s%s" % (where, endpoint(directory), limit))
        if await_editor(directory, seconds, "breakpoint", where):
            return True
    _ran_out = True
    waited = " within %g s" % seconds if seconds > 0 else ""
    say("breakpoint at %s: no debugger%s, going on (attach on %s)" % (where, waited, endpoint(directory)))
    return False


def await_editor(directory: str, seconds: float, state: str, detail: str) -> bool:
    """Wait for an editor. Meanwhile a note in the session's folder tells the agent the reason.

    Args:
        directory: the session's folder.
        seconds: maximum seconds to wait; `inf` for no limit.
        state: `breakpoint` or `post-mortem`.
        detail: position, and the exception if any, in one line.

    Returns:
        Whether an editor is attached. False after the limit, or if the agent has ended.
    """
    end = session.monotonic() + seconds
    write_wait(directory, state, detail, None if seconds == float("inf") else time.time() + seconds)
    next_check = session.monotonic() + 1
    try:
        while not editor_is_attached(directory):
            now = session.monotonic()
            if now >= end:
                return False
            if now >= next_check:
                next_check = now + 1
                if not _agent_lives(directory):
                    return False
            time.sleep(min(INTERVAL_S, max(0.001, end - now)))
    finally:
        write_wait(directory, "", "", None)
    return True


def connect(directory: str) -> str:
    """Join the adapter, unless joined, and wait for the editor's session; return "", or why that failed."""
    from . import join

    member = session.member()
    answer = join.join(directory, False) if member is None else member.join(False)
    if not answer.startswith(("joined", "already joined")):
        return answer
    return join.until_configured(directory)


def write_wait(directory: str, state: str, detail: str, expires: Optional[float]) -> None:
    """Record in `p/PID.note` what this process waits for; an empty state removes the note."""
    import json

    path = os.path.join(directory, "p", "%d.note" % os.getpid())
    try:
        if not state:
            os.unlink(path)
            return
        with open(path + ".tmp", "w") as out:
            json.dump({"state": state, "detail": detail, "expires": expires}, out)
        os.rename(path + ".tmp", path)
    except OSError:
        pass  # the session may have ended


def place(path: str, line: int) -> str:
    """Return `file:line`, relative to the working directory where possible."""
    prefix = os.getcwd() + os.sep
    return "%s:%d" % (path[len(prefix) :] if path.startswith(prefix) else path, line)


def of_this_process() -> ModuleType:
    """Return the hook's copy of this module, or this one without a hook: the state in it must exist only once."""
    member = session.member()
    return sys.modules[__name__] if member is None else member.module("on_demand")


def _seconds(text: str) -> float:
    if text == "forever":
        return float("inf")
    try:
        return max(0.0, float(text))
    except ValueError:
        return 0.0


def _agent_lives(directory: str) -> bool:
    try:
        os.kill(int(record(directory)["pid"]), 0)
    except (KeyError, ProcessLookupError):
        return False
    except OSError:
        pass
    return True
