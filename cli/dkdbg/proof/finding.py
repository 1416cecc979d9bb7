"""A broken link of the chain from a breakpoint to a stop (launch entry, image, agent, ..., line). Pure."""

from __future__ import annotations

import shlex
from dataclasses import asdict, dataclass
from pathlib import PurePath

from dkdbg.printable import printable

#: Maximum characters of a detail line on a terminal. JSON has the whole line.
_WIDTH = 300


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A broken link, its cause and its remedy.

    Attributes:
        link: which link is broken: `setup`, `engine`, `port`, `image`, `command`, `start`, `listen`, `agent`, `attach`,
            `mapping`, `file`, `process`, `line`, `program`, `gpu`.
        cause: stable name of the cause, such as `wrong-root`, as in docs/troubleshooting.md.
        says: one sentence: what is wrong, with its values.
        remedy: what to type or change next.
        detail: lines that show the cause, such as the program's last output.
        subject: value that `--fix` needs: the missing distribution, Debian package or argument, the right command, or
            the file with a wrong mapping; may be empty.
    """

    link: str
    cause: str
    says: str
    remedy: str
    detail: tuple[str, ...] = ()
    subject: str = ""

    def lines(self) -> list[str]:
        """Return the finding as lines for a terminal; text from a target cannot add a line."""
        shown = [f"  | {line[:_WIDTH]}" for line in self.detail]
        lines = [f"{self.link}: {self.says}  [{self.cause}]", *shown, f"  remedy: {self.remedy}"]
        return [printable(each) for each in lines]

    def as_json(self) -> dict[str, object]:
        """Return the finding as a JSON object."""
        return {**asdict(self), "detail": list(self.detail)}


def silent(says: str, remedy: str) -> Finding:
    """Return the finding for an agent that does not answer, or whose answer is unusable."""
    return Finding(link="agent", cause="agent-silent", says=says, remedy=remedy)


def with_lf(path: str) -> str:
    """Return the remedy for a local file with CRLF. `git add --renormalize` would change only the index."""
    return rf"sed -i 's/\r$//' {shlex.quote(path)}; '*{PurePath(path).suffix} text eol=lf' in .gitattributes keeps git from writing CRLF again"


class BrokenError(Exception):
    """Raised at the first broken link, with its finding."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.says)
        self.finding = finding
