"""The agent's control socket, in its private folder. A request is one line: restart, stop, or a query to the ranks."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sys
import threading
import time

from dkdbg.agent import contract, sockets
from dkdbg.agent.inprocess import ranks
from dkdbg.agent.proxy.broker import broadcast_query
from dkdbg.agent.state import records, runtime_dir
from dkdbg.agent.supervisor import restarts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List

    Gather = Callable[[broadcast_query.Query, float], List[broadcast_query.Row]]

#: Seconds to wait for an answer. That to `restart` comes after the restart, and ending the program takes up to 10 s.
ANSWER_TIMEOUT_S = 30.0


class Control:
    """The agent's side of the control socket.

    Args:
        processes_dir: folder for the socket.
        restart: restarts the program; returns one line, `restarted...` or why it was not restarted.
        gather: see Session.ask_ranks.

    Raises:
        OSError: the socket cannot be created.
    """

    def __init__(self, processes_dir: str, restart: Callable[[], str], gather: Gather) -> None:
        self._restart = restart
        self._gather = gather
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(os.path.join(processes_dir, contract.CONTROL_NAME))
        self._listener.listen(8)
        threading.Thread(target=self._accept, name="dkdbg control", daemon=True).start()

    def stop(self) -> None:
        """Accept no more requests."""
        sockets.shut(self._listener)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                if self._listener.fileno() < 0:
                    return
                time.sleep(0.05)  # out of file descriptors, or about to be closed
                continue
            if not sockets.begin(self._serve, connection, name="dkdbg asked"):
                connection.close()

    def _serve(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            connection.settimeout(5)
            word = connection.makefile("rb").readline(MAX_QUERY_BYTES).strip()
            if word.startswith(WORD):
                answer = json.dumps(answer_query(word, self._gather))
            elif word == b"restart":
                answer = self._restart()
            elif word == b"stop":
                os.kill(os.getpid(), signal.SIGTERM)  # the agent forwards it, and ends after the program
                answer = "asked to end"
            else:
                answer = "unknown request"
            connection.settimeout(5)
            connection.sendall(answer.encode() + b"\n")


def main(command: str, argv: List[str]) -> int:
    """Run `dkdbg.agent restart` or `stop [--name NAME]` and return its exit code."""
    name = argv[1] if len(argv) == 2 and argv[0] == "--name" else None
    if argv and name is None:
        sys.stderr.write("dkdbg: usage: dkdbg.agent %s [--name NAME]\n" % command)
        return 2
    record = records.newest(name)
    if record is None:
        which = "no session named %s" % name if name else "no session"
        sys.stderr.write("dkdbg: %s is running in %s\n" % (which, runtime_dir.default_runtime_dir()))
        return 1
    answer = ask(records.folder_of(record), command)
    if not answer:
        sys.stderr.write("dkdbg: the agent of session %s did not answer\n" % record["id"])
        return 1
    sys.stdout.write("dkdbg: %s\n" % answer)
    return 0 if answer.startswith(("restarted", "asked", restarts.NOT_STARTED)) else 1


def ask(session_dir: str, command: str, limit: float = ANSWER_TIMEOUT_S) -> str:
    """Send a command to a session's agent and return its line; empty without an answer in time."""
    path = os.path.join(
        os.path.realpath(os.path.join(session_dir, contract.PROCESSES_NAME)), contract.CONTROL_NAME
    )
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.settimeout(limit)
        try:
            sock.connect(path)
            sock.sendall(command.encode() + b"\n")
            return sock.makefile("r").readline().strip()
        except OSError:
            return ""


#: Default and maximum seconds for the answers; maximum bytes of a query.
DEFAULT_TIMEOUT_S, MAX_TIMEOUT_S = 10.0, 600.0
MAX_QUERY_BYTES = 256 << 10
WORD = b"ranks "


def answer_query(line: bytes, gather: Gather) -> Dict[str, Any]:
    """Return the answer to a query from the control socket: a dict with `rows`, or with `error` and perhaps `hint`."""
    try:
        asked = json.loads(line[len(WORD) :].decode("utf-8", "surrogatepass"))
        verb, expression, frame = asked["verb"], asked["expression"], int(asked["frame"])
        limit = min(MAX_TIMEOUT_S, max(0.1, float(asked["limit"])))
        wanted = ranks.parse(str(asked["ranks"]))
    except ranks.RankSetError as error:
        return {"error": str(error), "hint": error.hint}
    except (ValueError, KeyError, TypeError) as error:
        return {"error": "not a query: %s" % error}
    if verb not in broadcast_query.VERBS or not isinstance(expression, str) or frame < 0:
        return {"error": "not a query"}
    return {"rows": gather(broadcast_query.Query(verb, expression, frame, wanted), limit)}
