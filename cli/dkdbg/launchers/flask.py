"""Flask (flask/cli.py)."""

from __future__ import annotations

from dkdbg.launchers.launcher import SERVER, Launcher
from dkdbg.launchers.words import value_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dkdbg.launchers.launcher import Launch, Line


class Flask(Launcher):
    """flask run; with `--debug` the app runs in a second process with the same command line (werkzeug's reloader)."""

    names = ("flask",)
    programs = ("flask",)
    modules = ("flask",)
    role = SERVER
    verbs = ("run",)
    port = 5000
    port_options = ("-p",)
    value_options = ("--app", "-A", "-e", "--env-file", "-h", "--host", "-p", "--port", "--cert", "--key")
    discovers = ("wsgi.py", "app.py")
    dotted_app = True
    child = "flask server process"
    child_by = "again"

    def launch(self, line: Line) -> Launch | None:
        """Return the app, or a launch without one."""
        if "run" not in line.rest:
            return None
        app = value_of(line.rest, ("--app", "-A"))
        return self.launched(line, app, is_module=not (app or "").endswith(".py"))


LAUNCHER = Flask()
