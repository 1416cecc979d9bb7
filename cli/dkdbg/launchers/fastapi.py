"""fastapi-cli (fastapi_cli/cli.py, discover.py)."""

from __future__ import annotations

from dkdbg.launchers.shapes import ScriptServer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dkdbg.launchers.launcher import Launch, Line


class FastAPI(ScriptServer):
    """fastapi run, fastapi dev; without a file it looks for one."""

    names = ("fastapi",)
    programs = ("fastapi",)
    modules = ("fastapi",)
    verbs = ("run", "dev")
    port = 8000
    value_options = (
        "--host",
        "--port",
        "--workers",
        "--root-path",
        "--app",
        "--reload-dir",
        "--entrypoint",
        "-e",
    )
    discovers = ("main.py", "app.py", "api.py", "app/main.py", "app/app.py", "app/api.py")
    child = "fastapi server process"
    child_by = "spawn"
    child_options = ("dev", "--workers", "--reload")

    def launch(self, line: Line) -> Launch | None:
        """Return the file, or a launch without one."""
        found = super().launch(line)
        if found is None and line.rest[:1] in (["run"], ["dev"]):
            return self.launched(line, None, line.rest)
        return found


LAUNCHER = FastAPI()
