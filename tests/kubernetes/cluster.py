"""A stand-in for a Kubernetes API server, for the real kubectl: its pods are Docker containers, or only said to be there.

It is no Kubernetes: no scheduler and no kubelet, and of the API what `kubectl get`, `describe`, `logs`, `exec`, `auth` and a
watch ask for pods, and what `objects.py` keeps. Commands run over the WebSocket protocol that kubectl speaks since 1.31
(v5.channel.k8s.io). What it says when something is refused is worded as the API server of Kubernetes 1.32 and containerd
word it.
"""

import contextlib
import json
import os
import pty
import queue
import ssl
import struct
import subprocess
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.kubernetes import objects
from tests.kubernetes.websocket import WebSocket, accept_of

PROTOCOL = "v5.channel.k8s.io"
#: Channels of that protocol: one byte before each message.
_STDIN, _STDOUT, _STDERR, _STATUS, _RESIZE, _CLOSED = 0, 1, 2, 3, 4, 255
USER = "alice"


@dataclass
class Pod:
    """One pod.

    Attributes:
        containers: by name, the Docker container that stands for it; None for one that cannot be entered; a command
            line of this machine for one that answers with it, whatever it is asked to run.
        log: what `kubectl logs` shows.
        spec, status: what is said besides, of the containers too (`container` is merged into each).
    """

    name: str
    containers: dict[str, str | tuple[str, ...] | None]
    namespace: str = "ml"
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    container: dict[str, Any] = field(default_factory=dict)
    status: dict[str, Any] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)
    log: str = ""

    def document(self) -> dict[str, Any]:
        """The pod as the API shows it."""
        states = [
            {"name": name, "ready": True, "restartCount": 0, "state": {"running": {"startedAt": _NOW}}}
            for name in self.containers
        ]
        return {
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": self.name, "namespace": self.namespace, "uid": f"uid-{self.name}", "resourceVersion": "1",
                "creationTimestamp": _NOW, "labels": self.labels, "annotations": self.annotations, **self.metadata,
            },
            "spec": {
                "nodeName": "node-1",
                "containers": [{"name": name, "image": "train", **self.container} for name in self.containers],
            },
            "status": {"phase": "Running", "podIP": "10.1.2.3", "containerStatuses": states, **self.status},
        }  # fmt: skip


_NOW = "2026-11-22T10:00:00Z"


class Cluster:
    """A running stand-in on 127.0.0.1. Its pods may change at any time.

    Attributes:
        pods: what is there.
        objects: what is there besides.
        denied: verb and resource that the user may not, such as `("create", "pods/exec")`.
        is_unauthorized: whoever asks is not known any more.
        trouble: answered to whatever is asked, while it is there: code, reason, message.
        quota: why nothing can be made; empty where it can.
        exec_refusal: why no command can be run in a pod; empty where it can.
        asked: method and path of each request, oldest first.
    """

    def __init__(self) -> None:
        self.pods: list[Pod] = []
        self.objects = objects.Objects()
        self.denied: set[tuple[str, str]] = set()
        self.is_unauthorized = False
        self.trouble: tuple[int, str, str] | None = None
        self.quota = self.exec_refusal = ""
        self.asked: list[str] = []
        self._watchers: list[queue.SimpleQueue[dict[str, Any] | None]] = []
        cluster = self

        class Bound(_Request):
            pass

        Bound.cluster = cluster
        self._server = _Server(("127.0.0.1", 0), Bound)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    @property
    def is_watched(self) -> bool:
        """Whether somebody watches its pods now."""
        return bool(self._watchers)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def kubeconfig(self, path: Path) -> Path:
        config = {
            "apiVersion": "v1", "kind": "Config", "current-context": "stand-in",
            "clusters": [{"name": "stand-in", "cluster": {"server": self.url}}],
            "users": [{"name": USER, "user": {"token": "secret-of-alice"}}],
            "contexts": [{"name": "stand-in", "context": {"cluster": "stand-in", "user": USER}}],
        }  # fmt: skip
        path.write_text(json.dumps(config))
        return path

    def speak_tls(self, certificate: Path, key: Path) -> None:
        """Take whoever comes from now on by TLS only."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)

    def put(self, pod: Pod) -> None:
        """Add a pod, or replace the one of this name, and tell who watches."""
        self.pods = [each for each in self.pods if each.name != pod.name] + [pod]
        self._tell("ADDED", pod)

    def delete(self, name: str) -> None:
        for pod in [each for each in self.pods if each.name == name]:
            self.pods.remove(pod)
            self._tell("DELETED", pod)

    def close(self) -> None:
        for each in self._watchers:
            each.put(None)
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(300)

    def _tell(self, kind: str, pod: Pod) -> None:
        for each in self._watchers:
            each.put({"type": kind, "object": pod.document()})


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A kubectl that was killed has closed its connection."""


