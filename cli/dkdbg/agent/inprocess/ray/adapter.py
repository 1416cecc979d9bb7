"""debugpy's adapter for one worker of Ray, without a port for editors or a token on a command line.

It travels as text, see driver.py. worker.py runs it as `python -I - FD FOLDER`, this text on standard input:
a Unix socket, and debugpy's folder. It reads one line of JSON there (`token`), writes one (`port`), and then
takes each editor's connection that the worker passes on. Only the worker connects to the port, with the
token.
"""

# debugpy is untyped.
# ruff: noqa: ANN401
# mypy: disable-error-code="no-untyped-call, attr-defined"

from __future__ import annotations

import json
import os
import socket
import struct
import sys
import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Tuple


class _NoListener:
    """Placeholder for the socket on which debugpy listens for editors."""

    def getsockname(self) -> Tuple[str, int]:
        return ("127.0.0.1", 0)

    def close(self) -> None:
        pass


def _take(worker: socket.socket, servers: Any, clients: Any, log: Any) -> None:
    size, flags = struct.calcsize("i"), getattr(socket, "MSG_CMSG_CLOEXEC", 0)
    while True:
        try:
            received, rights, _, _ = worker.recvmsg(1, socket.CMSG_SPACE(size), flags)
        except OSError:
            received, rights = b"", []
        if not received:  # the worker has ended, or releases the adapter
            servers.dont_wait_for_first_connection()
            return
        for _, _, data in rights:
            client = socket.socket(fileno=struct.unpack("i", data[:size])[0])
            try:
                clients.Client(client)
            except Exception:  # it is gone already: accept the next one
                log.swallow_exception("a connection failed during set-up")
                client.close()


def main() -> None:
    """Serve until the worker and every process that it has started are gone."""
    if os.fork():  # Ray kills the children of a worker that ends, before they have told their editor
        os._exit(0)
    worker = socket.socket(fileno=int(sys.argv[1]))
    with worker.makefile("r") as asked:
        token = json.loads(asked.readline())["token"]
    sys.path.insert(0, sys.argv[2])
    import debugpy.adapter.clients
    import debugpy.adapter.servers
    import debugpy.adapter.sessions
    import debugpy.common.log

    clients, servers, log = debugpy.adapter.clients, debugpy.adapter.servers, debugpy.common.log
    log.to_file(prefix="debugpy.adapter")  # only when DEBUGPY_LOG_DIR is set
    servers.access_token, debugpy.adapter.access_token = None, token
    clients.listener = _NoListener()
    port = servers.serve()[1]
    worker.sendall(json.dumps({"port": port}).encode() + b"\n")
    threading.Thread(target=_take, args=(worker, servers, clients, log), daemon=True).start()
    servers.wait_until_disconnected()
    debugpy.adapter.sessions.wait_until_ended()


if __name__ == "__main__":
    main()
