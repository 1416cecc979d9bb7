"""A shell: it runs the lines of `-c`, or a script that has to be read in turn."""

from __future__ import annotations

from dkdbg.launchers.launcher import Launch, Launcher

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from dkdbg.launchers.launcher import Line


class Bash(Launcher):
    """bash, sh, ...; a script is shown as the program of its line."""

    def launch(self, line: Line) -> Launch | None:
        """Return the last program of the lines, which stays up; those before it prepare."""
        text = self.lines_of(line.rest)
        if text is not None:
            found = line.read.line(text)
            return found[-1] if found else None
        script = self.script_of(line.rest)
        if script is None or not script[0].endswith(".sh"):
            return None
        return Launch(command=self.shown(line), launcher="bash", args=script[1:], shell_script=script[0])

    @staticmethod
    def lines_of(rest: Sequence[str]) -> str | None:
        """Return the text behind `-c` (`-lc`, ...), None without one."""
        for place, word in enumerate(rest):
            if not word.startswith("-"):
                return None
            if "c" in word and not word.startswith("--") and place + 1 < len(rest):
                return rest[place + 1]
        return None

    @staticmethod
    def script_of(rest: Sequence[str]) -> Sequence[str] | None:
        """Return the script with its arguments, None without one."""
        place = next((at for at, word in enumerate(rest) if not word.startswith("-")), None)
        return None if place is None else rest[place:]


BASH = Bash("bash", programs="bash sh zsh ash dash source .")
