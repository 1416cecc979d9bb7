"""Shells, which run the text of `-c`, or a script file. The caller has to read the script."""

from __future__ import annotations

from dkdbg.launchers.launcher import Launch, Launcher

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from dkdbg.launchers.launcher import Line


class Bash(Launcher):
    """Launcher of shells: bash, sh, ..."""

    def launch(self, line: Line) -> Launch | None:
        """Return the launch of the script, or of the last program after `-c`: earlier programs only prepare for it."""
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
        """Return the text after `-c` (`-lc`, `-o pipefail -c`, ...), None without one."""
        place = _options_end(rest)
        has_lines = any(word[0] == "-" != word[1:2] and "c" in word for word in rest[:place] if word)
        return rest[place] if has_lines and place < len(rest) else None

    @staticmethod
    def script_of(rest: Sequence[str]) -> Sequence[str] | None:
        """Return the script with its arguments, None without one."""
        return rest[_options_end(rest) :] or None


def _options_end(rest: Sequence[str]) -> int:
    """Return the index after the shell's options; `-o` and `-euo` have a value (`pipefail`)."""
    place = 0
    while place < len(rest) and rest[place][:1] in ("-", "+"):
        word = rest[place]
        if word in ("-", "--"):
            return place + 1
        is_long = word.startswith("--")
        place += 2 if word in ("--rcfile", "--init-file") or (not is_long and word[-1] in "oO") else 1
    return place


BASH = Bash("bash", programs="bash sh zsh ash dash source .")
