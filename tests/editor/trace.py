"""What the editor sent, received and did, as the stand-in extension wrote it down."""

import json
from pathlib import Path
from typing import Any


class Trace:
    """The lines of a trace file, oldest first; times are seconds since the epoch."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def lines(self, kind: str = "") -> list[dict[str, Any]]:
        """The lines of this kind, or all; one that is still being written is left out."""
        text = self.file.read_text() if self.file.exists() else ""
        lines = [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]
        return [line for line in lines if kind in ("", line["kind"])]

    def messages(self, name: str, kind: str = "received") -> list[dict[str, Any]]:
        """Lines with the DAP events, requests or responses of this name."""
        return [
            line
            for line in self.lines(kind)
            if name in (line["message"].get("event"), line["message"].get("command"))
        ]

    def sessions(self) -> list[str]:
        """Names of the sessions that have begun and not ended."""
        alive = {line["session"]: line["name"] for line in self.lines("session-start")}
        for line in self.lines("session-end"):
            alive.pop(line["session"], None)
        return list(alive.values())