class _Request(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    cluster: Cluster

    def log_message(self, *_: Any) -> None:
        """Nobody reads it."""

    def do_GET(self) -> None:
        self._handle()

    do_POST = do_PATCH = do_DELETE = do_GET  # noqa: N815 - names of http.server

    def _handle(self) -> None:
        url = urlsplit(self.path)
        self.cluster.asked.append(f"{self.command} {self.path}")
        query = parse_qs(url.query, keep_blank_values=True)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = url.path.strip("/").split("/")
        version = "/".join(parts[1:2] if parts[0] == "api" else parts[1:3])
        rest = parts[2:] if parts[0] == "api" else parts[3:]
        if self.cluster.is_unauthorized:
            self._fail(401, "Unauthorized", "Unauthorized")
        elif self.cluster.trouble:
            self._fail(*self.cluster.trouble)
        elif (said := objects.checks(url.path)) is not None:
            self._say(said)
        elif parts == ["api"]:
            self._say({"kind": "APIVersions", "versions": ["v1"]})
        elif parts == ["apis"]:
            self._say(objects.groups())
        elif version not in objects.KINDS:
            self._fail(404, "NotFound", "the server could not find the requested resource")
        elif not rest:
            self._say(objects.resources(version))
        elif rest == ["selfsubjectaccessreviews"]:
            self._review(body)
        elif rest == ["selfsubjectreviews"]:
            self._say(objects.review(USER), 201)
        elif rest[:1] == ["namespaces"] and rest[2:3] == ["pods"]:
            self._pods(rest[1], rest[3:], query)
        elif rest[:1] == ["namespaces"] and len(rest) < 3:
            self._namespaces(rest[1:])
        else:
            self._objects(rest, body)

    def _review(self, body: bytes) -> None:
        """`kubectl auth can-i`."""
        # The question comes as protobuf, in which texts stand as they are.
        denied = [
            words
            for words in self.cluster.denied
            if all(each.encode() in body for each in "/".join(words).split("/"))
        ]
        review = {
            "kind": "SelfSubjectAccessReview",
            "apiVersion": "authorization.k8s.io/v1",
            "metadata": {},
            "spec": {},
        }
        self._say({**review, "status": {"allowed": not denied}}, 201)

    def _objects(self, rest: list[str], body: bytes) -> None:
        """`namespaces/NAMESPACE/PLURAL[/NAME]`."""
        namespace, plural, name = rest[1], rest[2], (rest[3:] or [""])[0]
        verb = {"GET": "get" if name else "list", "POST": "create", "PATCH": "patch", "DELETE": "delete"}[
            self.command
        ]
        if not self._may(verb, plural, namespace, name):
            return
        if verb == "create" and self.cluster.quota:
            self._fail(403, "Forbidden", self.cluster.quota)
            return
        answer = self.cluster.objects.answer(self.command, namespace, plural, name, body)
        if answer is None:
            self._fail(404, "NotFound", f'{objects.full_name(plural)} "{name}" not found', name)
        else:
            self._say(answer[1], answer[0])

    def _namespaces(self, rest: list[str]) -> None:
        names = sorted({"ml", *(each.namespace for each in self.cluster.pods)})
        found = [{"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": each}} for each in names]
        if not rest:
            self._say({"kind": "NamespaceList", "apiVersion": "v1", "metadata": {}, "items": found})
        elif rest[0] in names:
            self._say(found[names.index(rest[0])])
        else:
            self._fail(404, "NotFound", f'namespaces "{rest[0]}" not found', rest[0])

    def _pods(self, namespace: str, rest: list[str], query: dict[str, list[str]]) -> None:
        found = [each for each in self.cluster.pods if each.namespace == namespace]
        if not rest:
            wanted = [pair.split("=", 1) for pair in query.get("labelSelector", [""])[0].split(",") if pair]
            field_ = query.get("fieldSelector", [""])[0].partition("metadata.name=")[2]
            verb = "watch" if query.get("watch") else "list"
            if self._may(verb, "pods", namespace, ""):
                fitting = [
                    each for each in found
                    if all(each.labels.get(key) == value for key, value in wanted) and field_ in {"", each.name}
                ]  # fmt: skip
                if verb == "watch":
                    self._watch()
                else:
                    items = [each.document() for each in fitting]
                    self._say({"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": items})  # fmt: skip
            return
        named = next((each for each in found if each.name == rest[0]), None)
        if rest[1:] == ["exec"]:
            if self._may("create", "pods/exec", namespace, rest[0]):
                self._exec(rest[0], named, query)
        elif self._may("get", "pods", namespace, rest[0]):
            if named is None:
                self._fail(404, "NotFound", f'pods "{rest[0]}" not found', rest[0])
            elif rest[1:] == ["log"]:
                self._log(named.log)
            else:
                self._say(named.document())

    def _may(self, verb: str, resource: str, namespace: str, name: str) -> bool:
        if (verb, resource) not in self.cluster.denied:
            return True
        shown = objects.full_name(resource.partition("/")[0])
        self._fail(
            403, "Forbidden",
            f"{shown}{f' {chr(34)}{name}{chr(34)}' * bool(name)} is forbidden: User \"{USER}\" cannot {verb} resource "
            f'"{resource}" in API group "{shown.partition(".")[2]}" in the namespace "{namespace}"',
        )  # fmt: skip
        return False

    def _watch(self) -> None:
        events: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self.cluster._watchers.append(events)
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        with contextlib.suppress(OSError):
            while (event := events.get()) is not None:
                line = json.dumps(event).encode() + b"\n"
                self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
        self.close_connection = True

    def _exec(self, name: str, pod: Pod | None, query: dict[str, list[str]]) -> None:
        self.close_connection = True
        if pod is None:
            self._fail(404, "NotFound", f'pods "{name}" not found', name)
            return
        if self.cluster.exec_refusal:
            self._fail(400, "BadRequest", self.cluster.exec_refusal)
            return
        container = query.get("container", [next(iter(pod.containers))])[0]
        if container not in pod.containers:
            self._fail(400, "BadRequest", f"container {container} is not valid for pod {pod.name}")
            return
        offered = [each.strip() for each in self.headers.get("Sec-WebSocket-Protocol", "").split(",")]
        if PROTOCOL not in offered:
            self._fail(400, "BadRequest", "this stand-in speaks WebSocket v5 only")
            return
        self.send_response_only(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        self.send_header("Sec-WebSocket-Accept", accept_of(self.headers["Sec-WebSocket-Key"]))
        self.send_header("Sec-WebSocket-Protocol", PROTOCOL)
        self.end_headers()
        self.wfile.flush()
        with contextlib.suppress(OSError):
            _Exec(WebSocket(self.rfile, self.connection), pod.containers[container], query).run()

    def _log(self, text: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    def _say(self, value: object, code: int = 200) -> None:
        body = json.dumps(value).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _fail(self, code: int, reason: str, message: str, name: str = "") -> None:
        status = {
            "kind": "Status",
            "apiVersion": "v1",
            "status": "Failure",
            "reason": reason,
            "message": message,
        }
        self._say({**status, "metadata": {}, "details": {"kind": "pods", "name": name}, "code": code}, code)


class _Exec:
    """One command in a pod: between a WebSocket and `docker exec`."""

    def __init__(
        self, socket: WebSocket, container: str | tuple[str, ...] | None, query: dict[str, list[str]]
    ) -> None:
        self._socket = socket
        self._tty = query.get("tty") == ["true"]
        takes_input = query.get("stdin") == ["true"]
        flags = (["-i"] if takes_input else []) + (["-t"] if self._tty else [])
        if isinstance(container, tuple):
            self._argv = list(container)
        else:
            self._argv = ["docker", "exec", *flags, str(container), *query.get("command", [])]
        self._refusal = ""

    def run(self) -> None:
        """From its start to its status."""
        if self._tty:
            terminal, theirs = pty.openpty()
            child = subprocess.Popen(
                self._argv, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
            )
            os.close(theirs)
            pumps = [self._pump(terminal, _STDOUT)]
            feeding = terminal
        else:
            child = subprocess.Popen(
                self._argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0
            )
            pumps = [self._pump(child.stdout.fileno(), _STDOUT), self._pump(child.stderr.fileno(), _STDERR)]
            feeding = os.dup(child.stdin.fileno())
            child.stdin.close()
        feeder = threading.Thread(target=self._feed, args=(feeding,), daemon=True)
        feeder.start()
        for pump in pumps:
            pump.join()
        self._socket.send(bytes([_STATUS]) + json.dumps(_status(child.wait(), self._refusal)).encode())
        self._socket.close()

    def _pump(self, source: int, channel: int) -> threading.Thread:
        def copy() -> None:
            with contextlib.suppress(OSError):
                while data := os.read(source, 1 << 15):
                    if data.startswith(b"OCI runtime exec failed"):  # what docker prints, containerd answers
                        self._refusal = data.decode().strip()
                    else:
                        self._socket.send(bytes([channel]) + data)

        thread = threading.Thread(target=copy, daemon=True)
        thread.start()
        return thread

    def _feed(self, target: int) -> None:
        """A kubectl that is gone closes the command's standard input, as a kubelet does."""
        with contextlib.suppress(OSError):
            while (message := self._socket.receive()) is not None:
                channel, data = message[0], message[1:]
                if channel == _STDIN:
                    while data:
                        data = data[os.write(target, data) :]
                elif channel == _RESIZE:
                    size = json.loads(data)
                    import fcntl
                    import termios

                    shape = struct.pack("HHHH", size["Height"], size["Width"], 0, 0)
                    fcntl.ioctl(target, termios.TIOCSWINSZ, shape)
                elif channel == _CLOSED and data[:1] == b"\0":
                    break
        os.close(target)


def _status(code: int, refusal: str) -> dict[str, Any]:
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    if refusal:
        said = f"error executing command in container: failed to exec in container: failed to start exec: {refusal}"
        message = f"Internal error occurred: {said}"
        return {
            "metadata": {},
            "status": "Failure",
            "reason": "InternalError",
            "message": message,
            "code": 500,
        }
    return {
        "metadata": {}, "status": "Failure", "reason": "NonZeroExitCode",
        "message": f"command terminated with non-zero exit code: error executing command: exit status {code}",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }  # fmt: skip
