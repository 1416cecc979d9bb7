"""`call`: connects a job that accepts no connections to a waiting `dkdbg attach --listen`, as a transport of its relay.

The agent starts this process and writes one line of JSON to its standard input: the token, which a command line would
show, the address, and the description of the job. The process reconnects after each cut, until the agent closes the
input.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import time

from dkdbg.agent import console
from dkdbg.agent.relay import program, secure_channel
from dkdbg.agent.relay.keeper import SECRET

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional

#: In seconds: connect timeout; shortest and longest pause before a retry; silence after which the connection counts as
#: dead (the other side sends something each second).
CONNECT = 10.0
SHORTEST_PAUSE, LONGEST_PAUSE = 0.2, 5.0
SILENCE = 6.0
#: The two lines that the other side sends first: WORD, which begins the relay's first output line; id and secret of the
#: keeper.
_WORD = re.compile(r"dkdbg-[0-9a-f]{16}")
_KEEPER_LINE = re.compile(r"([0-9a-f]{16}) [0-9a-f]{%d}" % (2 * SECRET))
_MAX_LINE_BYTES = 200
#: Timeout for these two lines: the other side may first have to notice that the previous connection was cut.
_LINE_TIMEOUT_S = 60.0
#: Timeout for a keeper to exit.
_KEEPER_EXIT_TIMEOUT_S = 3.0
_INPUT = 0


def main() -> int:
    """Connect until the input ends, or until SIGTERM; return the exit code."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    signal.pthread_sigmask(signal.SIG_SETMASK, [])  # the agent handles its own signals with sigwait
    answer: Dict[str, Any] = json.loads(sys.stdin.readline())
    about = json.dumps({**answer["about"], "answers": program.QUERIES})
    caller = _Caller(answer["host"], answer["port"], answer["fingerprint"], answer["token"], about)
    try:
        caller.run()
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        caller.close()
    return 0


class _Caller:
    """Client of one `dkdbg attach --listen`.

    Args:
        fingerprint: SHA-256 of its certificate. about: one line that describes this job.
    """

    def __init__(self, host: str, port: int, fingerprint: str, token: str, about: str) -> None:
        self._host, self._port, self._fingerprint = host, port, fingerprint
        self._token, self._about = token, about
        self._keeper: Optional[subprocess.Popen[bytes]] = None
        self._keepers_line = ""
        self._reported = ""

    def run(self) -> None:
        pause = SHORTEST_PAUSE
        while True:
            began = time.monotonic()
            try:
                with socket.create_connection((self._host, self._port), CONNECT) as sock:
                    why = self._serve(secure_channel.call(sock, self._token, self._fingerprint))
                if _is_over(0):
                    return
                self._say(why)
            except OSError as error:
                self._say(error.strerror or str(error))
            pause = (
                SHORTEST_PAUSE if time.monotonic() - began > LONGEST_PAUSE else min(LONGEST_PAUSE, pause * 2)
            )
            if _is_over(pause):
                return

    def close(self) -> None:
        """Stop the keeper."""
        if self._keeper is not None:
            self._keeper.terminate()
            try:
                self._keeper.wait(_KEEPER_EXIT_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self._keeper.kill()
                self._keeper.wait()
            self._keeper = None

    def _serve(self, line: secure_channel.SecureChannel) -> str:
        """Serve one connection to its end; return why it ended."""
        line.say(self._about)
        end = time.monotonic() + _LINE_TIMEOUT_S
        word, secret_line = line.hear(_MAX_LINE_BYTES, end), line.hear(_MAX_LINE_BYTES, end)
        if not _WORD.fullmatch(word) or not _KEEPER_LINE.fullmatch(secret_line):
            raise secure_channel.ChannelError("it runs another version of dkdbg")
        self._start_keeper(word, secret_line)
        own_end, peer_end = socket.socketpair()
        with own_end:
            with peer_end:
                end = peer_end.fileno()
                relay = subprocess.Popen(_relay(word, "wait"), stdin=end, stdout=end, start_new_session=True)
            try:
                own_end.sendall(secret_line.encode() + b"\n")
                self._reported = ""
                console.log("%s is connected: its editor can debug this job" % self._where)
                return line.pump(own_end, silence=SILENCE, until=_INPUT)
            finally:
                relay.kill()
                relay.wait()

    def _start_keeper(self, word: str, line: str) -> None:
        """Run a keeper with the id and secret that the other side expects, unless it runs already."""
        if self._keeper is not None and self._keeper.poll() is None and line == self._keepers_line:
            return
        self.close()
        self._keeper = subprocess.Popen(_relay(word, "keep"), stdin=subprocess.PIPE, start_new_session=True)
        self._keepers_line = line
        with contextlib.suppress(OSError):
            if self._keeper.stdin is not None:
                self._keeper.stdin.write(line.encode() + b"\n")
                self._keeper.stdin.close()

    @property
    def _where(self) -> str:
        return "%s:%d" % (self._host, self._port)

    def _say(self, why: str) -> None:
        """Log why there is no connection, once for each reason."""
        if why != self._reported:
            self._reported = why
            console.log("not connected to dkdbg attach --listen at %s: %s; retrying" % (self._where, why))


def _is_over(seconds: float) -> bool:
    """Wait up to this many seconds; return whether the agent has closed this process's input."""
    return bool(select.select([_INPUT], [], [], seconds)[0])


def _relay(word: str, how: str) -> List[str]:
    agent = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "__main__.py")
    return [sys.executable, "-I", "-S", "-B", agent, "relay", word, how]
