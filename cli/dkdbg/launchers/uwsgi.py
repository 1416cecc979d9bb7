"""uWSGI."""

from __future__ import annotations

from dkdbg.launchers.launcher import SERVER, Launcher
from dkdbg.launchers.words import value_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dkdbg.launchers.launcher import Launch, Line


class Uwsgi(Launcher):
    """uwsgi: a module, a file, or all of it in an ini file."""

    names = ("uwsgi",)
    programs = ("uwsgi",)
    role = SERVER
    port_options = ("--http", "--http-socket", "--socket", "-s")

    def launch(self, line: Line) -> Launch | None:
        """Return the module of `--module` or the file of `--wsgi-file`."""
        module = value_of(line.rest, ("--module", "-w", "--wsgi"))
        if module:
            return self.launched(line, module.partition(":")[0], line.rest, is_module=True)
        return self.launched(line, value_of(line.rest, ("--wsgi-file", "--file")), line.rest)


LAUNCHER = Uwsgi()
