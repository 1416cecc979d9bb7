"""A broken link of the chain from a breakpoint to a stop. No I/O."""

from __future__ import annotations

import shlex
from dataclasses import asdict, dataclass
from pathlib import PurePath

from dkdbg.printable import printable

#: Maximum characters of a line of detail on a terminal; JSON output has the whole line.
_WIDTH = 300


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A broken link with its cause and remedy.

    Attributes:
        link: the link of the chain that is broken: `setup`, `engine`, `port`, `image`, `command`, `start`,
            `listen`, `agent`, `attach`, `mapping`, `file`, `process`, `line`, `program`, `gpu`.
        cause: the kind of the cause, for programs, such as `wrong-root`; see docs/troubleshooting.md.
        says: what is wrong, with its values; one sentence.
        remedy: what to type or change next.
        detail: lines that show the cause, such as the program's last lines.
        subject: what is missing, for `--fix`: a distribution, a Debian package, the right command; or the source
            of a wrong mapping; may be empty.
    """

    link: str
    cause: str
    says: str
    remedy: str
    detail: tuple[str, ...] = ()
    subject: str = ""

    def lines(self) -> list[str]:
        """Return the finding as lines for a terminal; text from a target cannot add lines."""
        shown = [f"  | {line[:_WIDTH]}" for line in self.detail]
        lines = [f"{self.link}: {self.says}  [{self.cause}]", *shown, f"  remedy: {self.remedy}"]
        return [printable(each) for each in lines]

    def as_json(self) -> dict[str, object]:
        """Return the finding as a JSON object."""
        return {**asdict(self), "detail": list(self.detail)}


def silent(says: str, remedy: str) -> Finding:
    """Return the finding for an agent that gives no answer, or an unusable one."""
    return Finding(link="agent", cause="agent-silent", says=says, remedy=remedy)


def with_lf(path: str) -> str:
    """Return the remedy for a local file with CRLF: `git add --renormalize` changes only the index, not the file."""
    return rf"sed -i 's/\r$//' {shlex.quote(path)}; '*{PurePath(path).suffix} text eol=lf' in .gitattributes keeps git from writing CRLF again"


class BrokenError(Exception):
    """The chain is broken at this finding."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.says)
        self.finding = finding
