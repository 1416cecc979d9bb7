"""OpenPAI's paipdb for users of its debug recipe: pdb on the job's debug port, for `nc`, or DAP.

`import dkdbg.pai` and `import paipdb` find this file where dkdbg is installed, where `.dkdbg/agent.pyz` or the job's
own copy is on PYTHONPATH, and below the agent (through the hook). The environment variables and the two lines on stderr
are paipdb's (microsoft/pai, contrib/debug-tools/openpaipdb). Differences: this reads the environment at each call
instead of at import, and a client must first type a token. If the user has set no token, one is generated, printed in
the job's log, and valid for one client.
"""

# ruff: noqa: ANN401

from __future__ import annotations

import _thread
import errno
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

#: Seconds for which paipdb waits for a client.
DEFAULT_TIMEOUT = 600.0
#: Held while dkdbg's modules are imported: in an import cycle another thread would get a partly initialized module.
_importing = _thread.RLock()
_NO_PORT = "Can not get debug port, exit"
#: Exit codes if no client connects: paipdb's own for `-m paipdb`, dkdbg's for `-m dkdbg.pai`.
NO_CLIENT_PAIPDB, NO_CLIENT = 1, 124
_USAGE = "usage: python -m %s [--dap] SCRIPT [ARGUMENTS] | [--dap] -m MODULE [ARGUMENTS] | --dap -- COMMAND\n"
_WHERE = "debug host ip is set to %s, port is set to %s, timeout is set to %g\n"
_LOOPBACK = "127.0.0.1"
_READS_ALONG = (
    "dkdbg: anyone who reads this log can use the port before you; to keep the token out of the log, set DKDBG_TOKEN from the "
    "job's `secrets`\n"
)
#: Path of the whole agent, of which this file is only a part; looked for in a folder and the folders above it.
_AGENT = os.path.join(".dkdbg", "agent.pyz")


def set_trace(
    addr: Optional[str] = None,
    port: Optional[int] = None,
    timeout: Optional[float] = None,
    frame: Optional[FrameType] = None,
) -> None:
    """Wait for a client on the job's debug port and stop at the caller's line.

    If an editor is attached to the session, stop in the editor instead.

    Args:
        addr: address to listen on.
        port: TCP port instead of the job's debug port.
        timeout: seconds to wait; DEBUG_TIMEOUT by default.
        frame: where to stop instead of the caller's frame.

    Raises:
        socket.timeout: no client came (TimeoutError since Python 3.10).
        SystemExit: code 1: the job has no debug port, or the token's file cannot be read.
    """
    frame = frame or sys._getframe(1)
    on_demand = _on_demand()
    session = os.environ.get("DKDBG_SESSION_DIR", "")
    if session and (on_demand.editor_is_attached(session) or not (port or _job_port())):
        on_demand.set_trace(addr, port, timeout, frame)
        return
    address, seconds = _announce(addr, port, timeout)
    if not _socket_pdb().stop(frame, address, seconds, again=True, there=port is not None):
        raise socket.timeout("No client connect to server in %g seconds" % seconds)


#: The name in OpenPAI's documentation.
settrace = set_trace


def post_mortem(
    addr: Optional[str] = None, port: Optional[int] = None, timeout: Optional[float] = None
) -> None:
    """Print the current exception, and let a client inspect its frames; continue if no client connects."""
    import traceback

    traceback.print_exc()
    address, seconds = _announce(addr, port, timeout)
    _socket_pdb().post_mortem(sys.exc_info(), address, seconds)


def handle_trap(
    addr: Optional[str] = None, port: Optional[int] = None, timeout: Optional[float] = None
) -> None:
    """Stop for a client whenever SIGTRAP arrives (`kill -TRAP PID`)."""

    def stop(_number: int, frame: Optional[FrameType]) -> None:
        set_trace(addr, port, timeout, frame)

    signal.signal(signal.SIGTRAP, stop)


