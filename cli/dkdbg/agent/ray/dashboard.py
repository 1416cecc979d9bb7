"""Queries Ray's dashboard over plain HTTP for workers that wait for a debugger, and their tasks.

Ray's own debugger makes a worker listen, wait, and set a flag in the worker table (`ray/util/debugpy.py`). The query
for that flag is the one that Ray's VS Code extension sends, which the GCS (Ray's control service) answers without
reading the whole table (`ray/util/state/state_manager.py`). The answer is untrusted: each field is checked, and the
size is limited to that of a large cluster.
"""

from __future__ import annotations

import http.client
import json
import os
import socket
from urllib.parse import urlencode

from dkdbg.agent.contract import LOOPBACK
from dkdbg.agent.dap.messages import as_list, as_text
from dkdbg.agent.proxy.listener import local_users
from dkdbg.agent.ray import unpacked
from dkdbg.launchers.words import whole_number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional, Set, Tuple

DEFAULT_PORT = 8265
#: Seconds for one answer, and its maximum bytes.
_TIMEOUT_S = 5.0
_MAX_ANSWER_BYTES = 32 << 20
#: Oldest supported version of Ray: it added the debugger's field `num_paused_threads`.
OLDEST = (2, 9)
#: File with the address of the node's GCS (`ray/_private/utils.py`).
_ADDRESS_FILE = "/tmp/ray/ray_current_cluster"  # noqa: S108
#: Ray's own variables for its token (`ray/_private/authentication`).
ENV_TOKEN, ENV_TOKEN_PATH = "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"
_TOKEN_FILE = "~/.ray/auth_token"  # noqa: S105
_MAX_TOKEN = 4096
#: Suffix of the task that creates an actor.
_INIT = ".__init__"
#: Larger than any pid.
_MAX_PID = 1 << 31
#: Maximum characters of a runtime environment and of a command line.
_MAX_CHARACTERS = 1 << 16


class DashboardError(Exception):
    """The cluster cannot be queried.

    Attributes:
        kind: `unreachable`, `not-ray`, `old`, `no-state`, `token`, `wrong-token` or `foreign`; the host adds a hint for
            each.
    """

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


class Worker:
    """One worker that waits for a debugger, or whose debug port is open.

    Attributes:
        id: Ray's worker id. node: name of its node, or else the address. ip, port: address of its debugger.
        pid: its pid on its node. is_driver: whether it is a driver. paused: number of threads that wait for a debugger.
        task: name of its task; empty if unknown. actor: class of the actor that it runs; empty for a task. actor_name:
            name that the program gave the actor.
        called: name that the worker reports through dkdbg's guard (guard.py); empty without a guard.
        unpacked, main, source, modules: see `unpacked.Code`; empty while unknown.
    """

    def __init__(self, row: Dict[str, Any], *, task: str = "", actor: str = "", actor_name: str = "") -> None:
        self.id = _text(row, "worker_id")
        self.node = _text(row, "node") or _text(row, "ip")
        self.ip = _text(row, "ip")
        self.port = _number(row, "debugger_port", 65535)
        self.pid = _number(row, "pid", _MAX_PID)
        self.is_driver = row.get("worker_type") == "DRIVER"
        self.paused = _number(row, "num_paused_threads", 1 << 20)
        self.task, self.actor, self.actor_name = task, actor, actor_name
        self.called = self.unpacked = self.main = self.source = ""
        self.modules: List[Tuple[str, str]] = []

    @property
    def name(self) -> str:
        """Return the display name."""
        task = self.task[: -len(_INIT)] if self.task.endswith(_INIT) else self.task
        what = task or self.actor or ("driver" if self.is_driver else "worker")
        if self.actor and task and not task.startswith(self.actor):
            what = "%s.%s" % (self.actor, task)
        if self.actor_name and self.actor_name != self.actor:
            what = "%s (%s)" % (what, self.actor_name)
        return "%s, pid %d on %s" % (self.called or what, self.pid, self.node)

    @property
    def is_named(self) -> bool:
        """Return whether the worker has a better name than `worker`: Ray reports its task late."""
        return bool(self.task or self.actor or self.called or self.is_driver)

    def as_json(self) -> Dict[str, Any]:
        """Return all fields as a JSON object."""
        return dict(vars(self), name=self.name)


