"""Compares files in which an editor sets breakpoints with those at the target, by digests from its agent."""

from __future__ import annotations

import os
import shlex
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from dkdbg.agent.dap import frames, messages, paths, sources
from dkdbg.agent.dap.messages import as_dict
from dkdbg.core.target import Capability

if TYPE_CHECKING:
    from collections.abc import Callable

    from dkdbg.agent.dap.messages import Message
    from dkdbg.core.target import Target

#: Seconds to wait for a running `dkdbg sync` after a save, before a difference is reported.
SYNC_TIMEOUT_S = 5.0


@dataclass(frozen=True, kw_only=True)
class Asked:
    """An open query to the agent.

    Attributes:
        request: sequence number of the editor's setBreakpoints; None if that was answered already.
        path, there: the file's path here and at the target. mapping: its folder here and at the target.
        line: line of its first breakpoint.
    """

    request: int | None
    path: str
    there: str
    mapping: tuple[str, str]
    line: int


class Sources:
    """Files of one child session.

    Args:
        mappings: `pathMappings` of the attach; only files below one of their local roots are compared.
        target, label: where the process runs, and its name for people.
        told: differences already reported to this editor, by any of its sessions.
        number: returns the next sequence number of the proxy.

    Attributes:
        is_answered: the agent answers queries; older ones do not.
    """

    def __init__(
        self,
        mappings: object,
        target: Target,
        label: str,
        told: dict[object, object],
        number: Callable[[], int],
    ) -> None:
        self._mappings = [
            (os.path.normpath(local), remote)
            for local, remote in paths.pairs(mappings)
            if local.startswith("/")
        ]
        self._target, self._label, self._told, self._number = target, label, told, number
        self._asked: dict[int, Asked] = {}
        self._differing: dict[int, str] = {}
        self.is_answered = False

    def question(self, body: bytes) -> list[bytes]:
        """Return the queries to send to the agent before this request of the editor."""
        if not self.is_answered or b"setBreakpoints" not in body:
            return []
        try:
            request = frames.decode(body)
        except frames.FrameError:  # the agent refuses it
            return []
        arguments = as_dict(request.get("arguments"))
        path, wanted = as_dict(arguments.get("source")).get("path"), arguments.get("breakpoints")
        if (
            request.get("command") != "setBreakpoints"
            or not isinstance(path, str)
            or not isinstance(wanted, list)
        ):
            return []
        line = as_dict(wanted[0]).get("line") if wanted else None
        full, number = os.path.normpath(path), request.get("seq")
        found = paths.mapped(full, self._mappings)
        if found is None or full == found[0][0] or not isinstance(line, int) or not isinstance(number, int):
            return []
        return [self.ask(Asked(request=number, path=full, mapping=found[0], there=found[1], line=line))]

    def ask(self, asked: Asked) -> bytes:
        """Encode a query."""
        number = self._number()
        self._asked[number] = asked
        return messages.request(number, messages.SOURCE, {"path": asked.there})

    def answered(self, message: Message) -> tuple[str, Asked | None] | None:
        """Handle an answer of the agent; None for any other message.

        Returns:
            A line for the editor's console, empty for none, and the query to repeat after SYNC_TIMEOUT_S.
        """
        number = message.get("request_seq")
        asked = self._asked.pop(number, None) if isinstance(number, int) else None
        if asked is None:
            return None
        there, here = as_dict(message.get("body")), sources.look(asked.path)
        digest, lines = there.get("digest"), there.get("lines")
        if not here or not isinstance(digest, str) or digest == here["digest"]:
            return "", None
        if not isinstance(lines, int) or not 0 <= lines <= sources.MAX_BYTES:
            return "", None
        if asked.request is not None and abs(time.time() - here["changed"]) < SYNC_TIMEOUT_S:
            return "", replace(asked, request=None)
        text = self._described(asked, here["lines"] - lines)
        if asked.request is not None:
            self._differing[asked.request] = text
        mark, which = object(), (self._label, asked.path, here["digest"], digest)
        is_new = self._told.setdefault(which, mark) is mark
        return f"{Path(asked.path).name}:{asked.line}: {text}" if is_new else "", None

    def noted(self, message: Message) -> Message | None:
        """Return the answer to setBreakpoints with the difference noted at each breakpoint; None for other messages."""
        number = message.get("request_seq")
        text = self._differing.pop(number, "") if isinstance(number, int) else ""
        found = as_dict(message.get("body")).get("breakpoints")
        if not text or not isinstance(found, list):
            return None
        lines = [{"message": text, **each} if isinstance(each, dict) else each for each in found]
        return {**message, "body": {**message["body"], "breakpoints": lines}}

    def _described(self, asked: Asked, more: int) -> str:
        count = (
            f" ({abs(more)} line{'s' * (abs(more) != 1)} {'more' if more > 0 else 'fewer'} here)"
            if more
            else ""
        )
        text = f"the file here and the one at {self._label} differ{count}: the breakpoint may stand in other code"
        if Capability.ATTACH_ONLY in self._target.capabilities:
            return text
        local, remote = asked.mapping
        folder = () if Path(local) == Path.cwd() else ("-C", local)
        words = ("dkdbg", *folder, "sync", str(self._target.address), "--to", remote)
        return f"{text}. Run `{shlex.join(words)}`"