def main(argv: Optional[List[str]] = None, called: str = "dkdbg.pai") -> int:
    """Run `SCRIPT [ARGUMENTS]` or `-m MODULE` under a pdb that first waits for a client; return the exit code.

    As with paipdb, the program starts again each time it has finished, until the client quits. If the client
    disconnects, the program runs to its end. With `--dap` first, this process becomes an agent for editors, which runs
    the script or the module; after `--dap --`, any command.

    Args:
        argv: the command line; the process's by default.
        called: the module that was run, `paipdb` or this one.
    """
    argv = sys.argv[1:] if argv is None else argv
    dap = argv[:1] == ["--dap"]
    argv = argv[1:] if dap else argv
    if dap and argv[:1] == ["--"] and len(argv) > 1:
        return _become_the_agent(argv[1:])
    is_module = argv[:1] == ["-m"] and len(argv) > 1
    if not argv or (argv[0].startswith("-") and not is_module):
        sys.stderr.write(_USAGE % called)
        return 2
    try:
        code, names = _module(argv[1]) if is_module else _script(argv[0])
    except OSError as error:
        sys.stderr.write("dkdbg: cannot read %s: %s\n" % (argv[0], error.strerror))
        return 2
    except ImportError as error:
        sys.stderr.write("dkdbg: cannot run -m %s: %s\n" % (argv[1], error))
        return 2
    if dap:
        return _become_the_agent([sys.executable, *argv])
    argv = [code.co_filename, *argv[2:]] if is_module else argv
    address, seconds = _announce(None, None, None)
    socket_pdb = _socket_pdb()
    client = socket_pdb.wait_for_client(address, seconds)
    if client is None:
        print("No client connect to server in %g seconds, exit" % seconds, flush=True)
        return NO_CLIENT_PAIPDB if called == "paipdb" else NO_CLIENT
    quits: List[bool] = []

    def do_quit(_arg: str) -> bool:
        quits.append(True)
        client.set_quit()
        return True

    client.do_q = client.do_quit = client.do_exit = do_quit
    if not is_module:
        sys.path[0] = os.path.dirname(os.path.abspath(argv[0]))
    while not quits and socket_pdb.is_current(client):
        sys.argv = list(argv)
        _run(client, code, names)
        if not quits and socket_pdb.is_current(client):
            client.message("The program finished and will be restarted")
    return 0


def _script(path: str) -> Tuple[CodeType, Dict[str, Any]]:
    """Return a script's code and the globals of its `__main__`. Raises OSError."""
    with open(path, "rb") as source:
        return compile(source.read(), path, "exec"), {"__file__": path}


def _module(name: str) -> Tuple[CodeType, Dict[str, Any]]:
    """Return code and globals of a module, or a package's `__main__`, as `python -m` does. Raises ImportError."""
    import runpy

    _, spec, code = runpy._get_module_details(name)  # type: ignore[attr-defined]  # as pdb does
    about = {
        "__file__": code.co_filename,
        "__package__": spec.parent,
        "__loader__": spec.loader,
        "__spec__": spec,
    }
    return code, about


def _run(client: Any, code: CodeType, names: Dict[str, Any]) -> None:
    """Run the program once as `__main__`, from its first line; show an exception to the client."""
    import types

    program: Any = types.ModuleType("__main__")
    program.__dict__.update(names)
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


