"""Litestar (litestar/cli)."""

from __future__ import annotations

from dkdbg.launchers.shapes import ScriptServer
from dkdbg.launchers.words import app_module, value_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dkdbg.launchers.launcher import Launch, Line


class Litestar(ScriptServer):
    """litestar run; the app is `--app module:app`, or it looks for one."""

    names = ("litestar",)
    programs = ("litestar",)
    modules = ("litestar",)
    verbs = ("run",)
    port = 8000
    port_options = ("-p",)
    value_options = (
        "--app",
        "--app-dir",
        "-p",
        "--port",
        "-H",
        "--host",
        "--wc",
        "--web-concurrency",
        "--fd",
        "--uds",
        "--reload-dir",
        "-R",
    )
    discovers = ("app.py", "application.py", "asgi.py")

    def launch(self, line: Line) -> Launch | None:
        """Return the module of `--app`, else a file, or a launch without one."""
        module = app_module(value_of(line.rest, ("--app",)) or "")
        if module is not None:
            return self.launched(line, module, line.rest, is_module=True)
        return super().launch(line) or (self.launched(line, None, line.rest) if "run" in line.rest else None)


LAUNCHER = Litestar()
