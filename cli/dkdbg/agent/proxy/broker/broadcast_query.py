"""Sends one query to many processes and collects each answer, or the reason for a missing one. No I/O.

Serves `dkdbg ranks`, and `@all EXPRESSION` in an editor's Debug Console. No editor is detached: the broker sends the
query on the connection of each process's controller, as it does for an observer. Expressions are evaluated in the
stopped thread, so a running rank cannot be queried.
"""

from __future__ import annotations

import os
import re

from dkdbg.agent.dap import messages
from dkdbg.agent.dap.messages import as_dict, as_list, as_text
from dkdbg.agent.inprocess import ranks
from dkdbg.agent.inprocess.ranks import EVERYONE
from dkdbg.agent.proxy.broker import comparing
from dkdbg.agent.proxy.broker.connection import LATER, Action
from dkdbg.agent.state import job

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

    from dkdbg.agent import contract
    from dkdbg.agent.dap.messages import Message
    from dkdbg.agent.inprocess.ranks import RankSet
    from dkdbg.agent.proxy.broker.connection import Connection
    from dkdbg.agent.proxy.broker.sessions import Sessions

    #: One process as a JSON object; see BroadcastQuery.rows.
    Row = Dict[str, Any]

EVALUATE, STACK, PAUSE, CONTINUE = "eval", "stack", "pause", "continue"
VERBS = (EVALUATE, STACK, PAUSE, CONTINUE)
#: Verbs that change nothing.
READS = (EVALUATE, STACK)
#: Evaluation context that makes array_views describe tensors for a comparison (array_views.COMPARED).
_COMPARED = "dkdbg-compare"
#: Maximum characters of an answer, frames of a stack, and queried processes.
MAX_CHARACTERS = 20000
MAX_FRAMES = 100
MAX_PROCESSES = 1024
_EXCEPTION = re.compile(r"(Error|Exception|Exit|Interrupt|Iteration|Warning)$")
#: States of a row, the value of its `state`.
VALUE, ERROR, RUNNING, SILENT, FREE, DONE = "value", "error", "running", "no answer", "not attached", "done"
#: Maximum seconds for a rank to evaluate; the answers of the other ranks wait for it.
CONSOLE_TIMEOUT_S = 10.0
#: `@all EXPRESSION` or `@0,3 EXPRESSION`: no Python expression begins like this.
_FORM = re.compile(r"\s*@\s*([A-Za-z0-9][A-Za-z0-9,:\-]*)(?:\s+(.*))?\Z", re.DOTALL)
_CONTEXTS = ("repl", None)


class Query:
    """A query to ranks.

    Args:
        verb: one of VERBS. expression: for EVALUATE. frame: how many callers above the top of the stack.
        ranks: ranks to query.
    """

    def __init__(self, verb: str, expression: str = "", frame: int = 0, ranks: RankSet = EVERYONE) -> None:
        self.verb, self.expression, self.frame, self.ranks = verb, expression, frame, ranks


