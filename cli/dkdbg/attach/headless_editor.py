"""Keeps a root session with each target while a client is on the port of one process, so that processes join."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from dkdbg.agent.dap import frames, messages
from dkdbg.attach.editor import Editor

if TYPE_CHECKING:
    from collections.abc import Callable

    from dkdbg.attach.actions import Branch, Offer, Process
    from dkdbg.attach.switchboard import Switchboard


class HeadlessEditor(Editor):
    """An editor without a socket, which attaches to every target and opens no child session.

    Args:
        offer: takes an announced process, and tells whether a client waits for it. Other processes are resumed: they would
            wait at their start for DKDBG_JOIN_DEADLINE seconds.
        over: called when an upstream has ended its session.

    Attributes:
        is_over: its session has ended.
        refusal: why the targets announce no processes to it, in one line; empty while they do or may.
    """

    def __init__(
        self, board: Switchboard, *, offer: Callable[[Process], bool], over: Callable[[], None]
    ) -> None:
        super().__init__(board, "")
        self._offer = offer
        self._over = over
        self.is_over = False
        self.refusal = ""

    def begin(self) -> None:
        """Attach to all targets."""
        self.join()
        self._ask("initialize", {"clientID": "dkdbg-ports", "adapterID": "debugpy", "pathFormat": "path"})
        token = {"dkdbgToken": self.board.token} if self.board.token else {}
        self._ask("attach", {"justMyCode": True, **token})

    def to_client(self, body: bytes) -> None:
        """Configure the session after `initialized`."""
        message = frames.decode(body)
        said = message.get("event")
        if message.get("type") == "response" and message.get("success") is not True:
            self.refusal = str(message.get("message") or "refused").removeprefix("dkdbg: ")
        elif said == "initialized":
            threading.Thread(target=self._ask, args=("configurationDone", {}), daemon=True).start()
        elif said == "terminated" and not self.is_over:
            self.is_over = True
            threading.Timer(0.2, self._over).start()

    def close(self) -> None:
        """Note the end; there is no connection to close."""
        self.is_over = True

    def branch(self, branch: Branch) -> None:
        """Do nothing: it opens no child session."""

    def offer(self, offer: Offer) -> None:
        """Put the process on its port."""
        if not self._offer(offer.process):
            self.act(lambda: self.router.release(offer.process))

    def _ask(self, command: str, arguments: dict[str, object]) -> None:
        self.act(lambda: self.router.from_client(messages.request(1, command, arguments)))