def _become_the_agent(run: List[str]) -> int:
    """Replace this process by an agent that runs a command, for editors on the job's debug port.

    Return 2 if the whole agent is missing. If this process is already below an agent, execute only the command.
    """
    if os.environ.get("DKDBG_SESSION_DIR"):  # below an agent, which has a debug port already
        os.execvp(run[0], run)  # noqa: S606
    agent = _agent()
    if not agent:
        sys.stderr.write(
            "dkdbg: --dap needs the whole agent, which is missing here: add .dkdbg/agent.pyz (from `dkdbg init`) to the "
            "job's code or image and set DKDBG_AGENT to its path, or install dkdbg in the image; pdb without --dap needs neither\n"
        )
        return 2
    seconds, number, host = _seconds(None), _number(None), _host(None)
    token = os.environ.get("DKDBG_TOKEN") or os.environ.get("DKDBG_TOKEN_FILE")
    made = os.urandom(16).hex() if host == _node() and not token and not _is_loopback(host) else ""
    if made:
        os.environ["DKDBG_TOKEN"] = made
    os.environ.setdefault("DKDBG_ALLOW", "any")  # users are on other machines; the token protects the port
    sys.stderr.write(_WHERE % (host, number, seconds))
    if made:
        sys.stderr.write("dkdbg: the port is for an editor; its token is %s\n%s" % (made, _READS_ALONG))
        sys.stderr.flush()
    launch = ["launch", "--host", host, "--port", str(number), "--wait", "%g" % seconds, "--"]
    os.execv(sys.executable, [sys.executable, *agent, *launch, *run])  # noqa: S606
    return 0


def _agent() -> List[str]:
    """Return the arguments after `python` that run the whole agent; empty where it is missing."""
    named = os.environ.get("DKDBG_AGENT", "")
    if named:
        return [named] if os.path.isfile(named) else []
    parts = os.path.abspath(__file__).split(os.sep)
    for length in range(len(parts) - 1, 1, -1):
        path = os.sep.join(parts[:length])
        if os.path.isfile(path):  # a zip: the whole agent, or the job's copy with only this part
            import zipfile

            with zipfile.ZipFile(path) as archive:
                if "dkdbg/agent/unpack.py" in archive.namelist():
                    return [path]
    for start in (os.getcwd(), os.path.dirname(os.path.abspath(sys.argv[0]))):
        folder = start
        while True:
            if os.path.isfile(os.path.join(folder, _AGENT)) and _is_trusted(folder):
                return [os.path.join(folder, _AGENT)]
            if folder == os.path.dirname(folder):
                break
            folder = os.path.dirname(folder)
    import importlib.util

    return ["-m", "dkdbg.agent"] if importlib.util.find_spec("dkdbg.agent.supervisor") else []


def _announce(addr: Optional[str], port: Optional[int], timeout: Optional[float]) -> Tuple[str, float]:
    """Listen for a pdb client; return `host:port` and the seconds to wait.

    Print both as paipdb does, because users search the log for these lines.
    """
    seconds, number, host = _seconds(timeout), _number(port), _host(addr)
    socket_pdb, address = _socket_pdb(), "%s:%d" % (host, number)
    try:
        try:
            opened = socket_pdb.listen(address, makes_token=not addr and host == _node())
        except OSError as error:
            if addr or error.errno != errno.EADDRNOTAVAIL:
                raise
            address = "%s:%d" % (_LOOPBACK, number)
            opened = socket_pdb.listen(address)
            sys.stderr.write(
                "dkdbg: %s is not an address of this container, because the job is not in the host's network; connect inside it, through ssh: "
                "nc %s %d\n" % (host, _LOOPBACK, number)
            )
    except (OSError, ValueError, socket_pdb.Exposed) as error:
        sys.stderr.write("dkdbg: cannot wait on %s: %s\n" % (address, error))
        raise SystemExit(1) from None
    where = socket_pdb.where(opened)
    at, _, listening_port = where.rpartition(":")
    if listening_port != str(number):
        sys.stderr.write(
            "dkdbg: port %d is used by another process here: waiting on %s\n" % (number, listening_port)
        )
    sys.stderr.write(_WHERE % (at, listening_port, seconds) + "paipdb is running on %s\n" % where)
    if socket_pdb.is_once(opened):
        sys.stderr.write(_READS_ALONG)
    sys.stderr.flush()
    return address, seconds


