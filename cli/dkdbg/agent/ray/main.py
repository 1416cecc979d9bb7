"""The agent's verb `ray`: lists the workers of a cluster that wait for a debugger, or runs the proxy for them.

The default dashboard is that of this node's cluster. With --token, the first line of standard input is Ray's token. The
output is one line of JSON; after a failure, its `error` has the reason.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import threading
import time

from dkdbg.agent import console, contract
from dkdbg.agent.proxy.listener import containers, listener, local_users, peers
from dkdbg.agent.ray import dashboard, guard
from dkdbg.agent.ray.editor import Editor
from dkdbg.agent.ray.worker_registry import WorkerRegistry
from dkdbg.agent.state import kept, records, runtime_dir

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from typing import Any, Dict, List, Set

    from dkdbg.agent.dap import frames
    from dkdbg.agent.ray.worker_registry import WorkerEntry

#: Seconds until the proxy exits: if no client ever comes, and after the last client has left.
FIRST_IDLE_S, IDLE_S = 120.0, 10.0
#: Seconds to wait for the name of a worker's task before the worker is listed without it.
_NAMED_WITHIN_S = 2.0
#: Folder of the proxies' records below the runtime folder, separate from the sessions of programs.
FOLDER = "ray"
_USAGE = "usage: dkdbg.agent ray proxies | list | proxy [--dashboard [HOST:]PORT] [--name NAME] [--token]\n"


def main(argv: List[str]) -> int:
    """Run the verb; return the exit code."""
    what = argv[0] if argv else ""
    what = {"door": "proxy", "doors": "proxies"}.get(what, what)  # names of these verbs up to 0.1
    if what == "proxies":
        print(json.dumps([dict(each, live=records.is_live(each)) for each in _records()]))
        return 0
    if what not in ("list", "proxy"):
        sys.stderr.write(_USAGE)
        return 2
    where = _value(argv, "--dashboard") or str(dashboard.DEFAULT_PORT)
    host, _, port = where.rpartition(":")
    token = sys.stdin.readline(8192).strip() if "--token" in argv else ""
    try:
        found = dashboard.reached([host] if host else dashboard.hosts(), int(port), token)
        if what == "list":
            return _say(
                {
                    "workers": _listed(found),
                    "dashboard": "%s:%d" % (found.host, found.port),
                }
            )
        found.workers()
    except dashboard.DashboardError as error:
        return _say({"error": {"kind": error.kind, "text": str(error)}})
    return _open(found, _value(argv, "--name") or "ray")


def _records() -> List[contract.Record]:
    """Return the records of running and ended proxies on this machine."""
    folders = [os.path.join(each, FOLDER) for each in runtime_dir.folders()]
    return [each for folder in folders for each in records.list_records(folder)]


def _listed(found: dashboard.Dashboard) -> List[Dict[str, Any]]:
    """Return the workers that wait for a client or have one through a proxy, with their position if held."""
    live = [each for each in _records() if records.is_live(each)]
    taken = {
        each["name"]: each["stopped"] for record in live for each in record["processes"] if each["joined"]
    }
    joinable = {worker for run in guard.runs() for worker in run.workers}
    return [
        dict(each.as_json(), attached=each.name in taken, stopped=taken.get(each.name, ""))
        for each in _named(found, joinable if taken else set())
        if each.paused or each.name in taken
    ]


def _named(found: dashboard.Dashboard, also: Set[str]) -> List[dashboard.Worker]:
    """Return the waiting workers; wait a moment for the names of their tasks, which Ray reports after about a second.

    Args:
        also: see `Dashboard.workers`.
    """
    called = {worker: name for run in guard.runs() for worker, name in run.workers.items()}
    end = time.monotonic() + _NAMED_WITHIN_S
    while True:
        workers = found.workers(also)
        for each in workers:
            each.called = called.get(each.id, "")
        if all(each.is_named for each in workers) or time.monotonic() > end:
            return workers
        time.sleep(0.25)


def _open(found: dashboard.Dashboard, name: str) -> int:
    """Start the proxy in the background, and print its port."""
    reads, writes = os.pipe()
    child = os.fork()
    if child:
        os.close(writes)
        os.waitpid(child, 0)
        with os.fdopen(reads) as answer:
            line = answer.read()
        sys.stdout.write(line)
        return 0 if line else 1
    code = 1
    try:
        os.setsid()
        if os.fork():
            os._exit(0)
        nothing = os.open(os.devnull, os.O_RDWR)
        for file in (0, 1, 2):
            os.dup2(nothing, file)
        hold = kept.hold_own()
        proxy = RayProxy(found, name)
        with os.fdopen(writes, "w") as out:
            out.write(json.dumps({"port": proxy.port, "id": proxy.store.id}) + "\n")
        os.chdir("/")
        proxy.run()
        if hold is not None:
            hold.release()
        code = 0
    finally:
        os._exit(code)


class RayProxy:
    """The proxy in front of a cluster's workers; listens on loopback, for processes of the same user.

    Raises:
        OSError, RuntimeDirError: no port is free, or the record's folder cannot be created.
    """

    def __init__(self, found: dashboard.Dashboard, name: str) -> None:
        self._editors: Set[Editor] = set()
        self._lock = threading.Lock()
        self._left = time.monotonic()
        self._over = threading.Event()
        self._calls = 0
        self._registry = WorkerRegistry(found, self._changed)
        self._registry.is_watched = lambda: any(each.is_attached for each in self._all())
        folder = os.path.join(runtime_dir.open_runtime_dir(), FOLDER)
        os.makedirs(folder, mode=0o700, exist_ok=True)
        records.prune(folder)
        self._listener = listener.Listener(
            contract.LOOPBACK, 0, serve=self._serve, ready=lambda: True, status=self._status, allow=peers.AllowList(),
            users=local_users.of_this_agent(os.environ), outsiders=containers.WAY_OUT, log=console.log,
        )  # fmt: skip
        self.port = self._registry.port = self._listener.port
        self.store = records.SessionStore(folder, name)
        record = records.first_record(
            session_id=self.store.id,
            name=name,
            host=contract.LOOPBACK,
            port=self.port,
            debugpy="",
            argv=["ray"],
        )
        self.store.create(record)
        self.store.update(state="running", adapter_up=True, mappings=[])

    def run(self) -> None:
        """Serve until no client has been connected for a while, or until a signal."""
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda *_: self._over.set())
        self._listener.start()
        threading.Thread(target=self._registry.run, name="dkdbg ray", daemon=True).start()
        calls, grace = 0, FIRST_IDLE_S
        while not self._over.wait(1.0):
            if self._listener.connections or self._calls != calls:
                self._left, calls, grace = time.monotonic(), self._calls, IDLE_S
            elif time.monotonic() - self._left > grace:
                break
        self._registry.stop()
        for editor in self._all():
            editor.end()
        self._listener.drain(1.0)
        self._listener.stop()
        self.store.update(state="exited", exit_code=0, client=False, processes=[])
        self.store.finish()

    def _all(self) -> List[Editor]:
        with self._lock:
            return list(self._editors)

    def _serve(self, sock: socket.socket, first: bytes, parser: frames.FrameParser) -> None:
        editor = Editor(sock, self._registry)
        with self._lock:
            self._editors.add(editor)
        try:
            editor.serve(first, parser)
        finally:
            with self._lock:
                self._editors.discard(editor)

    def _changed(self, entries: List[WorkerEntry], why: str) -> None:
        editors = self._all()
        for editor in editors:
            with contextlib.suppress(OSError):
                editor.update(entries)
        attached = any(each.is_attached for each in editors)
        processes = [
            _process(each) for each in entries if each.worker.paused or each.is_taken or each.guarded
        ]
        self.store.update(
            state="attached" if attached else "running", client=attached, processes=processes, detail=why
        )

    def _status(self) -> Dict[str, Any]:
        self._calls += 1
        record: Dict[str, Any] = dict(self.store.snapshot())
        record.pop("argv")
        return record


def _process(entry: WorkerEntry) -> contract.Process:
    worker = entry.worker
    return {
        "pid": entry.forked or worker.pid, "argv": [], "started": 0.0, "spread": True, "rank": None, "joined": entry.is_taken,
        "state": "breakpoint" if worker.paused and not entry.is_taken else "", "detail": "", "expires": None, "origin": "",
        "name": entry.name, "stopped": entry.stopped,
    }  # type: ignore[typeddict-item]  # fmt: skip


def _value(argv: List[str], flag: str) -> str:
    return argv[argv.index(flag) + 1] if flag in argv[:-1] else ""


def _say(what: Dict[str, Any]) -> int:
    print(json.dumps(what))
    return 1 if "error" in what else 0