class Dashboard:
    """One dashboard. Thread-safe.

    Args:
        host, port: its address.
        token: Ray's token, sent only if the dashboard requires one; if empty, this machine's is used.
    """

    def __init__(self, host: str, port: int, token: str = "") -> None:
        self.host, self.port = host, port
        self._token = token or own_token()
        self._shows_token = False
        # False for a loopback address or this machine's name, which may be guesses of `hosts`: then the token is sent
        # only to a process of this user or root.
        self._is_named = host not in (LOOPBACK, socket.gethostname())
        self._nodes: Dict[str, str] = {}
        self._session = ""
        self._scripts: Dict[str, str] = {}

    def check(self) -> str:
        """Return Ray's version. Raises DashboardError: the cluster cannot be queried, or its Ray is too old."""
        answer = self._get("/api/version", {})
        version = _text(answer, "ray_version")
        if not version:
            raise DashboardError("not-ray", "what answers at %s is not a Ray dashboard" % self._where)
        self._session = _text(answer, "session_name")
        numbers = tuple(
            number for each in version.split(".")[:2] if (number := whole_number(each)) is not None
        )
        if len(numbers) == 2 and numbers < OLDEST:
            raise DashboardError(
                "old", "the cluster runs Ray %s; the debugger needs Ray 2.9 or newer" % version
            )
        return version

    def workers(self, also: Optional[Set[str]] = None) -> List[Worker]:
        """Return the workers whose debugger waits, sorted by node and pid.

        Args:
            also: ids of workers to return even if they do not wait, as long as they are alive.

        Raises:
            DashboardError: it cannot be queried.
        """
        rows = self._list("workers", "num_paused_threads", "!=", "0")
        seen = {_text(each, "worker_id") for each in rows}
        if also and also - seen:
            alive = self._list("workers", "is_alive", "=", "True")
            rows += [each for each in alive if _text(each, "worker_id") in also - seen]
        rows = [
            row for row in rows if _number(row, "debugger_port", 65535) and row.get("is_alive") is not False
        ]
        if not rows:
            return []
        tasks = {_text(each, "worker_id"): each for each in self._list("tasks", "state", "=", "RUNNING")}
        actors: Dict[str, Dict[str, Any]] = {}
        if any(_text(each, "actor_id") for each in tasks.values()) or any(
            _text(row, "worker_id") not in tasks for row in rows
        ):
            actors = {_text(each, "actor_id"): each for each in self._list("actors", "state", "=", "ALIVE")}
        by_pid = {(_text(each, "node_id"), each.get("pid")): each for each in actors.values()}
        found = []
        for row in rows:
            task = tasks.get(_text(row, "worker_id"), {})
            actor = (
                actors.get(_text(task, "actor_id"))
                or by_pid.get((_text(row, "node_id"), row.get("pid")))
                or {}
            )
            row["node"] = self._node(_text(row, "node_id"))
            found.append(
                Worker(
                    row, task=_text(task, "name") or _text(task, "func_or_class_name"),
                    actor=_text(actor, "class_name").rpartition(".")[2], actor_name=_text(actor, "name"),
                )
            )  # fmt: skip
            env = task.get("runtime_env_info")
            environment = _text(
                env if isinstance(env, dict) else actor, "serialized_runtime_env", _MAX_CHARACTERS
            )
            found[-1].unpacked = unpacked.folder(self._session, environment)
            if found[-1].unpacked:
                found[-1].main = self._script(_text(task, "job_id") or _text(actor, "job_id"))
        return sorted(found, key=lambda each: (each.node, each.pid))

    def _node(self, node: str) -> str:
        """Return a node's name, cached."""
        if node not in self._nodes:
            for each in self._list("nodes", "", "", ""):
                self._nodes[_text(each, "node_id")] = _text(each, "node_name") or _text(each, "node_ip")
        return self._nodes.get(node, "")

    def _script(self, job: str) -> str:
        """Return the script of a job's driver, cached; empty if `ray job submit` runs it in an unpacked folder."""
        if job not in self._scripts:
            self._scripts[job] = ""
            code, body = self._ask("/api/jobs/", {})
            try:
                lines = json.loads(body) if code == 200 else []
            except (ValueError, RecursionError):
                lines = []
            for each in as_list(lines):
                if isinstance(each, dict) and each.get("job_id") == job and not each.get("submission_id"):
                    self._scripts[job] = unpacked.script(_text(each, "entrypoint", _MAX_CHARACTERS))
        return self._scripts[job]

    def _list(self, what: str, key: str, predicate: str, value: str) -> List[Dict[str, Any]]:
        query = {"detail": "true", "limit": "10000"}
        if key:
            query.update(filter_keys=key, filter_predicates=predicate, filter_values=value)
        answer = self._get("/api/v0/%s" % what, query)
        result: Any = answer.get("data")
        for _ in range(2):
            result = result.get("result") if isinstance(result, dict) else result
        if not isinstance(result, list):
            raise DashboardError(
                "no-state", "the dashboard at %s returned no list of %s" % (self._where, what)
            )
        return [each for each in result if isinstance(each, dict)]

    @property
    def _where(self) -> str:
        return "%s:%d" % (self.host, self.port)

    def _get(self, path: str, query: Dict[str, str]) -> Dict[str, Any]:
        code, body = self._ask(path, query)
        if code in (401, 403) and not self._shows_token:
            if not self._token:
                raise DashboardError("token", "the dashboard at %s asks for Ray's token" % self._where)
            self._shows_token = True
            code, body = self._ask(path, query)
        if code in (401, 403):
            raise DashboardError("wrong-token", "the dashboard at %s rejects the token" % self._where)
        if code == 404 and path.startswith("/api/v0/"):
            raise DashboardError("no-state", "the dashboard at %s has no state API" % self._where)
        try:
            answer = json.loads(body)
        except (ValueError, RecursionError):
            answer = None
        if code != 200 or not isinstance(answer, dict):
            kind = "not-ray" if path == "/api/version" else "no-state"
            raise DashboardError(
                kind, "the dashboard at %s answers %s with code %d" % (self._where, path, code)
            )
        return answer

    def _ask(self, path: str, query: Dict[str, str]) -> tuple[int, bytes]:
        headers = {"User-Agent": "dkdbg"}  # the dashboard of Ray 2.9 fails without it (`http_server_head.py`)
        if self._shows_token:
            headers["Authorization"] = "Bearer " + self._token
        connection = http.client.HTTPConnection(self.host, self.port, timeout=_TIMEOUT_S)
        try:
            connection.connect()
            if self._shows_token and not local_users.is_own_server(connection.sock, default=self._is_named):
                raise DashboardError(
                    "foreign",
                    "the process at %s that asks for Ray's token is neither yours nor root's" % self._where,
                )
            connection.request("GET", path + ("?" + urlencode(query) if query else ""), headers=headers)
            response = connection.getresponse()
            return response.status, response.read(_MAX_ANSWER_BYTES)
        except http.client.HTTPException as error:
            raise DashboardError(
                "not-ray", "what answers at %s is not a Ray dashboard" % self._where
            ) from error
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise DashboardError(
                "unreachable", "no dashboard answers at %s: %s" % (self._where, why)
            ) from error
        finally:
            connection.close()


