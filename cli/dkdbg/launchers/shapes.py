"""Base classes of most launchers: a server of an app or of a script, several copies of one program, a queue's worker."""

from __future__ import annotations

import re

from dkdbg.launchers.launcher import SERVER, WORKER, Launcher
from dkdbg.launchers.words import app_module, is_dotted, is_python_file, positionals, value_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dkdbg.launchers.launcher import Launch, Line


class AppServer(Launcher):
    """Serves `module:app`.

    Attributes:
        bare_module: whether a module alone is enough, because the name of the app has a default.
    """

    role = SERVER
    port: int | None = 8000
    bare_module = False

    def launch(self, line: Line) -> Launch | None:
        """Return the module with the app."""
        for _, word in positionals(line.rest, self.value_options):
            module = app_module(word)
            if module is None and self.bare_module and is_dotted(word) and not word.endswith(".py"):
                module = word
            if module is not None:
                return self.launched(line, module, line.rest, is_module=True)
        return None


class ScriptServer(Launcher):
    """Serves the app in one Python file."""

    role = SERVER

    def launch(self, line: Line) -> Launch | None:
        """Return the file."""
        for place, word in positionals(line.rest, self.value_options):
            if is_python_file(word):
                return self.launched(line, word, line.rest[place + 1 :])
        return None


class Spreader(Launcher):
    """Starts a script or a module several times.

    Attributes:
        runs_commands: whether whole command lines follow its options, not the script alone.
    """

    spreads = True
    runs_commands = False

    def launch(self, line: Line) -> Launch | None:
        """Return the script or module; search for it in a line with unknown options."""
        inner = self._inner(line)
        if inner is not None and (inner.target or inner.shell_script):
            return inner.under(self.shown(line), self.shown_as(line.word))
        is_value = False
        for place, word in enumerate(line.rest):
            following = line.rest[place + 1] if place + 1 < len(line.rest) else ""
            if is_value:
                is_value = False
            elif word in ("-m", "--module") and is_dotted(following):
                args = [item for item in line.rest[place + 2 :] if item != "--"]
                found = line.read.words(["python", "-m", following, *args])
                if (
                    found is not None and found.target
                ):  # another launcher, perhaps: `mpirun python -m torch...`
                    return found.under(self.shown(line), self.shown_as(line.word))
                return self.launched(line, following, args, is_module=True)
            elif is_python_file(word):
                return self.launched(line, word, line.rest[place + 1 :])
            else:
                is_value = word in self.value_options
        return None

    def _inner(self, line: Line) -> Launch | None:
        if not self.runs_commands:
            return None
        place = next((at for at, _ in positionals(line.rest, self.value_options)), len(line.rest))
        return line.read.words(line.rest[place:])


class QueueWorker(Launcher):
    """Runs the tasks of a module until it is stopped."""

    role = WORKER
    dotted_app = True

    def launch(self, line: Line) -> Launch | None:
        """Return the module of `-A`, else the first word that can be one."""
        app = value_of(line.rest, ("-A", "--app")) or next(
            (
                word
                for word in line.rest
                if re.fullmatch(r"[a-z_][\w.]*(?::\w+)?", word) and word not in ("worker", "run")
            ),
            "",
        )
        return self.launched(line, app.partition(":")[0] or None, line.rest, is_module=True)
