"""Launchers of servers with rules that a row of the table cannot hold."""

from __future__ import annotations

from dkdbg.launchers.launcher import Launch, Launcher
from dkdbg.launchers.shapes import ScriptServer
from dkdbg.launchers.words import app_module, value_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from dkdbg.launchers.launcher import Line

#: Subcommands of Jupyter that end.
_JUPYTER_ENDS = (
    "nbconvert", "execute", "run", "kernelspec", "trust", "console", "troubleshoot", "labextension", "nbextension", "migrate",
)  # fmt: skip


class FastAPI(ScriptServer):
    """fastapi run, fastapi dev."""

    def launch(self, line: Line) -> Launch | None:
        """Return the file, or a launch without one."""
        found = super().launch(line)
        if found is None and line.rest[:1] in (["run"], ["dev"]):
            return self.launched(line, None, line.rest)
        return found


class Litestar(ScriptServer):
    """litestar run; the app is `--app module:app`, or it looks for one."""

    def launch(self, line: Line) -> Launch | None:
        """Return the module of `--app`, else a file, or a launch without one."""
        module = app_module(value_of(line.rest, ("--app",)) or "")
        if module is not None:
            return self.launched(line, module, line.rest, is_module=True)
        return super().launch(line) or (self.launched(line, None, line.rest) if "run" in line.rest else None)


class Flask(Launcher):
    """flask run."""

    def launch(self, line: Line) -> Launch | None:
        """Return the app, or a launch without one."""
        if "run" not in line.rest:
            return None
        app = value_of(line.rest, ("--app", "-A"))
        return self.launched(line, app, is_module=not (app or "").endswith(".py"))


class Django(Launcher):
    """manage.py; its other verbs prepare, such as `manage.py migrate`."""

    def launch(self, line: Line) -> Launch | None:
        """Return the script if it runs a server or job, or has no verb."""
        if not line.word.endswith("manage.py"):
            return None
        if line.rest and not line.rest[0].startswith("run"):
            return None
        return Launch(command=self.shown(line), launcher="python", target=line.word, args=line.rest)

    def port_of(self, words: Sequence[str]) -> int | None:
        """Return the port of `runserver 0.0.0.0:8000` or `runserver 8000`."""
        for word in words:
            number = word.rpartition(":")[2]
            if number.isdigit() and 3 < len(number) < 6:
                return int(number)
        return super().port_of(words)


class Gradio(Launcher):
    """gradio FILE."""

    def launch(self, line: Line) -> Launch | None:
        """Return the file, which comes first."""
        if line.rest and line.rest[0].endswith(".py"):
            return self.launched(line, line.rest[0], line.rest[1:])
        return None


class Uwsgi(Launcher):
    """uwsgi."""

    def launch(self, line: Line) -> Launch | None:
        """Return the module of `--module` or the file of `--wsgi-file`."""
        module = value_of(line.rest, ("--module", "-w", "--wsgi"))
        if module:
            return self.launched(line, module.partition(":")[0], line.rest, is_module=True)
        return self.launched(line, value_of(line.rest, ("--wsgi-file", "--file")), line.rest)


class Vllm(Launcher):
    """vllm serve, and its older form as a module."""

    def serves(self, rest: Sequence[str] = ()) -> bool:
        """Return whether the words start the server; the module has no verb."""
        return not rest or rest[0] == "serve" or rest[0].startswith("-")


class Jupyter(Launcher):
    """jupyter lab, jupyter notebook."""

    def launch(self, line: Line) -> Launch | None:
        """Return the notebook, or a launch without one."""
        if line.word == "jupyter" and line.rest[:1] not in (["lab"], ["notebook"]):
            return None
        book = next((word for word in line.rest if word.endswith(".ipynb")), None)
        return self.launched(line, book, line.rest)

    def serves(self, rest: Sequence[str] = ()) -> bool:
        """Return whether the subcommand stays up."""
        return not rest or rest[0] not in _JUPYTER_ENDS