class BroadcastQuery:
    """One query and its answers.

    Args:
        sessions: all sessions of the port. processes: from the session's record.
        finished: called once, after the last answer or the timeout; returns actions.

    Attributes:
        rows: one for each queried process: `pid`, `rank` (or null), `name`, `state` (VALUE, ERROR, ...), `where`
            (`file:line`, empty while it runs), `text` (the value, or why it is missing), `type`, for tensors
            `tensor` (see array_views.described), `frames` for STACK (name, path, line).
    """

    def __init__(
        self,
        query: Query,
        sessions: Sessions,
        processes: Sequence[contract.Process],
        finished: Optional[Callable[[BroadcastQuery], List[Action]]] = None,
    ) -> None:
        self.query = query
        self._sessions = sessions
        self._finished = finished
        self._waiting: Dict[int, Row] = {}
        self.rows: List[Row] = [
            {
                "pid": each["pid"], "rank": each["rank"], "name": each["name"] or "process %d" % each["pid"],
                "state": FREE, "where": "", "text": "", "type": "",
            }
            for each in chosen(processes, query.ranks)
        ]  # fmt: skip

    @property
    def is_done(self) -> bool:
        """Return whether all answers have arrived."""
        return not self._waiting

    def begin(self) -> List[Action]:
        """Send the query to all ranks."""
        actions: List[Action] = []
        asked: List[Tuple[Row, Connection]] = []
        for row in self.rows:
            controller = self._sessions.controller(row["pid"])
            if controller is None or not controller.phase.lends:
                row["text"] = "no editor is attached to it"
                continue
            if self.query.verb != PAUSE and not controller.stops.reasons:
                row["state"], row["text"] = RUNNING, "it runs"
                if self.query.verb == CONTINUE:
                    row["state"] = DONE
                continue
            if self.query.verb == PAUSE and controller.stops.reasons:
                row["state"], row["text"] = DONE, "it was already stopped"
                continue
            self._waiting[row["pid"]] = row
            asked.append((row, controller))
        for row, controller in asked:
            actions += self._first(row, controller)
        return actions + self._finish()

    def give_up(self, why: str) -> List[Action]:
        """Stop waiting for answers."""
        for row in list(self._waiting.values()):
            self._answer(row, SILENT, why)
        return self._finish()

    def mark_running(self) -> None:
        """Mark the processes that have not stopped yet: they are running, inside a call."""
        for row in self.running():
            row["state"], row["text"] = (
                RUNNING,
                "asked to stop; it is inside a call, and stops at its next line",
            )

    def running(self) -> List[Row]:
        """Return the rows of the processes that were asked to pause, and have not stopped."""
        found = []
        for row in self.rows:
            controller = self._sessions.controller(row["pid"])
            if row["state"] == DONE and controller is not None and not controller.stops.reasons:
                found.append(row)
        return found

    def _first(self, row: Row, controller: Connection) -> List[Action]:
        thread = next(reversed(list(controller.stops.reasons)), 0)
        if self.query.verb == PAUSE:
            return controller.phase.ask("threads", {}, lambda answer: self._pause(row, controller, answer))
        if self.query.verb == CONTINUE:
            return controller.phase.ask(
                "continue", {"threadId": thread}, lambda answer: self._did(row, answer)
            )
        levels = MAX_FRAMES if self.query.verb == STACK else self.query.frame + 1
        wanted = {"threadId": thread, "startFrame": 0, "levels": levels}
        return controller.phase.ask(
            "stackTrace", wanted, lambda answer: self._frames(row, controller, answer)
        )

    def _pause(self, row: Row, controller: Connection, answer: Message) -> List[Action]:
        threads = as_list(as_dict(answer.get("body")).get("threads"))
        first = as_dict(threads[0]).get("id") if threads else None
        if not isinstance(first, int):
            return self._answered(row, ERROR, _reason(answer))
        return controller.phase.ask("pause", {"threadId": first}, lambda answer: self._did(row, answer))

    def _did(self, row: Row, answer: Message) -> List[Action]:
        if answer.get("success") is True:
            return self._answered(row, DONE, "")
        return self._answered(row, ERROR, _reason(answer))

    def _frames(self, row: Row, controller: Connection, answer: Message) -> List[Action]:
        if row["pid"] not in self._waiting:
            return []
        listed = as_list(as_dict(answer.get("body")).get("stackFrames"))
        frames = [as_dict(each) for each in listed[:MAX_FRAMES]]
        if answer.get("success") is not True or not frames:
            return self._answered(row, ERROR, _reason(answer))
        found = [_frame(each) for each in frames]
        if self.query.verb == STACK:
            row["where"], row["frames"] = _place(found[0]), found
            return self._answered(row, VALUE, "")
        if self.query.frame >= len(frames):
            return self._answered(row, ERROR, "its stack has %d frames" % len(frames))
        row["where"] = _place(found[self.query.frame])
        wanted = {
            "expression": self.query.expression,
            "frameId": frames[self.query.frame].get("id"),
            "context": _COMPARED,
        }
        return controller.phase.ask("evaluate", wanted, lambda answer: self._value(row, answer))

    def _value(self, row: Row, answer: Message) -> List[Action]:
        body = as_dict(answer.get("body"))
        if answer.get("success") is not True:
            return self._answered(row, ERROR, _reason(answer))
        text, row["type"] = as_text(body.get("result")), as_text(body.get("type"))[:200]
        tensor = _tensor(text, row["type"])
        if tensor is not None:
            row["tensor"], text = tensor, str(tensor["text"])
        # In this context debugpy returns the exception that an expression has raised as if it were the
        # expression's value.
        raised = _EXCEPTION.search(row["type"]) is not None and text.startswith(row["type"] + "(")
        return self._answered(
            row,
            ERROR if raised else VALUE,
            text[:MAX_CHARACTERS] + ("..." if len(text) > MAX_CHARACTERS else ""),
        )

    def _answered(self, row: Row, state: str, text: str) -> List[Action]:
        if row["pid"] not in self._waiting:
            return []
        self._answer(row, state, text)
        return self._finish()

    def _answer(self, row: Row, state: str, text: str) -> None:
        self._waiting.pop(row["pid"], None)
        row["state"], row["text"] = state, text

    def _finish(self) -> List[Action]:
        if self._waiting or self._finished is None:
            return []
        finished, self._finished = self._finished, None
        return finished(self)


