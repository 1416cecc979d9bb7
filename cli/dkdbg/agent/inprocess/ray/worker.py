"""Runs in a worker of Ray: listens for an editor before the first line of a selected task or actor.

The driver sends this file as source text, see driver.py. It wraps two methods of Ray that return the code to run next:
they know the task's or actor's name, and no user code has run yet. As with `ray.util.debugpy`, the worker listens, and
registers its port with Ray, so that Ray's lists of waiting workers include it. But it is a guard that listens on the
node's address: it requires the run's secret, and passes the connection to debugpy's adapter (../adapter.py), which has
no port. A later `breakpoint()` of Ray's finds and uses the guard's port.
"""

# ruff: noqa: ANN401

from __future__ import annotations

import contextlib
import errno
import fnmatch
import hashlib
import hmac
import importlib
import io
import json
import os
import select
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import zipfile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict

#: Seconds that a client has to answer the guard's challenge, and maximum clients that have not answered yet: other
#: users of the node may connect too.
_TIMEOUT_S, _MAX_ANSWERING = 10.0, 16
#: Temporary errors of accept(2).
_PASSING = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.ECONNABORTED, errno.EINTR)
#: Maximum seconds for the adapter to start: its first imports, on a busy node.
_START_TIMEOUT_S = 60.0
#: Seconds that a child process of the worker waits for its breakpoints, if no editor was attached when the worker began
#: to listen.
_DEADLINE_S = 30.0
#: Seconds between two checks for an attached editor, and number of checks without one after which it counts as gone: an
#: editor may leave and come back at once.
_POLL_S, _MAX_POLLS = 0.5, 6
#: Maximum seconds to wait for breakpoints.
_MAX_WAIT_S = 86400.0
_GREETING = b"dkdbg-ray "
#: Maximum characters of a name; part of the paths of folders into which Ray unpacks a `working_dir`.
_NAME, _UNPACKED = 100, "/runtime_resources/working_dir_files/"
_MODULES = "/runtime_resources/py_modules_files/"
#: Actors of Ray's own libraries (Train, Tune, Serve, Data) that run user code. Every task of Ray Data does too.
_LIBRARIES = (
    "ray.train.*.RayTrainWorker",
    "ray.tune.*.ImplicitFunc",
    "ray.serve.*.ServeReplica:*",
    "ray.data.*MapWorker*",
)


def begin(settings: Dict[str, Any], files: bytes) -> None:
    """Listen as soon as this worker runs a task or actor whose name matches; driver.py creates the arguments."""
    from ray._private import function_manager

    if any(type(each).__name__ == "_DkdbgFinder" for each in sys.meta_path):
        return  # this worker has the agent's hook, because the driver has started the cluster
    if os.environ.get("RAY_DEBUG") == "legacy":  # set by the node's `ray start`
        sys.stderr.write("dkdbg: RAY_DEBUG=legacy of this node is ignored: this worker stops in the editor\n")
        os.environ["RAY_DEBUG"] = "1"
    patterns = [each.strip().lower() for each in settings["patterns"].split(",") if each.strip()]
    opening = _Opening(settings, files)

    def watched(method: Callable[..., Any]) -> Callable[..., Any]:
        def asked(self: Any, job: Any, descriptor: Any, *more: Any, **named: Any) -> Any:
            found = method(self, job, descriptor, *more, **named)
            names = _names(descriptor)
            if any(fnmatch.fnmatchcase(name.lower(), pattern) for name in names for pattern in patterns):
                opening.open(names[-1] if names[-1] == names[0] else "%s (%s)" % (names[0], names[-1]))
            return found

        return asked

    manager = function_manager.FunctionActorManager
    manager.load_actor_class = watched(manager.load_actor_class)
    manager.get_execution_info = watched(manager.get_execution_info)


def _names(descriptor: Any) -> Any:
    """Return the names that a pattern may match: function or class, without and with module; a named actor's name."""
    cls, function, module = (
        getattr(descriptor, each, "") or "" for each in ("class_name", "function_name", "module_name")
    )
    if cls.startswith("__ray_") or (module.startswith("ray.") and not _runs_user_code(module, cls)):
        return []
    what = cls.rpartition(".")[2] if cls else function.rpartition(".")[2]
    names = [what, "%s.%s" % (module, cls or function)]
    try:
        import ray

        names.append(ray.get_runtime_context().get_actor_name() or what)
    except Exception:  # an older Ray, or one that does not report it yet
        pass
    return names


def _runs_user_code(module: str, cls: str) -> bool:
    """Tell whether a task or an actor of Ray's own libraries runs user code."""
    if not cls:
        return module.startswith("ray.data.")
    return any(fnmatch.fnmatchcase("%s.%s" % (module, cls), pattern) for pattern in _LIBRARIES)


