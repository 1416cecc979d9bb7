"""`dkdbg.agent pdb`: a terminal for the pdb in one of the session's processes."""

from __future__ import annotations

import os
import socket
import sys
import threading
import time

from dkdbg.agent import processes, records

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List, Optional

    from dkdbg.agent import contract


def main(words: List[str]) -> int:
    """Enter a process's main thread at its next line and pass lines both ways; return the exit code."""
    import argparse

    parser = argparse.ArgumentParser(prog="dkdbg.agent pdb")
    parser.add_argument(
        "--pid", type=int, default=None, help="which process; the program's first one by default"
    )
    parser.add_argument("--name", default=None, help="the session's name; the newest one by default")
    given = parser.parse_args(words)
    session = _session(given.name)
    if session is None:
        return _fail("no session is running here")
    end = time.monotonic() + 2  # it may have started a moment ago
    process = _process(session, given.pid)
    while process is None and time.monotonic() < end:
        time.sleep(0.1)
        session = _session(given.name) or session
        process = _process(session, given.pid)
    if process is None:
        listing = ", ".join(
            "%d (%s)" % (each["pid"], " ".join(each["argv"])[:60]) for each in session["processes"]
        )
        return _fail("no such Python process; there are: %s" % (listing or "none"))
    folder = os.path.realpath(os.path.join(records.default_runtime_dir(), session["id"], "p"))
    answer = processes.ask(os.path.join(folder, "%d.sock" % process["pid"]), "pdb")
    if not answer.startswith("pdb "):
        return _fail("process %d: %s" % (process["pid"], answer or "it does not answer"))
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.connect(answer[4:])
        threading.Thread(target=_send, args=(sock,), daemon=True).start()
        return _show(sock)


def _session(name: Optional[str]) -> Optional[contract.Record]:
    live = [record for record in records.list_records() if records.is_live(record)]
    found = [record for record in live if name in (None, record["name"], record["id"])]
    return found[-1] if found else None


def _process(session: contract.Record, pid: Optional[int]) -> Optional[contract.Process]:
    found = [each for each in session["processes"] if pid in (None, each["pid"])]
    return min(found, key=lambda each: each["started"]) if found else None


def _send(sock: socket.socket) -> None:
    try:
        for line in sys.stdin:
            sock.sendall(line.encode())
        sock.shutdown(socket.SHUT_WR)  # the process goes on
    except OSError:
        pass


def _show(sock: socket.socket) -> int:
    try:
        while True:
            data = sock.recv(4096)
            if not data:
                return 0
            sys.stdout.write(data.decode("utf-8", "replace"))
            sys.stdout.flush()
    except (KeyboardInterrupt, BrokenPipeError):
        return 0  # the connection ends, the process goes on
    except OSError as error:
        return _fail("connection lost: %s" % error)


def _fail(text: str) -> int:
    sys.stderr.write("dkdbg: %s\n" % text)
    return 1