def chosen(processes: Sequence[contract.Process], ranks: RankSet) -> List[contract.Process]:
    """Return the processes of a set of ranks, by rank; all processes of a program without ranks."""
    found = [each for each in (job.own(processes) or processes) if ranks.contains(each["rank"])]
    return sorted(found, key=lambda each: (each["rank"] is None, each["rank"] or 0, each["started"]))[
        :MAX_PROCESSES
    ]


def _tensor(text: str, kind: str) -> Optional[Dict[str, Any]]:
    """Parse array_views' description of a tensor; return None for any other text that a program prints."""
    import json

    if kind == "str" or not text.startswith('{"text": ') or len(text) > MAX_CHARACTERS:
        return None
    try:
        answer = as_dict(json.loads(text))
    except ValueError:
        return None
    found: Dict[str, Any] = {
        name: answer[name]
        for name in ("text", "shape", "dtype", "digest")
        if isinstance(answer.get(name), str)
    }
    if "text" not in found:
        return None
    return dict(found, **comparing.figures(answer))


def _frame(frame: Message) -> Dict[str, Any]:
    line, name = frame.get("line"), frame.get("name")
    return {
        "name": name[:200] if isinstance(name, str) else "?",
        "path": as_text(as_dict(frame.get("source")).get("path"))[:4096],
        "line": line if isinstance(line, int) else 0,
    }


def _place(frame: Dict[str, Any]) -> str:
    return "%s:%d" % (os.path.basename(frame["path"]) or "?", frame["line"])


def _reason(answer: Message) -> str:
    """Return the last line of a failed request's message: in a traceback, that is the error."""
    lines = as_text(answer.get("message")).strip().splitlines()
    return lines[-1][:400] if lines else "it did not answer"


def asks_ranks(request: Message) -> bool:
    """Tell whether an `evaluate` request of an editor's Debug Console is for several ranks."""
    arguments = as_dict(request.get("arguments"))
    text = arguments.get("expression")
    if (
        not isinstance(text, str)
        or arguments.get("context") not in _CONTEXTS
        or not text.lstrip().startswith("@")
    ):
        return False
    return "\n" not in text.strip() and _FORM.match(text) is not None  # otherwise a function with a decorator


def ask_ranks(request: Message, connection: Connection, sessions: Sessions) -> List[Action]:
    """Query the ranks; answer with a table once all have answered, or after CONSOLE_TIMEOUT_S seconds.

    This grants no new access: a client with a session of this port can evaluate in each rank anyway.
    """
    match = _FORM.match(as_dict(request.get("arguments"))["expression"])
    assert match is not None  # noqa: S101 - checked by asks_ranks
    try:
        wanted = ranks.parse(match.group(1))
    except ranks.RankSetError as error:
        return [connection.refuse(request, "%s; %s" % (error, error.hint))]
    if not match.group(2):
        return [connection.refuse(request, "no expression: type @%s EXPRESSION" % match.group(1))]

    def finished(found: BroadcastQuery) -> List[Action]:
        text = comparing.table(found.rows)
        return [connection.to_client(messages.answer(request, result=text, variablesReference=0))]

    found = BroadcastQuery(
        Query(EVALUATE, match.group(2).strip(), ranks=wanted),
        sessions,
        sessions.agent.processes(),
        finished,
    )
    actions = found.begin()
    if found.is_done:
        return actions
    late = "no answer within %g s" % CONSOLE_TIMEOUT_S
    return [*actions, Action(LATER, connection, seconds=CONSOLE_TIMEOUT_S, later=lambda: found.give_up(late))]
