"""`call`: reaches a waiting `dkdbg attach --listen`, and is the transport of its relay: for jobs that may only connect out.

Started by an agent, which writes one line of JSON: the token, where to call, and what it says of itself. No command line
shows the token. It calls again after each cut, for as long as the agent keeps its end of our input open.
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
from dkdbg.agent.relay import questions, secure_channel
from dkdbg.agent.relay.keeper import SECRET

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional

#: Seconds to connect; until the next try, the shortest and the longest; without a word until the line counts as dead: the
#: other side says something each second.
CONNECT = 10.0
SHORTEST_PAUSE, LONGEST_PAUSE = 0.2, 5.0
SILENCE = 6.0
#: The other side's first lines: what the relay is called with, and which keeper it wants.
_WORD = re.compile(r"dkdbg-[0-9a-f]{16}")
_KEEPER = re.compile(r"([0-9a-f]{16}) [0-9a-f]{%d}" % (2 * SECRET))
_LONGEST = 200
#: Seconds until it has to say them: it may wait until its relay has noticed the cut.
_PATIENCE = 60.0
#: Seconds that a keeper has to end.
_LAST = 3.0
_INPUT = 0


def main() -> int:
    """Call until the input ends; the exit code."""
    signal.pthread_sigmask(signal.SIG_SETMASK, [])  # the agent fetches its own one by one
    said: Dict[str, Any] = json.loads(sys.stdin.readline())
    about = json.dumps({**said["about"], "answers": questions.VERBS})
    caller = _Caller(said["host"], said["port"], said["fingerprint"], said["token"], about)
    try:
        caller.run()
    finally:
        caller.close()
    return 0


class _Caller:
    """Calls one place.

    Args:
        fingerprint: of the certificate there. about: what we say of ourselves, one line.
    """

    def __init__(self, host: str, port: int, fingerprint: str, token: str, about: str) -> None:
        self._host, self._port, self._fingerprint = host, port, fingerprint
        self._token, self._about = token, about
        self._keeper: Optional[subprocess.Popen[bytes]] = None
        self._keepers_line = ""
        self._said = ""

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
        """Leave nothing behind."""
        if self._keeper is not None:
            self._keeper.terminate()
            try:
                self._keeper.wait(_LAST)
            except subprocess.TimeoutExpired:
                self._keeper.kill()
                self._keeper.wait()
            self._keeper = None

    def _serve(self, line: secure_channel.SecureChannel) -> str:
        """One connection, to its end; why it has ended."""
        line.say(self._about)
        end = time.monotonic() + _PATIENCE
        word, keeper = line.hear(_LONGEST, end), line.hear(_LONGEST, end)
        if not _WORD.fullmatch(word) or not _KEEPER.fullmatch(keeper):
            raise secure_channel.ChannelError("it is of another version of dkdbg")
        self._keep(word, keeper)
        ours, theirs = socket.socketpair()
        with ours:
            with theirs:
                end = theirs.fileno()
                relay = subprocess.Popen(_relay(word, "wait"), stdin=end, stdout=end, start_new_session=True)
            try:
                ours.sendall(keeper.encode() + b"\n")
                self._said = ""
                console.log("%s is connected: its editor can debug this job" % self._where)
                return line.pump(ours, silence=SILENCE, until=_INPUT)
            finally:
                relay.kill()
                relay.wait()

    def _keep(self, word: str, line: str) -> None:
        """Have the keeper that the other side knows; another one where it knows another."""
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
        """Say why it is not connected; once, until it is another reason."""
        if why != self._said:
            self._said = why
            console.log(
                "not connected to %s, where dkdbg attach --listen should wait: %s; calling again"
                % (self._where, why)
            )


def _is_over(seconds: float) -> bool:
    """Whether the agent wants us no more, within so many seconds."""
    return bool(select.select([_INPUT], [], [], seconds)[0])


def _relay(word: str, how: str) -> List[str]:
    agent = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "__main__.py")
    return [sys.executable, "-I", "-S", "-B", agent, "relay", word, how]