class _Opening:
    def __init__(self, settings: Dict[str, Any], files: bytes) -> None:
        self._settings, self._files = settings, files
        self._lock = threading.Lock()
        self._done = False

    def open(self, name: str) -> None:
        """Listen once under this name, and wait for the breakpoints if an editor is attached to set them."""
        with self._lock:
            if self._done:
                return
            self._done = True
            try:
                self._listen(name)
            except Exception as error:
                sys.stderr.write(
                    "dkdbg: this worker cannot be debugged: %s: %s\n" % (type(error).__name__, error)
                )

    def _listen(self, name: str) -> None:
        from ray._private.worker import global_worker as worker
        from ray.experimental import internal_kv

        seconds = self._wait_s()
        editors = _join(self._files, seconds or _DEADLINE_S)
        with contextlib.suppress(ImportError, AttributeError):  # an older Ray
            from ray.util import debugpy as rays

            # Restore Ray's breakpoint(), which waits for an editor: debugpy has replaced it with one that does not.
            rays._override_breakpoint_hooks()
        guard = Guard(
            worker.node_ip_address, editors, self._settings["run"], bytes.fromhex(self._settings["secret"])
        )
        worker.set_debugger_port(guard.port)
        key = "%s:%s" % (self._settings["run"], worker.worker_id.hex())
        folder = os.getcwd()  # may be where Ray has unpacked a `working_dir`, for a path mapping
        lines = [name[:_NAME], folder if _UNPACKED in folder else ""]
        lines += ["%s\t%s" % each for each in _modules(self._settings["modules"])]
        internal_kv._internal_kv_put(
            key.encode(),
            "\n".join(lines).encode("utf-8", "replace"),
            overwrite=True,
            namespace=self._settings["namespace"],
        )
        if seconds:
            debugpy: Any = sys.modules["debugpy"]
            over = threading.Event()
            timer = threading.Timer(seconds, debugpy.wait_for_client.cancel)
            watcher = threading.Thread(
                target=self._watch_editor, args=(over,), name="dkdbg wait", daemon=True
            )
            for each in (timer, watcher):
                _hide(each).start()
            with worker.worker_paused_by_debugger():
                debugpy.wait_for_client()
            over.set()
            timer.cancel()

    def _watch_editor(self, over: threading.Event) -> None:
        """End the wait for breakpoints once no editor is attached to the driver."""
        debugpy: Any = sys.modules["debugpy"]
        polls = 0
        while not over.wait(_POLL_S):
            with contextlib.suppress(Exception):  # the cluster does not answer
                polls = 0 if self._wait_s() else polls + 1
                if polls >= _MAX_POLLS:
                    debugpy.wait_for_client.cancel()
                    return

    def _wait_s(self) -> float:
        """Return the seconds to wait for breakpoints, 0 without an editor; the driver updates them."""
        from ray.experimental import internal_kv

        key = ("%s-wait" % self._settings["run"]).encode()
        value = internal_kv._internal_kv_get(key, namespace=self._settings["namespace"])
        seconds = float(self._settings["wait"] if value is None else value)
        return seconds if 0.0 <= seconds <= _MAX_WAIT_S else 0.0  # any program of the cluster may write it


def _modules(sources: Any) -> Any:
    """Return the folders into which Ray has unpacked `py_modules` here, each with that on the driver's machine."""
    folders = [each for each in map(str, sys.path) if _MODULES in each]
    pairs = [(os.path.join(each, os.path.basename(source)), source) for source in sources for each in folders]
    return [each for each in pairs if os.path.isdir(each[0])]


def _monotonic() -> float:
    """Return the system's monotonic seconds; a copy of ../session.py, because this file is sent alone."""
    return time.clock_gettime(time.CLOCK_MONOTONIC)


