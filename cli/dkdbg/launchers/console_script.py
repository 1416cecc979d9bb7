"""A console script that the repository itself declares."""

from __future__ import annotations

from dkdbg.launchers.launcher import Launcher

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dkdbg.launchers.launcher import Launch, Line


class ConsoleScript(Launcher):
    """Its names are the repository's: `lines.command_lines` is told them."""

    names = ("console-script",)

    def launch(self, line: Line) -> Launch | None:
        """Return its name as the target."""
        return self.launched(line, line.word, line.rest)


LAUNCHER = ConsoleScript()
