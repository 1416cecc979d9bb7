"""Stopped threads of a process, derived from the messages between an editor and the adapter. No I/O."""

from __future__ import annotations

import os
import time

from dkdbg.agent.dap.messages import EVALUATING, as_dict, as_list

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Set

    Message = Dict[str, Any]

#: Maximum remembered stackTrace requests, stopped threads, and characters of a file's name.
_MAX_REQUESTS, _MAX_THREADS, _MAX_NAME = 64, 10_000, 100
#: Seconds after which an unfinished evaluation may be waiting for another process of the job.
EVALUATES_S = 0.3


class Stops:
    """Stopped threads of one process.

    The position comes from the answer to the editor's own stackTrace: nothing else is requested.

    Args:
        report: called with the position and the reason of a stop, or an empty text when the process runs.
            Withheld stops are reported too, for clocks and `ps`.
        clock: seconds, monotonic.

    Attributes:
        reasons: why each thread was stopped, by its id; without the stops that the rank barrier withholds.
        stopped_at: time of the last stop, by the clock.
    """

    def __init__(self, report: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> None:
        self.reasons: Dict[int, str] = {}
        self.stopped_at = 0.0
        self._report = report
        #: Stopped threads, including those whose stops are withheld.
        self._stopped: Set[int] = set()
        self._going: Set[int] = set()
        #: The position of the last stop.
        self._last = ""
        self._asked: Dict[int, int] = {}
        self._clock = clock
        #: Start times of evaluations without an answer, by the request's sequence number.
        self._evaluating: Dict[int, float] = {}

    @property
    def held(self) -> List[int]:
        """Return the stopped threads that were not asked to continue."""
        return [thread for thread in self.reasons if thread not in self._going]

    def let_go(self) -> None:
        """Note that the process was asked to continue: it may end before the adapter confirms that."""
        self._going = set(self.reasons)
        if self._stopped:
            self._report("")

    def refused(self) -> None:
        """Note that the process is still held: a request to continue failed, or another thread alone has continued."""
        if self._going and self._stopped:
            self._going.clear()
            self._report(self._last)

    def asked(self, request: Message) -> None:
        """Note a request to the process: a stackTrace, or one that makes the process evaluate something."""
        command, sequence = request.get("command"), request.get("seq")
        if not isinstance(sequence, int):
            return
        if command in EVALUATING:
            while len(self._evaluating) >= _MAX_REQUESTS:
                del self._evaluating[next(iter(self._evaluating))]
            self._evaluating[sequence] = self._clock()
        arguments = as_dict(request.get("arguments"))
        thread = arguments.get("threadId")
        # VS Code asks for the first frame, and then for those from startFrame on.
        if command == "stackTrace" and isinstance(thread, int) and not arguments.get("startFrame"):
            while len(self._asked) >= _MAX_REQUESTS:
                del self._asked[next(iter(self._asked))]
            self._asked[sequence] = thread

    def answered(self, sequence: object, response: Message) -> None:
        """Note a response, and read the position from the response to a stackTrace."""
        if not isinstance(sequence, int):
            return
        self._evaluating.pop(sequence, None)
        thread = self._asked.pop(sequence, None)
        if thread is None or thread not in self.held:
            return
        frames = as_list(as_dict(response.get("body")).get("stackFrames"))
        top = as_dict(frames[0]) if frames else {}
        path, line = as_dict(top.get("source")).get("path"), top.get("line")
        if isinstance(path, str) and isinstance(line, int):
            self._last = "%s:%d (%s)" % (os.path.basename(path)[-_MAX_NAME:], line, self.reasons[thread])
            self._report(self._last)

    def evaluates(self, after: float) -> bool:
        """Return whether an evaluation that began after this time has been running for EVALUATES_S.

        A thread that has ended never answers, so evaluations from before a later stop do not count.
        """
        until = self._clock() - EVALUATES_S
        return any(after < began < until for began in list(self._evaluating.values()))

    def happened(self, name: object, content: Message, *, withheld: bool = False) -> None:
        """Handle an event of the adapter, which may be withheld from the client."""
        thread = content.get("threadId")
        if name == "stopped" and isinstance(thread, int) and len(self._stopped) < _MAX_THREADS:
            self._going.discard(thread)
            self._stopped.add(thread)
            self.stopped_at = self._clock()
            reason = str(content.get("reason", "pause"))[:40]
            if not withheld:
                self.reasons[thread] = reason
            self._last = reason
            self._report(reason)
            return
        if not self._stopped:
            return
        if name in ("exited", "terminated") or (
            name == "continued" and content.get("allThreadsContinued") is True
        ):
            self.reasons.clear()
            self._stopped.clear()
        elif name == "continued" or (name == "thread" and content.get("reason") == "exited"):
            thread = thread if isinstance(thread, int) else -1
            self.reasons.pop(thread, None)
            self._stopped.discard(thread)
        if not self._stopped:
            self._report("")
        elif name == "continued":
            self.refused()
