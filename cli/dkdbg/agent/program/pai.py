"""What OpenPAI's paipdb does, for those who follow its debug recipe: pdb on the job's debug port, for `nc`.

`dkdbg.pai` is this file: installed, from `.dkdbg/agent.pyz` on PYTHONPATH, and below the agent, where the hook finds it. The
environment, the two lines on stderr and the exit codes are paipdb's (microsoft/pai, contrib/debug-tools/openpaipdb).
What differs: nothing is decided at import, a client types a token first, and without one of the user's it listens on
loopback and not on the node's address.
"""

# ruff: noqa: ANN401

from __future__ import annotations

import importlib
import os
import signal
import socket
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType, FrameType
    from typing import Any, Dict, List, Optional, Tuple

__all__ = ["handle_trap", "main", "post_mortem", "set_trace", "settrace"]

#: Seconds that paipdb waits for a client.
DEFAULT_TIMEOUT = 600.0
_NO_PORT = "Can not get debug port, exit"


def set_trace(
    addr: Optional[str] = None,
    port: Optional[int] = None,
    timeout: Optional[float] = None,
    frame: Optional[FrameType] = None,
) -> None:
    """Wait for a client on the job's debug port and stop at the caller's line.

    With an editor attached to the session, the editor gets the stop.

    Args:
        addr: address to listen on.
        port: TCP port instead of the job's debug port.
        timeout: seconds to wait; DEBUG_TIMEOUT by default.
        frame: where to stop instead of the caller's frame.

    Raises:
        socket.timeout: nobody came (TimeoutError since Python 3.10).
        SystemExit: 1, there is no debug port, or others could reach it and there is no DKDBG_TOKEN.
    """
    frame = frame or sys._getframe(1)
    on_demand = _on_demand()
    session = os.environ.get("DKDBG_SESSION_DIR", "")
    if session and (on_demand.editor_is_attached(session) or not (port or _job_port())):
        on_demand.set_trace(addr, port, timeout, frame)
        return
    address, seconds = _announce(addr, port, timeout)
    if not _socket_pdb().stop(frame, address, seconds, again=True):
        raise socket.timeout("No client connect to server in %g seconds" % seconds)


#: As OpenPAI's documentation has it.
settrace = set_trace


def post_mortem(addr: Optional[str] = None, port: Optional[int] = None) -> None:
    """Print the exception that is being handled, and let a client look at its frames; nobody comes: go on."""
    import traceback

    traceback.print_exc()
    address, seconds = _announce(addr, port, None)
    _socket_pdb().post_mortem(sys.exc_info(), address, seconds)


def handle_trap(addr: Optional[str] = None, port: Optional[int] = None) -> None:
    """Stop for a client whenever SIGTRAP arrives (`kill -TRAP PID`)."""

    def stop(_number: int, frame: Optional[FrameType]) -> None:
        set_trace(addr, port, frame=frame)

    signal.signal(signal.SIGTRAP, stop)


def main(words: Optional[List[str]] = None) -> int:
    """Run `SCRIPT [ARGUMENTS]` under a pdb that a client has to come to first; return the exit code.

    As with paipdb the program starts anew when it has finished, until the client quits. A client that goes away lets
    the program run to its end.
    """
    words = sys.argv[1:] if words is None else words
    if not words:
        sys.stderr.write("usage: python -m dkdbg.pai SCRIPT [ARGUMENTS]\n")
        return 2
    with open(words[0], "rb") as source:
        code = compile(source.read(), words[0], "exec")
    address, seconds = _announce(None, None, None)
    socket_pdb = _socket_pdb()
    client = socket_pdb.wait_for_client(address, seconds)
    if client is None:
        print("No client connect to server in %g seconds, exit" % seconds, flush=True)
        return 1
    quits: List[bool] = []

    def do_quit(_arg: str) -> bool:
        quits.append(True)
        client.set_quit()
        return True

    client.do_q = client.do_quit = client.do_exit = do_quit
    sys.path[0] = os.path.dirname(os.path.abspath(words[0]))
    while not quits and socket_pdb.is_current(client):
        sys.argv = list(words)
        _run(client, code, words[0])
        if not quits and socket_pdb.is_current(client):
            client.message("The program finished and will be restarted")
    return 0