def _seconds(timeout: Optional[float]) -> float:
    """Return the seconds to wait. Raises SystemExit (code 1): DEBUG_TIMEOUT is not a number."""
    if timeout is not None:
        return float(timeout)
    text = os.environ.get("DEBUG_TIMEOUT") or DEFAULT_TIMEOUT
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        sys.stderr.write("dkdbg: DEBUG_TIMEOUT=%s must be a number of seconds, such as 600\n" % text)
        raise SystemExit(1)
    return seconds


def _number(port: Optional[int]) -> int:
    """Return the port. Raises SystemExit (code 1): the job has no debug port, or it is not a number."""
    text = str(port or _job_port())
    if text.isascii() and text.isdigit() and len(text) < 6 and 0 < int(text) < 65536:
        return int(text)
    print(_NO_PORT, flush=True)
    sys.stderr.write(
        "dkdbg: %s; request a port in the task role (resourcePerInstance.ports: {%s: 1}, which dkdbg init --pai writes), or "
        "call settrace(port=...)\n"
        % (
            "%s is not a port" % text if text else "the platform has assigned this task no debug port",
            os.environ.get("DEBUG_PORT_NAME") or "debug",
        )
    )
    raise SystemExit(1)


def _host(addr: Optional[str]) -> str:
    """Return the address to listen on: the node's, as the job's page shows it; loopback outside of a job."""
    return addr or os.environ.get("DKDBG_HOST") or _node() or _LOOPBACK


def _node() -> str:
    """Return the node's address from the platform; empty outside of a job."""
    names = ("PAI_CONTAINER_HOST_IP", "PAI_CURRENT_CONTAINER_IP")
    return _of_task("PAI_HOST_IP_%s_%s") or next(
        (os.environ[name] for name in names if os.environ.get(name)), ""
    )


def _is_loopback(host: str) -> bool:
    return bool(_beside("pdb.loopback").is_loopback(host))


def _is_trusted(folder: str) -> bool:
    """Tell whether only this user and root can write to a folder: /tmp/.dkdbg may belong to another user."""
    for path in (folder, os.path.join(folder, ".dkdbg"), os.path.join(folder, _AGENT)):
        info = os.stat(path)
        if info.st_uid not in (0, os.geteuid()) or info.st_mode & 0o002:
            return False
    return True


def _job_port() -> str:
    """Return the job's debug port; empty without one."""
    listed = os.environ.get("DEBUG_PORT", "") or os.environ.get("DKDBG_PDB", "").rpartition(":")[2]
    if not listed:
        label = os.environ.get("DEBUG_PORT_NAME") or "debug"
        listed = _of_task("PAI_PORT_LIST_%s_%s_" + label.replace("%", "%%"))
        listed = listed or os.environ.get("PAI_CONTAINER_HOST_%s_PORT_LIST" % label, "")
    return listed.split(",")[0].strip()


def _of_task(form: str) -> str:
    """Return an OpenPAI variable of this task, empty without one; `form` is its name with `%s` for role and index."""
    env: Dict[str, str] = dict(os.environ)
    role = env.get("PAI_CURRENT_TASK_ROLE_NAME") or env.get("FC_TASKROLE_NAME", "")
    # OpenPAI 1.0 has removed the first one.
    names = ("PAI_TASK_ROLE_INDEX", "PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX", "PAI_TASK_INDEX")
    index = next((env[name] for name in names if env.get(name)), "")
    return env.get(form % (role, index), "") if role and index else ""


def _on_demand() -> Any:
    """Return the module on_demand: the hook's copy if the hook has loaded this file, else the installed one."""
    with _importing:
        found = sys.modules.get("_dkdbg.on_demand")
        if found is None:
            from dkdbg.agent.inprocess import on_demand

            found = on_demand.of_this_process()
        return found


def _socket_pdb() -> Any:
    return _beside("pdb.socket_pdb")


def _beside(name: str) -> Any:
    """Return the module of this name beside on_demand.py."""
    with _importing:
        return importlib.import_module("%s.%s" % (_on_demand().__package__, name))


if __name__ == "__main__":
    sys.exit(main(called=getattr(__spec__, "name", "")))