class Guard:
    """Forwards clients that know the secret from a port on this node's address to debugpy's adapter.

    Args:
        ip: address to listen on. adapter: socket that takes passed connections. run: public name of the run.
        secret: the run's secret.
    """

    def __init__(self, ip: str, adapter: socket.socket, run: str, secret: bytes) -> None:
        self._adapter, self._run, self._secret = adapter, run, secret
        self._listener = socket.create_server(
            (ip, 0), family=socket.AF_INET6 if ":" in ip else socket.AF_INET
        )
        self.port = self._listener.getsockname()[1]
        self._answering: Any = []
        self._lock = threading.Lock()
        _hide(threading.Thread(target=self._accept, name="dkdbg guard", daemon=True)).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError as error:
                if error.errno not in _PASSING:  # the program has closed this descriptor
                    return
                time.sleep(0.05)
                continue
            serves = _hide(
                threading.Thread(target=self._serve, args=(client,), name="dkdbg guard", daemon=True)
            )
            with self._lock:  # clients in this list must not be closed meanwhile
                self._answering.append(client)
                # Close the oldest, so that another user's clients do not keep an editor out.
                while len(self._answering) > _MAX_ANSWERING:
                    with contextlib.suppress(OSError):
                        self._answering.pop(0).shutdown(socket.SHUT_RDWR)
            try:
                serves.start()
            except RuntimeError:  # the process may have no more threads (`ulimit -u`, pids.max)
                self._has_answered(client)
                client.close()

    def _serve(self, client: socket.socket) -> None:
        with client:
            knows_us = False
            with contextlib.suppress(OSError):
                knows_us = self._knows_us(client)
            if not self._has_answered(client) or not knows_us:
                return
            with contextlib.suppress(OSError):
                client.settimeout(None)
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("i", client.fileno()))
                self._adapter.sendmsg([b"c"], [rights])

    def _has_answered(self, client: socket.socket) -> bool:
        """Stop counting a client; return False if it was closed to make room for a later one."""
        with self._lock:
            was_counted = client in self._answering
            if was_counted:
                self._answering.remove(client)
        return was_counted

    def _knows_us(self, client: socket.socket) -> bool:
        number = os.urandom(32).hex()
        until = _monotonic() + _TIMEOUT_S
        client.settimeout(_TIMEOUT_S)
        client.sendall(_GREETING + ("%s %s\n" % (self._run, number)).encode())
        right = hmac.new(self._secret, number.encode(), hashlib.sha256).hexdigest().encode() + b"\n"
        received = b""
        while len(received) < len(right):
            client.settimeout(max(0.001, until - _monotonic()))
            data = client.recv(len(right) - len(received))
            if not data:
                return False
            received += data
        return hmac.compare_digest(received, right)


def _join(packed: bytes, deadline: float) -> socket.socket:
    """Make this worker and its child processes a session; return the socket on which to pass on editors' connections.

    Child processes announce themselves through the hook in the session's private folder, as below an agent. They join
    while an editor is attached to the worker (`let_join` in adapter.py).
    """
    folder = tempfile.mkdtemp(prefix="dkdbg-ray-")  # the adapter removes it
    try:
        with zipfile.ZipFile(io.BytesIO(packed)) as archive:
            archive.extractall(folder)
        return _join_in(folder, deadline)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _join_in(folder: str, deadline: float) -> socket.socket:
    files, session = os.path.join(folder, "inprocess"), os.path.join(folder, "session")
    os.makedirs(os.path.join(session, "p"))
    _enter(files, session)
    bundle: Any = importlib.import_module("_dkdbg.bundle")
    info = {
        "adapter": os.path.join(session, "p", "adapter"), "token": os.urandom(32).hex(), "ppid": os.getpid(),
        "search": [folder], "runtime": folder, "deadline": deadline,
    }  # fmt: skip
    options = {
        "debugpy": bundle.ensure_debugpy([folder], folder), "token": info["token"], "announce": 0,
        "processes": info["adapter"], "privates": os.path.join(files, "pydevd_patches", "privates.py"), "join": info,
    }  # fmt: skip
    own_end, peer_end = socket.socketpair()
    command = [sys.executable, "-I", "-S", os.path.join(files, "adapter.py")]
    pipe = subprocess.PIPE
    with peer_end, subprocess.Popen(
        command, stdin=peer_end.fileno(), stdout=pipe, stderr=subprocess.DEVNULL, start_new_session=True
    ) as process:  # the process forks the adapter and ends at once
        own_end.sendall(json.dumps(options).encode() + b"\n")
        said: Any = process.stdout
        line = said.readline() if select.select([said], [], [], _START_TIMEOUT_S)[0] else b""
    if json.loads(line or b"{}").get("serves") is not True:
        raise RuntimeError("debugpy's adapter did not start: %r" % line)
    path = os.path.join(session, "join.json")
    with open(path, "w") as out:
        json.dump(info, out)
    reason = importlib.import_module("_dkdbg.session").member().join(False)
    os.unlink(path)  # until an editor is attached to this worker, child processes must not join
    if reason != "joined":
        raise RuntimeError(reason)
    api: Any = importlib.import_module("debugpy.server.api")
    api.listen.called = True  # a later debugpy.listen() of the program fails as usual
    return own_end


def _enter(files: str, session: str) -> None:
    """Make this process a member of the session in this folder."""
    path = os.path.join(files, "entered.py")
    with open(path, "rb") as source:
        code = compile(source.read(), path, "exec", dont_inherit=True)
    names: Dict[str, Any] = {"__name__": "_dkdbg_entered", "__package__": "_dkdbg", "__file__": path}
    exec(code, names)  # noqa: S102 - our own file
    reason = names["enter"](files, session)
    if reason != names["ENTERED"]:
        raise RuntimeError(reason)


def _hide(thread: Any) -> Any:
    """Hide this thread from the debugger: it carries the debugger's own traffic."""
    thread.daemon = True
    thread.pydev_do_not_trace = thread.is_pydev_daemon_thread = True
    return thread