def _run(client: Any, code: CodeType, path: str) -> None:
    """Run the program once, as `__main__`, from its first line; an exception is shown to the client."""
    import types

    program: Any = types.ModuleType("__main__")
    program.__file__ = path
    program.__builtins__ = __builtins__
    sys.modules["__main__"] = program
    try:
        client.run(code, program.__dict__)
    except SystemExit as error:
        if not _socket_pdb().is_current(client):
            raise
        client.message("The program exited via sys.exit(). Exit status: %s" % error)
    except Exception as error:
        if not _socket_pdb().is_current(client):
            raise
        client.message(
            "Uncaught exception. Entering post mortem debugging\n%s: %s" % (type(error).__name__, error)
        )
        trace: Any = error.__traceback__
        while trace.tb_next is not None and trace.tb_frame.f_code is not code:
            trace = trace.tb_next
        client.reset()
        client.interaction(None, trace)


def _announce(addr: Optional[str], port: Optional[int], timeout: Optional[float]) -> Tuple[str, float]:
    """Return `host:port` and seconds, and say them as paipdb does: people look for these lines in the log."""
    seconds = float(os.environ.get("DEBUG_TIMEOUT") or DEFAULT_TIMEOUT) if timeout is None else float(timeout)
    number = int(port or _job_port() or 0)
    if not number:
        print(_NO_PORT, flush=True)
        raise SystemExit(1)
    node = _of_task("PAI_HOST_IP_%s_%s")
    address = "%s:%d" % (addr or (node if node and _has_token() else "127.0.0.1"), number)
    try:
        where = _socket_pdb().where(_socket_pdb().listen(address))
    except _socket_pdb().Exposed as error:
        sys.stderr.write("dkdbg: %s\n" % error)
        raise SystemExit(1) from None
    host, _, opened = where.rpartition(":")  # another port when somebody else has this one
    sys.stderr.write(
        "debug host ip is set to %s, port is set to %s, timeout is set to %g\npaipdb is running on %s\n"
        % (host, opened, seconds, where)
    )
    if not addr and node and host != node:
        sys.stderr.write(
            "dkdbg: not on %s, where everybody could run code: go there by ssh first (ssh ... nc 127.0.0.1 %s), "
            "or start the job with a DKDBG_TOKEN, which is then the first line to type\n" % (node, opened)
        )
    sys.stderr.flush()
    return address, seconds


def _job_port() -> str:
    """Return the port that the job names for debugging, empty when there is none."""
    listed = os.environ.get("DEBUG_PORT", "") or os.environ.get("DKDBG_PDB", "").rpartition(":")[2]
    if not listed:
        label = os.environ.get("DEBUG_PORT_NAME") or "debug"
        listed = _of_task("PAI_PORT_LIST_%s_%s_" + label.replace("%", "%%"))
        listed = listed or os.environ.get("PAI_CONTAINER_HOST_%s_PORT_LIST" % label, "")
    return listed.split(",")[0].strip()


def _of_task(form: str) -> str:
    """Return the variable that OpenPAI names after the task role and the task's index."""
    env: Dict[str, str] = dict(os.environ)
    role = env.get("PAI_CURRENT_TASK_ROLE_NAME") or env.get("FC_TASKROLE_NAME", "")
    # The first one is gone since OpenPAI 1.0.
    names = ("PAI_TASK_ROLE_INDEX", "PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX", "PAI_TASK_INDEX")
    index = next((env[name] for name in names if env.get(name)), "")
    return env.get(form % (role, index), "") if role and index else ""


def _has_token() -> bool:
    return bool(_beside("pdb_token").is_named(os.environ))


def _on_demand() -> Any:
    """Return on_demand.py: the one by which the hook has found this file, or the installed one."""
    found = sys.modules.get("_dkdbg.on_demand")
    if found is None:
        from dkdbg.agent.program import on_demand

        found = on_demand.of_this_process()
    return found


def _socket_pdb() -> Any:
    return _beside("socket_pdb")


def _beside(name: str) -> Any:
    """Return the file of this name beside on_demand.py."""
    return importlib.import_module("%s.%s" % (_on_demand().__package__, name))


if __name__ == "__main__":
    sys.exit(main())
