"""`dkdbg.agent pdb`: connects the terminal to a pdb in one of the session's processes."""

from __future__ import annotations

import socket
import sys
import threading
import time

from dkdbg.agent.state import announced, processes, records

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List, Optional

    from dkdbg.agent import contract


#: Seconds without a prompt before a message explains the wait.
SILENCE_S = 2.0


def main(argv: List[str]) -> int:
    """Start pdb in a process's main thread at its next line and forward lines both ways. Return the exit code."""
    import argparse

    parser = argparse.ArgumentParser(prog="dkdbg.agent pdb")
    parser.add_argument(
        "--pid", type=int, default=None, help="which process; rank 0 or else the first one by default"
    )
    parser.add_argument("--rank", type=int, default=None, help="which process, by its rank")
    parser.add_argument("--name", default=None, help="the session's name; the newest one by default")
    given = parser.parse_args(argv)
    session = records.newest(given.name)
    if session is None:
        return _fail("no session is running here")
    end = time.monotonic() + 2  # the process may have started a moment ago
    process = _process(session, given.pid, given.rank)
    while process is None and time.monotonic() < end:
        time.sleep(0.1)
        session = records.newest(given.name) or session
        process = _process(session, given.pid, given.rank)
    if process is None:
        return _fail(_why_missing(session))
    folders = announced.of_session(records.folder_of(session))
    answer = processes.ask(folders.path(process["pid"], ".sock"), "pdb")
    if not answer.startswith("pdb "):
        return _fail("process %d: %s" % (process["pid"], answer or "it does not answer"))
    others = _listing([each for each in session["processes"] if each["pid"] != process["pid"]])
    if others:
        name = process["name"] or "Python"
        sys.stderr.write("dkdbg: pid %d, %s; others: %s (--rank, --pid)\n" % (process["pid"], name, others))
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.connect(answer[4:])
        threading.Thread(target=_send, args=(sock,), daemon=True).start()
        return _show(sock)


def _process(session: contract.Record, pid: Optional[int], rank: Optional[int]) -> Optional[contract.Process]:
    """Return, of the processes that match, the lowest rank (a launcher only waits), or without ranks the oldest."""
    found = [
        each for each in session["processes"] if pid in (None, each["pid"]) and rank in (None, each["rank"])
    ]
    return (
        min(found, key=lambda each: (each["rank"] is None, each["rank"], each["started"])) if found else None
    )


def _why_missing(session: contract.Record) -> str:
    """Return why the requested process was not found."""
    listed = _listing(session["processes"])
    if session["state"] == "waiting" and not listed:
        return "the program has not started yet: it is %s" % (session["detail"] or "waiting for a debugger")
    return "no such Python process; candidates: %s" % (listed or "none")


def _listing(processes: List[contract.Process]) -> str:
    return ", ".join(
        "%d %s" % (each["pid"], each["name"] or " ".join(each["argv"])[:60]) for each in processes
    )


def _send(sock: socket.socket) -> None:
    try:
        for line in sys.stdin:
            sock.sendall(line.encode())
        sock.shutdown(socket.SHUT_WR)  # the process continues
    except OSError:
        pass


def _show(sock: socket.socket) -> int:
    try:
        sock.settimeout(SILENCE_S)
        while True:
            try:
                data = sock.recv(4096)
            except socket.timeout:
                text = "dkdbg: still inside a call (a wait, a kernel); it stops at its next line; Ctrl-C gives up\n"
                sys.stderr.write(text)
                sock.settimeout(None)
                continue
            sock.settimeout(None)
            if not data:
                return 0
            sys.stdout.write(data.decode("utf-8", "replace"))
            sys.stdout.flush()
    except (KeyboardInterrupt, BrokenPipeError):
        return 0  # the connection ends, the process continues
    except OSError as error:
        return _fail("connection lost: %s" % error)


def _fail(text: str) -> int:
    sys.stderr.write("dkdbg: %s\n" % text)
    return 1