def own_token() -> str:
    """Return the Ray token of this user and machine, from the places where Ray reads it; empty if there is no token."""
    token = os.environ.get(ENV_TOKEN, "").strip()
    if token:
        return token
    path = os.environ.get(ENV_TOKEN_PATH) or os.path.expanduser(_TOKEN_FILE)
    try:
        with open(path) as source:
            token = source.read(_MAX_TOKEN).strip()
    except (OSError, ValueError):
        return ""
    return token if token.isprintable() else ""


def hosts() -> List[str]:
    """Return the hosts that may run the dashboard of this node's cluster, the likeliest first."""
    found = []
    try:
        with open(_ADDRESS_FILE) as source:
            # Ignore a file of another user, which may have been put into /tmp first.
            owners = {os.fstat(source.fileno()).st_uid, os.stat(os.path.dirname(_ADDRESS_FILE)).st_uid}
            if owners <= {0, os.getuid()}:
                found.append(source.read(200).strip().rpartition(":")[0].strip("[]"))
    except (OSError, ValueError):
        pass
    found += [
        os.environ.get("RAY_ADDRESS", "").rpartition("//")[2].rpartition(":")[0],
        LOOPBACK,
        socket.gethostname(),
    ]
    return [each for each in dict.fromkeys(found) if each and each != "auto"]


def reached(hosts: List[str], port: int, token: str = "") -> Dashboard:
    """Return the first dashboard that can be queried; else raise the most specific DashboardError."""
    failed: Optional[DashboardError] = None
    for host in hosts:
        dashboard = Dashboard(host, port, token)
        try:
            dashboard.check()
            return dashboard
        except DashboardError as error:
            failed = error if failed is None or failed.kind == "unreachable" else failed
    raise failed or DashboardError("unreachable", "no Ray dashboard found")


def _text(row: Dict[str, Any], key: str, max_chars: int = 300) -> str:
    return as_text(row.get(key))[:max_chars]


def _number(row: Dict[str, Any], key: str, max_value: int) -> int:
    found = row.get(key)
    return found if isinstance(found, int) and not isinstance(found, bool) and 0 <= found <= max_value else 0
