"""A stand-in for OpenPAI's rest-server: one job, as GET /rest-server/api/v2/jobs/USER~JOB tells it (src/rest-server/docs/swagger.yaml)."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

PATH = "/rest-server/api/v2/jobs/me~mnist"
TOKEN = "an.application.token"


def task(index: int, state: str, ip: str | None, port: int, label: str = "debug") -> dict[str, Any]:
    """A task as the server tells it: ports are text, those of the platform are there too."""
    ports = {"ssh": "1", "http": "2", **({label: f"{port}"} if port else {})}
    return {"taskIndex": index, "taskState": state, "containerIp": ip, "containerPorts": ports if ip else {}}


@dataclass(kw_only=True)
class Server:
    """What it tells, and what it was asked: paths, and whether a token came with them."""

    port: int
    roles: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    answer: tuple[int, bytes, str] | None = None
    asked: list[tuple[str, str | None]] = field(default_factory=list)

    @property
    def address(self) -> str:
        return f"pai://127.0.0.1:{self.port}/me/mnist"


@contextmanager
def serving() -> Iterator[Server]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

        def do_GET(self) -> None:
            said = self.headers.get("Authorization")
            server.asked.append((self.path, said))
            where = ""
            if server.answer is not None:
                status, body, where = server.answer
            elif said is None:
                status, body = (
                    401,
                    error("UnauthorizedUserError", "Guest is not allowed to do this operation."),
                )
            elif said != f"Bearer {TOKEN}":
                status, body = 401, error("UnauthorizedUserError", "Your token is invalid.")
            elif self.path != PATH:
                status, body = 404, error("NoJobError", f"Job {self.path.rpartition('/')[2]} is not found.")
            else:
                roles = {
                    name: {"taskRoleStatus": {"name": name}, "taskStatuses": each}
                    for name, each in server.roles.items()
                }
                status, body = (
                    200,
                    json.dumps({"name": "mnist", "jobStatus": {}, "taskRoles": roles}).encode(),
                )
            self.send_response(status)
            if where:
                self.send_header("Location", where)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as httpd:
        server = Server(port=httpd.server_address[1])
        thread = threading.Thread(target=httpd.serve_forever, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            httpd.shutdown()
            thread.join()


def error(code: str, message: str) -> bytes:
    """As src/rest-server/src/utils/error.js makes it."""
    return json.dumps({"code": code, "message": message}).encode()
